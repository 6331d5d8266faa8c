"""Shows results: one document (JSON), from which the terminal, the page and the comparison are made."""
