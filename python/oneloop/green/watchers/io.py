"""`IoWatcher`: reports that a descriptor is readable or writable."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING, Any

from oneloop.green.watchers.events import EVENTS, IO_SET, READ, WRITE, events_to_str
from oneloop.green.watchers.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.green.loop import GreenLoop

__all__ = ["IoWatcher"]


class IoWatcher(Watcher):
    """Called repeatedly while a descriptor is readable (events 1) or writable (2). Watchers can share a descriptor.

    Raises:
        ValueError: the descriptor is negative, or `events` has other bits.
        OSError: EBADF: the descriptor is not open.
    """

    __slots__ = ("_fd", "_wanted")

    def __init__(self, loop: GreenLoop, fd: int, events: int, ref: bool = True, priority: int | None = None) -> None:
        super().__init__(loop, ref, priority)
        _check_fd(fd)
        _check_events(events)
        self._fd = fd
        self._wanted = events

    def start(self, callback: Callable[..., object], *args: Any, pass_events: bool = False) -> None:
        """Like `Watcher.start`. With `pass_events`, the events are passed as first argument."""
        self._begin(callback, (EVENTS, *args) if pass_events else args)

    def _arm(self) -> None:
        self.loop._watch(self)

    def _disarm(self) -> None:
        self.loop._unwatch(self)

    def _failed(self) -> None:
        # The callback would be called, and fail, again and again.
        self.stop()

    @property
    def fd(self) -> int:
        """The descriptor. Changing it while the watcher is active raises AttributeError."""
        return self._fd

    @fd.setter
    def fd(self, fd: int) -> None:
        if self._is_active:
            raise AttributeError("'io' watcher attribute 'fd' is read-only while watcher is active")
        _check_fd(fd)
        self._fd = fd

    @property
    def events(self) -> int:
        """1, 2 or 3, plus a flag of libev. Changing it while the watcher is active raises AttributeError."""
        return self._wanted | IO_SET

    @events.setter
    def events(self, events: int) -> None:
        if self._is_active:
            raise AttributeError("'io' watcher attribute 'events' is read-only while watcher is active")
        _check_events(events)
        self._wanted = events & (READ | WRITE)

    @property
    def events_str(self) -> str:
        """The names of the events."""
        return events_to_str(self.events)

    def _described(self) -> str:
        return f" fd={self._fd} events={self.events_str}"


def _check_fd(fd: int) -> None:
    if fd < 0:
        raise ValueError(f"fd must be non-negative: {fd!r}")
    try:
        fcntl.fcntl(fd, fcntl.F_GETFD)
    except OSError as error:
        if error.errno == errno.EBADF:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None
        raise


def _check_events(events: int) -> None:
    if events & ~(READ | WRITE | IO_SET):
        raise ValueError(f"illegal event mask: {events!r}")
