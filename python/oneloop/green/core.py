"""`gevent.core`: a standalone event loop, and libev's constants for programs that use them."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Final

import oneloop
from oneloop.green.driven import DrivenLoop
from oneloop.green.loop import Callback as callback  # noqa: N813 - gevent's name
from oneloop.green.watchers.events import (
    READ,
    WRITE,
    events_to_str,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "callback",
    "embeddable_backends",
    "get_header_version",
    "get_version",
    "loop",
    "recommended_backends",
    "supported_backends",
    "time",
]

NONE: Final = 0
UNDEF: Final = 0xFFFFFFFF
READWRITE: Final = READ | WRITE
PERIODIC: Final = 0x200
EMBED: Final = 0x10000
CLEANUP: Final = 0x40000
BACKEND_SELECT: Final = 0x1
BACKEND_POLL: Final = 0x2
BACKEND_EPOLL: Final = 0x4
BACKEND_KQUEUE: Final = 0x8
BACKEND_DEVPOLL: Final = 0x10
BACKEND_PORT: Final = 0x20
BACKEND_LINUXAIO: Final = 0x40
BACKEND_IOURING: Final = 0x80
FORKCHECK: Final = 0x2000000
NOINOTIFY: Final = 0x100000
SIGNALFD: Final = 0x200000
NOSIGMASK: Final = 0x400000
LIBEV_EMBED: Final = False
_events_to_str = events_to_str

_FLAGS = {
    "port": BACKEND_PORT,
    "kqueue": BACKEND_KQUEUE,
    "linux_iouring": BACKEND_IOURING,
    "linux_aio": BACKEND_LINUXAIO,
    "epoll": BACKEND_EPOLL,
    "poll": BACKEND_POLL,
    "select": BACKEND_SELECT,
    "noenv": 0x1000000,
    "forkcheck": FORKCHECK,
    "signalfd": SIGNALFD,
    "nosigmask": NOSIGMASK,
}


class loop(DrivenLoop):  # noqa: N801 - gevent's name
    """A standalone event loop: gevent's `core.loop`.

    Args:
        flags: libev's flags: an integer, a string of names separated by commas, or an iterable of names. The backend is
            always epoll; other backends in `flags` have no effect.
        default: whether this is the main thread's loop; None means true.

    Raises:
        ValueError: a flag name is unknown.
        TypeError: `flags` has an unsupported type.
    """

    def __init__(self, flags: int | str | Iterable[str] | None = None, default: bool | None = None) -> None:
        self._flags = _flags_to_int(flags)
        super().__init__(default)

    @property
    def origflags(self) -> list[str | int]:
        """The flags that were passed, as a list of names."""
        return _flags_to_list(self._flags)

    @property
    def origflags_int(self) -> int:
        """The flags that were passed, as an integer."""
        return self._flags


def _flags_to_int(flags: int | str | Iterable[str] | None) -> int:
    if not flags:
        return 0
    if isinstance(flags, int):
        return flags
    number = 0
    for name in flags.split(",") if isinstance(flags, str) else flags:
        known = _FLAGS.get(name.strip().lower())
        if known is None:
            raise ValueError(f"Invalid backend or flag: {name!r}; possible values: {', '.join(sorted(_FLAGS))}")
        number |= known
    return number


def _flags_to_list(flags: int) -> list[str | int]:
    named: list[str | int] = [name for name, number in _FLAGS.items() if flags & number]
    rest = flags & ~sum(_FLAGS.values())
    return [*named, rest] if rest else named


def get_version() -> str:
    """The name and version of the event loop implementation."""
    return f"oneloop-{oneloop.__version__}"


get_header_version = get_version


def supported_backends() -> list[str]:
    """Return `["epoll"]`."""
    return ["epoll"]


recommended_backends = supported_backends


def embeddable_backends() -> list[str]:
    """Return `["epoll"]`."""
    return ["epoll"]
