"""Waiting for several descriptors, whatever they are: for `select`, `selectors`, and descriptors that are no sockets.

A green thread waits for an epoll of its own, which the loop watches like any descriptor. So it does not matter what
else waits for the same descriptors: other green threads, transports, or another loop.
"""

from __future__ import annotations

import os
import select as _stock
from typing import TYPE_CHECKING

from oneloop.green.hub import TIMED_OUT, Waiter, get_hub, has_hub, wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["wait_for_any", "wait_for_epoll"]

_dup = os.dup
_epoll = _stock.epoll
_select = _stock.select

_POLL_EVENTS = 0xFFFF
"""What of a mask epoll has in common with poll; the rest are its own modes."""


def wait_for_any(masks: Mapping[int, int], timeout_s: float | None) -> bool:
    """Wait until one of some descriptors may be ready. False: so many seconds are over.

    Args:
        masks: the events to wait for, in the bits of `select.poll`, by descriptor.
        timeout_s: None: no end.

    Raises:
        OSError: a descriptor is closed.
        BlockingSwitchOutError: in a coroutine or a callback.
    """
    if not masks:
        return _wait(None, timeout_s)
    with _epoll() as poll:
        for fd, mask in masks.items():
            try:
                poll.register(fd, mask & _POLL_EVENTS)
            except PermissionError:
                # A regular file is ready for reading and writing at any time, and for nothing else ever.
                continue
        return _wait(poll, timeout_s)


def wait_for_epoll(fd: int, timeout_s: float | None) -> bool:
    """The same for what is registered with an epoll. Several green threads may wait for the same one."""
    with _epoll.fromfd(_dup(fd)) as own:
        return _wait(own, timeout_s)


def _wait(poll: _stock.epoll | None, timeout_s: float | None) -> bool:
    """Wait for an epoll that nobody else waits for; None: for nothing but the time."""
    if not has_hub():
        # The thread has nothing else to do.
        return any(_select([], [], [], timeout_s)) if poll is None else bool(poll.poll(timeout_s, 1))
    hub = get_hub()
    waiter = Waiter(hub)
    if poll is None:
        return wait_for(waiter, timeout_s) is not TIMED_OUT
    fd = poll.fileno()
    hub.asyncio_loop.add_reader(fd, waiter.wake)
    try:
        return wait_for(waiter, timeout_s) is not TIMED_OUT
    finally:
        hub.asyncio_loop.remove_reader(fd)
