"""`select`, `poll` and `epoll` of the standard library; other green threads and coroutines run while they wait.

Names that are not defined here come from the standard library's module.
"""

from __future__ import annotations

import math
import select as _stock
import sys
from errno import EBADF
from os import strerror
from typing import Any, Self

from oneloop.green.hub import Countdown, has_hub
from oneloop.green.readiness import wait_for_any, wait_for_epoll
from oneloop.green.seconds import checked_seconds, real_number

__implements__ = ["epoll", "poll", "select"]
__all__ = [name for name in dir(_stock) if not name.startswith("_")]

error = _stock.error

_select = _stock.select
_poll = _stock.poll
_epoll = _stock.epoll

_READ = _stock.POLLIN | _stock.POLLHUP | _stock.POLLERR
_WRITE = _stock.POLLOUT | _stock.POLLERR
_LONGEST_MS = 2**31 - 1 if sys.version_info < (3, 15) else 2**63 // 10**6


def select(
    rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None, /
) -> tuple[list[Any], list[Any], list[Any]]:
    """Like `select.select`, without its limit for descriptors: numbers of 1024 and above work.

    Raises:
        OSError: a descriptor is closed.
        ValueError: the timeout is negative or NaN.
        OverflowError: the timeout is more than 292 years.
        TypeError: an argument has the wrong type.
        BlockingSwitchOutError: called in a coroutine or a callback that may not block, and it would have to wait.
    """
    timeout_s = _seconds(timeout)
    lists = tuple(one if isinstance(one, list | tuple) else list(one) for one in (rlist, wlist, xlist))
    left = Countdown(timeout_s)
    heard: dict[int, int] | None = {}
    while True:
        ready = _ready(*lists)
        if any(ready) or timeout_s == 0:
            return ready
        if heard:
            # What woke it counts, although another green thread has read it in the meantime.
            return _chosen(heard, *lists)
        heard = wait_for_any(_masks(*lists), left.seconds())
        if heard is None:
            timeout_s = 0


def _seconds(timeout: Any) -> float | None:
    if timeout is None:
        return None
    try:
        seconds = checked_seconds(timeout)
    except TypeError:
        raise TypeError("timeout must be a float or None") from None
    if seconds < 0:
        raise ValueError("timeout must be non-negative")
    return seconds


def _fileno(object_: Any) -> int:
    number: int = object_ if isinstance(object_, int) else object_.fileno()
    return number


def _masks(rlist: Any, wlist: Any, xlist: Any) -> dict[int, int]:
    masks: dict[int, int] = {}
    for objects, mask in ((rlist, _stock.POLLIN), (wlist, _stock.POLLOUT), (xlist, _stock.POLLPRI)):
        for fd in map(_fileno, objects):
            masks[fd] = masks.get(fd, 0) | mask
    return masks


def _ready(rlist: Any, wlist: Any, xlist: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the objects that are ready now. The standard library's function checks the arguments."""
    try:
        return _select(rlist, wlist, xlist, 0)
    except ValueError:
        masks = _masks(rlist, wlist, xlist)
        if min(masks, default=-1) < 0 or max(masks) < 1024:
            raise
    return _chosen(_ready_in_any_number(masks), rlist, wlist, xlist)


def _chosen(found: dict[int, int], rlist: Any, wlist: Any, xlist: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the objects that have one of these events, by descriptor."""
    return (
        [one for one in rlist if found.get(_fileno(one), 0) & _READ],
        [one for one in wlist if found.get(_fileno(one), 0) & _WRITE],
        [one for one in xlist if found.get(_fileno(one), 0) & _stock.POLLPRI],
    )


def _ready_in_any_number(masks: dict[int, int]) -> dict[int, int]:
    polled = _poll()
    for fd, mask in masks.items():
        polled.register(fd, mask)
    found = dict(polled.poll(0))
    if any(mask & _stock.POLLNVAL for mask in found.values()):
        raise OSError(EBADF, strerror(EBADF))
    return found


class poll:  # noqa: N801 - the standard library's name
    """See `select.poll`."""

    __slots__ = ("_is_polling", "_masks", "_polled")

    def __init__(self) -> None:
        self._polled = _poll()
        self._masks: dict[int, int] = {}
        self._is_polling = False

    def register(self, fd: Any, eventmask: int = _stock.POLLIN | _stock.POLLPRI | _stock.POLLOUT, /) -> None:
        """See `poll.register`."""
        self._polled.register(fd, eventmask)
        self._masks[_fileno(fd)] = eventmask

    def modify(self, fd: Any, eventmask: int, /) -> None:
        """See `poll.modify`."""
        self._polled.modify(fd, eventmask)
        self._masks[_fileno(fd)] = eventmask

    def unregister(self, fd: Any, /) -> None:
        """See `poll.unregister`."""
        self._polled.unregister(fd)
        self._masks.pop(_fileno(fd), None)

    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        """Like `select.poll`'s `poll`: return the events after at most `timeout` milliseconds.

        None or a negative timeout means no limit.

        Raises:
            RuntimeError: another green thread or OS thread is polling with this object.
            BlockingSwitchOutError: called in a coroutine or a callback that may not block, and it would have to wait.
        """
        timeout_s = _seconds_of_milliseconds(timeout)
        if self._is_polling:
            raise RuntimeError("concurrent poll() invocation")
        self._is_polling = True
        try:
            left = Countdown(timeout_s)
            heard: dict[int, int] | None = {}
            while True:
                ready = self._polled.poll(0)
                if ready or timeout_s == 0:
                    return ready
                if heard:
                    # See `select`.
                    return list(heard.items())
                heard = wait_for_any(self._masks, left.seconds())
                if heard is None:
                    timeout_s = 0
        finally:
            self._is_polling = False


def _seconds_of_milliseconds(timeout: Any) -> float | None:
    if timeout is None:
        return None
    try:
        number = real_number(timeout)
    except TypeError:
        raise TypeError("timeout must be an integer or None") from None
    milliseconds = math.ceil(number)
    if abs(milliseconds) > _LONGEST_MS:
        raise OverflowError("timeout is too large")
    return None if number < 0 else milliseconds / 1000


class epoll:  # noqa: N801 - the standard library's name
    """See `select.epoll`. Its descriptor is that of a real epoll instance: others can wait for it, or share it."""

    __slots__ = ("__weakref__", "_polled")

    def __init__(self, sizehint: int = -1, flags: int = 0) -> None:
        self._polled = _epoll(sizehint, flags)

    @classmethod
    def fromfd(cls, fd: int, /) -> Self:
        """See `epoll.fromfd`."""
        made = cls.__new__(cls)
        made._polled = _epoll.fromfd(fd)
        return made

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._polled.closed

    def fileno(self) -> int:
        """Return the descriptor of the epoll instance."""
        return self._polled.fileno()

    def close(self) -> None:
        """Close the descriptor."""
        self._polled.close()

    def register(self, fd: Any, eventmask: int = _stock.EPOLLIN | _stock.EPOLLPRI | _stock.EPOLLOUT) -> None:
        """See `epoll.register`."""
        self._polled.register(fd, eventmask)

    def modify(self, fd: Any, eventmask: int) -> None:
        """See `epoll.modify`."""
        self._polled.modify(fd, eventmask)

    def unregister(self, fd: Any) -> None:
        """See `epoll.unregister`."""
        self._polled.unregister(fd)

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        """Like `select.epoll`'s `poll`: return the events after at most `timeout` seconds.

        None or a negative timeout means no limit.

        Raises:
            TypeError: the timeout is no number.
            ValueError: the timeout is NaN.
            OverflowError: the timeout is more than 292 years.
            BlockingSwitchOutError: called in a coroutine or a callback that may not block, and it would have to wait.
        """
        if not has_hub():
            return self._polled.poll(timeout, maxevents)
        seconds = None if timeout is None else checked_seconds(timeout)
        left = Countdown(None if seconds is None or seconds < 0 else seconds)
        ready = self._polled.poll(0, maxevents)
        while not ready:
            seconds = left.seconds()
            if seconds == 0:
                break
            wait_for_epoll(self.fileno(), seconds)
            ready = self._polled.poll(0, maxevents)
        return ready

    def __enter__(self) -> Self:
        self._polled.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
