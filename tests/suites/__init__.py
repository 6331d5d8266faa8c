"""What the runs of other projects' suites have in common: CPython's (`conformance`), gevent's (`gevent_suite`)."""
