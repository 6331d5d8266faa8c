"""Mistakes that somebody could make, and the tests that must see them.

`python -m tests.mutants` applies one mistake at a time to a copy of the checkout, runs the tests that its record names,
and says which mutants survive. See `records.py` for what a record is.
"""
