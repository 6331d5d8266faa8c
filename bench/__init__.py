"""The bench: one instrument for every claim about speed. Run it as `python -m bench`; not part of the package."""
