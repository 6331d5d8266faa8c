"""Modules of the package that need another one."""

from __future__ import annotations

from importlib.util import find_spec

NEEDS = {
    "oneloop.gunicorn": "gunicorn",
    "oneloop.green.gunicorn": "gunicorn",
    "oneloop.green.gevent_loop": "gevent",
    "oneloop.green.resolver.ares": "pycares",
    "oneloop.green.resolver.dnspython": "dns",
    "oneloop.check.checking": "pycares",
    "oneloop.check.command": "pycares",
    "oneloop.check.fetch": "pycares",
    "oneloop.check.openings": "pycares",
    "oneloop.check.places": "pycares",
    "oneloop.check.limited": "requests",
    "oneloop.check.resolver": "pycares",
    "oneloop.check.spread": "pycares",
    "oneloop.compat.httpcore": "httpcore",
    "oneloop.compat.httpcore2": "httpcore2",
    "oneloop.http.client.requests_adapter": "requests",
    "oneloop.http.client.requests_raw": "urllib3",
}


def can_import(module: str) -> bool:
    """Whether what it needs is here."""
    return module not in NEEDS or find_spec(NEEDS[module]) is not None
