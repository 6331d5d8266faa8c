//! The kernel and time for oneloop. Knows no Python.
