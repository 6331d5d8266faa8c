"""The interpreter's own tests, run patched and unpatched: what passes unpatched should pass patched.

`python -m tests.green.interpreter` runs them all; `known.toml` lists those that fail patched, with the reason.
"""
