"""gevent's public names, on oneloop's green threads (those of gevent 26.9).

A gevent module is the module of `oneloop.green` with the same name (`modules.py` lists the exceptions), created on
first use. Parts outside of gevent's documented interface are missing: modules whose names start with an underscore,
`libev`, `libuv`, `testing`. To run the real gevent on a oneloop loop, use `oneloop.green.gevent_loop`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oneloop.compat.gevent import modules
from oneloop.green import (
    Greenlet,
    GreenletExit,
    Timeout,
    get_hub,
    getcurrent,
    idle,
    iwait,
    joinall,
    kill,
    killall,
    sleep,
    spawn,
    spawn_later,
    spawn_raw,
    wait,
    with_timeout,
)

# The version whose names these are, because programs compare it.
__version__ = "26.9.0"
version_info = (26, 9, 0, "final", 0)

__all__ = [
    "Greenlet",
    "GreenletExit",
    "Timeout",
    "config",
    "fork",
    "get_hub",
    "getcurrent",
    "getswitchinterval",
    "idle",
    "iwait",
    "joinall",
    "kill",
    "killall",
    "reinit",
    "setswitchinterval",
    "signal_handler",
    "sleep",
    "spawn",
    "spawn_later",
    "spawn_raw",
    "wait",
    "with_timeout",
]

modules.serve(__name__)


def claim() -> None:
    """Make `import gevent.x` return this facade's modules. Called by `oneloop.compat.install`."""
    modules.claim("gevent", __name__)


if not TYPE_CHECKING:  # a type checker must not assume that every name exists

    def __getattr__(name: str) -> Any:
        owner = modules.OWNERS.get(name)
        if owner is not None:
            return getattr(import_module(owner), name)
        if name in modules.TARGETS:
            return modules.load(__name__, name)
        raise AttributeError(f"module 'gevent' has no attribute {name!r}")
