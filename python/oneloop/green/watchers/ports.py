"""`Ports`: the descriptors of a loop's watchers. Several watchers can share one."""

from __future__ import annotations

import errno
from functools import partial
from typing import TYPE_CHECKING

from oneloop.green.watchers.events import READ, WRITE

if TYPE_CHECKING:
    from oneloop.green.loop import GreenLoop
    from oneloop.green.watchers.io import IoWatcher

__all__ = ["Ports"]

_SIDES = ((READ, False), (WRITE, True))


class _Port:
    __slots__ = ("asked", "watchers")

    def __init__(self) -> None:
        self.watchers: list[IoWatcher] = []
        # The sides (READ, WRITE) that are registered with the loop.
        self.asked = 0


class Ports:
    """The watchers of each descriptor. Regular files, which epoll does not accept, are always ready."""

    def __init__(self, loop: GreenLoop) -> None:
        self._loop = loop
        self._ports: dict[int, _Port] = {}
        self.always_ready: dict[IoWatcher, None] = {}

    def add(self, watcher: IoWatcher) -> None:
        """Register the watcher's events, even if they are registered: the number may belong to another file now."""
        fd = watcher._fd
        port = self._ports.get(fd)
        if port is None:
            port = self._ports[fd] = _Port()
        port.watchers.append(watcher)
        for side, is_write in _SIDES:
            if watcher._wanted & side:
                try:
                    self._loop._add_fd(fd, is_write, partial(self._happened, port, side))
                except PermissionError:
                    self.always_ready[watcher] = None
                    self._loop._wake()
                except OSError as error:
                    if error.errno != errno.EBADF:
                        raise
                    # The descriptor was closed. The callback will get the error when it uses the descriptor.
                    self._loop._feed(watcher, watcher._wanted)
                else:
                    port.asked |= side

    def discard(self, watcher: IoWatcher) -> None:
        """Remove a watcher."""
        fd = watcher._fd
        port = self._ports.get(fd)
        self.always_ready.pop(watcher, None)
        if port is None or watcher not in port.watchers:
            return
        port.watchers.remove(watcher)
        wanted = 0
        for other in port.watchers:
            wanted |= other._wanted
        for side, is_write in _SIDES:
            if port.asked & side and not wanted & side:
                self._loop._remove_fd(fd, is_write)
                port.asked &= ~side
        if not port.watchers:
            del self._ports[fd]

    def _happened(self, port: _Port, side: int) -> None:
        for watcher in port.watchers:
            if watcher._wanted & side:
                self._loop._feed(watcher, side)

    def feed_always_ready(self) -> None:
        """Feed the watchers of regular files."""
        for watcher in self.always_ready:
            self._loop._feed(watcher, watcher._wanted)

    def closing(self, fd: int) -> bool:
        """Feed the watchers of a descriptor that is about to be closed. False if there are none."""
        port = self._ports.get(fd)
        if port is None:
            return False
        for watcher in port.watchers:
            self._loop._feed(watcher, watcher._wanted)
        return True

    def clear(self) -> None:
        """Forget all watchers, because the loop below was replaced."""
        self._ports.clear()
        self.always_ready.clear()

    def numbers(self) -> set[int]:
        """The watched descriptors."""
        return set(self._ports)
