"""The documents, and in `site` what builds the documentation site of them."""
