"""The interpreter's own `test.test_asyncio`, run on a loop of our choice and compared with stock asyncio.

`python -m tests.conformance` runs both loops and compares; `--loop` runs one. See `exceptions.toml`
for what is left out or excused, test by test, with reasons.
"""
