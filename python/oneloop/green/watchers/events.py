"""Constants for events. They are libev's, which programs on gevent use."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["EVENTS", "MAXPRI", "MINPRI", "READ", "WRITE", "events_to_str"]

READ: Final = 1
WRITE: Final = 2
IO_SET: Final = 0x80
TIMER: Final = 0x100
SIGNAL: Final = 0x400
CHILD: Final = 0x800
STAT: Final = 0x1000
IDLE: Final = 0x2000
PREPARE: Final = 0x4000
CHECK: Final = 0x8000
FORK: Final = 0x20000
ASYNC: Final = 0x80000
CUSTOM: Final = 0x1000000
ERROR: Final = 0x80000000

MAXPRI: Final = 2
MINPRI: Final = -2

_NAMES = {READ: "READ", WRITE: "WRITE", IO_SET: "_IOFDSET"}


class _Events:
    """As first argument of a watcher's callback: a placeholder that is replaced by the events."""

    def __repr__(self) -> str:
        return "gevent.core.EVENTS"


EVENTS: Any = _Events()


def events_to_str(events: int) -> str:
    """The names of events, joined by `|`."""
    names = [name for number, name in _NAMES.items() if events & number]
    rest = events & ~sum(_NAMES)
    return "|".join([*names, hex(rest)] if rest else names)
