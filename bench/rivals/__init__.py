"""The rivals' programs, one file per rival or form; each prints `ready PORT` and serves until it is killed."""
