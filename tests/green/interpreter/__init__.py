"""The interpreter's own tests, run patched and unpatched: tests that pass unpatched should also pass patched.

`python -m tests.green.interpreter` runs all of them; `known.toml` lists those that fail patched, with the reasons.
"""
