"""System calls fail, one at a time: docs/design/0024-faults.md. `python -m tests.faults` runs all of it."""
