"""Modules of the package that need another one."""

from __future__ import annotations

from importlib.util import find_spec

NEEDS = {
    "oneloop.gunicorn": "gunicorn",
    "oneloop.green.gunicorn": "gunicorn",
    "oneloop.green.gevent_loop": "gevent",
    "oneloop.green.resolver.ares": "pycares",
    "oneloop.green.resolver.dnspython": "dns",
    "oneloop.check.checking": "aiohttp",
    "oneloop.check.command": "aiohttp",
    "oneloop.check.connector": "aiohttp",
    "oneloop.check.fetch": "aiohttp",
    "oneloop.check.resolver": "aiohttp",
    "oneloop.check.spread": "aiohttp",
}


def can_import(module: str) -> bool:
    """Whether what it needs is here."""
    return module not in NEEDS or find_spec(NEEDS[module]) is not None
