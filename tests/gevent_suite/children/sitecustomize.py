"""Prepares each Python process of the suite; its folder is first on PYTHONPATH."""

from tests.gevent_suite import entry

entry.enter()
