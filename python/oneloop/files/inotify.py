"""inotify's queue: watches by number, and the events that the kernel has written (inotify(7))."""

from __future__ import annotations

import asyncio
import os
import struct
from typing import NamedTuple

from oneloop import _native

__all__ = ["Queue", "RawEvent"]

MODIFY = 0x2
ATTRIB = 0x4
CLOSE_WRITE = 0x8
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
UNMOUNT = 0x2000
OVERFLOW = 0x4000
IGNORED = 0x8000
ONLYDIR = 0x0100_0000
DONT_FOLLOW = 0x0200_0000
EXCL_UNLINK = 0x0400_0000
ISDIR = 0x4000_0000

EVERYTHING = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF

READ_BYTES = 64 * 1024
_HEAD = struct.Struct("iIII")


class RawEvent(NamedTuple):
    """One `struct inotify_event`; `cookie` joins the two halves of a rename."""

    watch: int
    mask: int
    cookie: int
    name: bytes


class Queue:
    """A descriptor of inotify, which this object owns."""

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
        """Watch a path; the number that its events carry. May block: for the pool."""
        return _native.inotify_add_watch(self._fd, path, mask)

    def remove(self, watch: int) -> None:
        """End a watch."""
        _native.inotify_rm_watch(self._fd, watch)

    def read_nowait(self) -> list[RawEvent]:
        """What is queued, at most one read of it."""
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return []
        events = []
        start = 0
        while start < len(data):
            watch, mask, cookie, length = _HEAD.unpack_from(data, start)
            start += _HEAD.size
            events.append(RawEvent(watch, mask, cookie, data[start : start + length].rstrip(b"\0")))
            start += length
        return events

    async def wait_readable(self) -> None:
        """Wait until something is queued, or the queue is closed."""
        if self._waiting is not None:
            raise RuntimeError("the watch is being iterated by another task")
        waiting = self._waiting = self._loop.create_future()
        self._loop.add_reader(self._fd, self.wake)
        try:
            await waiting
        finally:
            self._waiting = None
            self._loop.remove_reader(self._fd)

    def wake(self) -> None:
        """End a wait."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def close(self) -> None:
        """Close the descriptor, for which nobody waits; idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
