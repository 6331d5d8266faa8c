"""Public bug reports about packages that do what oneloop does, each as a record and a test.

`records` says for each report where it stands, what was seen, what is right, and which versions of the original are
wrong. Most tests are here; where a test elsewhere shows it, the record names that. `python -m tests.reports` writes
docs/explanation/reports.md from the records.
"""
