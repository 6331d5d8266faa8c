"""inotify(7): the queue of a watch, and the events that were read and not yet processed."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from oneloop import _native

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

__all__ = ["Pending", "Queue", "RawEvent"]

# inotify(7), linux/inotify.h
IN_MODIFY = 0x2
IN_ATTRIB = 0x4
IN_CLOSE_WRITE = 0x8
IN_MOVED_FROM = 0x40
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_DELETE = 0x200
IN_DELETE_SELF = 0x400
IN_MOVE_SELF = 0x800
IN_UNMOUNT = 0x2000
IN_OVERFLOW = 0x4000
IN_IGNORED = 0x8000
IN_ONLYDIR = 0x0100_0000
IN_DONT_FOLLOW = 0x0200_0000
IN_EXCL_UNLINK = 0x0400_0000
IN_ISDIR = 0x4000_0000

IN_EVERYTHING = (
    IN_MODIFY
    | IN_ATTRIB
    | IN_CLOSE_WRITE
    | IN_MOVED_FROM
    | IN_MOVED_TO
    | IN_CREATE
    | IN_DELETE
    | IN_DELETE_SELF
    | IN_MOVE_SELF
)

# Of these, the first binds a name to another directory entry, the second ends that.
BINDS = IN_CREATE | IN_MOVED_TO
UNBINDS = IN_DELETE | IN_MOVED_FROM

READ_BYTES = 64 * 1024
# The head and the longest name: read(2) leaves less than this free if more is queued.
MOST_EVENT_BYTES = 16 + 256
_HEAD = struct.Struct("iIII")


class RawEvent(NamedTuple):
    """One `struct inotify_event`, and when it was read. The two events of a rename have the same `cookie`."""

    watch: int
    mask: int
    cookie: int
    name: bytes
    read_at_s: float


class Queue:
    """An inotify descriptor. This object owns it."""

    __slots__ = ("_fd", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: asyncio.Future[None] | None = None
        self._fd = _native.inotify_init()

    @property
    def is_closed(self) -> bool:
        """True after `close()`."""
        return self._fd < 0

    def add(self, path: bytes, mask: int) -> int:
        """Watch a path. Return the watch's number, which its events contain. May block: call it on the pool."""
        return _native.inotify_add_watch(self._fd, path, mask)

    def remove(self, watch: int) -> None:
        """End a watch."""
        _native.inotify_rm_watch(self._fd, watch)

    def read_nowait(self) -> list[RawEvent]:
        """Return the queued events of at most one read(2); an empty list if there are none."""
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return []
        events = []
        start = 0
        now_s = self._loop.time()
        while start < len(data):
            watch, mask, cookie, length = _HEAD.unpack_from(data, start)
            start += _HEAD.size
            events.append(RawEvent(watch, mask, cookie, data[start : start + length].rstrip(b"\0"), now_s))
            start += length
        return events

    def read_all(self) -> list[RawEvent]:
        """Return everything that is queued at the moment; an empty list after `close()`."""
        if self.is_closed:
            return []
        rest = struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)))[0]
        events: list[RawEvent] = []
        while rest > 0 and (more := self.read_nowait()):
            events.extend(more)
            rest -= READ_BYTES - MOST_EVENT_BYTES
        return events

    async def wait_readable(self) -> None:
        """Wait until something is queued, or the queue is closed."""
        if self._waiting is not None:
            raise RuntimeError("another task is iterating over this watch: use one watch per task")
        waiting = self._waiting = self._loop.create_future()
        try:
            self._loop.add_reader(self._fd, self.wake)
            await waiting
        finally:
            self._waiting = None
            self._loop.remove_reader(self._fd)

    def wake(self) -> None:
        """End `wait_readable`."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def close(self) -> None:
        """Close the descriptor. No task may be waiting for it. Further calls do nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Pending:
    """The events that were read and not yet processed, in the kernel's order."""

    __slots__ = ("_bindings", "_events")

    def __init__(self) -> None:
        self._events: deque[RawEvent] = deque()
        # Of each watch and name: the events that bind or unbind the name.
        self._bindings: dict[int, dict[bytes, deque[RawEvent]]] = {}

    def __len__(self) -> int:
        return len(self._events)

    @property
    def first(self) -> RawEvent:
        """The event to process next."""
        return self._events[0]

    def extend(self, events: Iterable[RawEvent]) -> None:
        """Append events."""
        for event in events:
            self._events.append(event)
            if event.mask & (BINDS | UNBINDS):
                self._bindings.setdefault(event.watch, {}).setdefault(event.name, deque()).append(event)

    def remove(self, event: RawEvent) -> None:
        """Remove an event that was processed."""
        self._events.remove(event)
        if event.mask & (BINDS | UNBINDS):
            names = self._bindings[event.watch]
            names[event.name].remove(event)
            if not names[event.name]:
                del names[event.name]
            if not names:
                del self._bindings[event.watch]

    def second_half(self, first: RawEvent) -> RawEvent | None:
        """Return the second event of a rename, if it was read."""
        for event in self._events:
            if event.cookie == first.cookie and event.mask & IN_MOVED_TO:
                return event
        return None

    def next_binding(self, watch: int, name: bytes, now: tuple[RawEvent, ...]) -> RawEvent | None:
        """Return the first event that binds or unbinds a name, except those that are being processed."""
        for event in self._bindings.get(watch, {}).get(name, ()):
            if all(event is not other for other in now):
                return event
        return None

    def names(self, watch: int) -> list[bytes]:
        """Return the names in a directory that an event binds or unbinds."""
        return list(self._bindings.get(watch, ()))
