"""gevent's own test suite, on the facade of gevent.

`python -m tests.gevent_suite` runs each of its files in a process of its own; `--on gevent` runs them on the installed
gevent. `exceptions.toml` says which tests are not run or may fail, one by one, with reasons.
"""
