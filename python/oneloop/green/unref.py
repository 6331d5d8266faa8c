"""`UnrefPoller`: descriptors and alarms that do not keep the loop alive.

A hub's loop raises LoopExit when nothing is left that could wake a green thread. In this check it ignores the
descriptor for signals. This class replaces that descriptor by an epoll instance, which contains the signals' descriptor
and the descriptors to be ignored.
"""

from __future__ import annotations

import os
import struct
from select import EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll  # the originals, even if patched later
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.loop import Loop

__all__ = ["UnrefPoller", "UnrefTimer"]

_close = os.close
_read = os.read


class UnrefPoller:
    """Watches descriptors for a loop without registering them there."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._epoll = epoll()
        self._callbacks: dict[int, list[Callable[[], object] | None]] = {}
        # Move the descriptor for signals into this epoll instance.
        loop._wakeup_socket()
        if loop._ssock is not None:
            loop._remove_callback_for(loop._ssock.fileno(), False)
            self.add(loop._ssock.fileno(), False, loop._read_signals)
        loop._add_callback_for(self._epoll.fileno(), False, self._serve, ())
        loop._note_signal_fd(self._epoll.fileno())

    def add(self, fd: int, is_write: bool, callback: Callable[[], object]) -> None:
        """Call `callback` whenever `fd` is readable or writable. Raises PermissionError for a regular file."""
        sides = self._callbacks.get(fd)
        if sides is None:
            self._epoll.register(fd, _mask([None, callback] if is_write else [callback, None]))
            sides = self._callbacks[fd] = [None, None]
            sides[is_write] = callback
            return
        sides[is_write] = callback
        try:
            self._epoll.modify(fd, _mask(sides))
        except FileNotFoundError:
            # The descriptor number now belongs to another file.
            self._epoll.register(fd, _mask(sides))

    def remove(self, fd: int, is_write: bool) -> None:
        """Remove a callback."""
        sides = self._callbacks.get(fd)
        if sides is None:
            return
        sides[is_write] = None
        try:
            if sides[0] is None and sides[1] is None:
                del self._callbacks[fd]
                self._epoll.unregister(fd)
            else:
                self._epoll.modify(fd, _mask(sides))
        except (FileNotFoundError, OSError):
            # The descriptor was closed, which has removed the registration.
            self._callbacks.pop(fd, None)

    def _serve(self) -> None:
        for fd, events in self._epoll.poll(0):
            readable, writable = self._callbacks.get(fd, (None, None))
            if readable is not None and events & (EPOLLIN | EPOLLHUP | EPOLLERR):
                readable()
            if writable is not None and events & (EPOLLOUT | EPOLLHUP | EPOLLERR):
                writable()

    def close(self) -> None:
        """Drop everything after the loop was closed."""
        self._callbacks.clear()
        self._epoll.close()


def _mask(sides: list[Any]) -> int:
    return (EPOLLIN if sides[0] is not None else 0) | (EPOLLOUT if sides[1] is not None else 0)


class UnrefTimer:
    """A call at a time of the loop's clock, with timerfd_create(2)."""

    def __init__(self, poller: UnrefPoller, when_s: float, callback: Callable[[], object]) -> None:
        self._poller = poller
        self._callback = callback
        self._fd = _timerfd(when_s)
        poller.add(self._fd, False, self._fire)

    def _fire(self) -> None:
        self.cancel()
        self._callback()

    def cancel(self) -> None:
        """Cancel the call."""
        if self._fd >= 0:
            self._poller.remove(self._fd, False)
            _close(self._fd)
            self._fd = -1


def _timerfd(when_s: float) -> int:
    """A descriptor that becomes readable at `when_s` (CLOCK_MONOTONIC)."""
    # Zero would disarm the timer. The upper limit is practically forever.
    when_s = min(max(when_s, 1e-9), 2.0**62)
    if hasattr(os, "timerfd_create"):
        # Since Python 3.13.
        fd = os.timerfd_create(1, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)
        os.timerfd_settime(fd, flags=os.TFD_TIMER_ABSTIME, initial=min(when_s, 2.0**33))
        return fd
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.timerfd_create(1, os.O_NONBLOCK | os.O_CLOEXEC))
    whole = int(when_s)
    spec = struct.pack("qqqq", 0, 0, whole, int((when_s - whole) * 1e9) or (0 if whole else 1))
    if fd < 0 or libc.timerfd_settime(fd, 1, spec, None) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return fd
