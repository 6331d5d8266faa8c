"""Waiting for several descriptors of any kind: for `select`, `selectors`, and descriptors that are not sockets.

A green thread waits for its own epoll instance, which the loop watches like any descriptor. So other green threads,
transports or loops can wait for the same descriptors at the same time.
"""

from __future__ import annotations

import os
import select as _stock
from typing import TYPE_CHECKING

from oneloop.green.hub import TIMED_OUT, Waiter, get_hub, has_hub, wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oneloop.green.hub import Hub

__all__ = ["note_closing", "wait_for_any", "wait_for_epoll"]

_dup = os.dup
_epoll = _stock.epoll
_select = _stock.select

_NONE: Mapping[int, int] = {}
_waits: dict[tuple[Hub, int], dict[Waiter, int]] = {}
"""A hub (of one OS thread) and a descriptor -> who waits for it there, in `wait_for_any` -> for which events."""

_POLL_EVENTS = 0xFFFF
"""The bits of an event mask that epoll and poll share. The other bits are epoll modes."""


def wait_for_any(masks: Mapping[int, int], timeout_s: float | None) -> dict[int, int] | None:
    """Wait until one of the descriptors may be ready.

    Args:
        masks: maps descriptors to the events to wait for, as bits of `select.poll`.
        timeout_s: the maximum time in seconds; None means no limit.

    Returns:
        The events that ended the wait, by descriptor: others may have read the data before the caller continues. Can be
        empty. None if the timeout expired.

    Raises:
        OSError: a descriptor is closed.
        BlockingSwitchOutError: called in a coroutine or a callback that may not block.
    """
    if not masks:
        return _wait(None, timeout_s)
    with _epoll() as poll:
        for fd, mask in masks.items():
            try:
                poll.register(fd, mask & _POLL_EVENTS)
            except PermissionError:
                # A regular file is always ready for reading and writing, and never for anything else.
                continue
        # A copy: another green thread may change what a `poll` object waits for.
        return _wait(poll, timeout_s, dict(masks))


def note_closing(fd: int) -> None:
    """Wake this OS thread's green threads that wait for a descriptor which is about to be closed, as in gevent.

    The kernel would not: epoll forgets it.
    """
    if not has_hub():
        return
    hub = get_hub()
    for waiter, mask in _waits.get((hub, fd), {}).items():
        if not waiter.done():
            waiter.wake({fd: mask})
    if hub._green_loop is not None:
        hub._green_loop.closing_fd(fd)


def wait_for_epoll(fd: int, timeout_s: float | None) -> bool:
    """Wait for the descriptors of an epoll instance. Several green threads may wait for one.

    Returns:
        False if the timeout expired.
    """
    with _epoll.fromfd(_dup(fd)) as own:
        return _wait(own, timeout_s, is_heard=False) is not None


def _wait(
    poll: _stock.epoll | None, timeout_s: float | None, masks: Mapping[int, int] = _NONE, *, is_heard: bool = True
) -> dict[int, int] | None:
    """Wait for an epoll instance that no other code waits for. None: wait only for the timeout.

    Without `is_heard` the events stay where they are: those of an edge-triggered registration are reported once.
    """
    if not has_hub():
        # Blocking is fine: the thread has no green threads.
        if poll is None:
            _select([], [], [], timeout_s)
            return None
        return {} if poll.poll(timeout_s, 1) else None
    hub = get_hub()
    waiter = Waiter(hub)
    if poll is None:
        wait_for(waiter, timeout_s)
        return None
    fd = poll.fileno()

    def hear() -> None:
        if not waiter.done():
            waiter.wake(dict(poll.poll(0)) if is_heard else {})

    hub.asyncio_loop.add_reader(fd, hear)
    for number, mask in masks.items():
        _waits.setdefault((hub, number), {})[waiter] = mask
    try:
        heard = wait_for(waiter, timeout_s)
    finally:
        for place in [(hub, number) for number in masks]:
            del _waits[place][waiter]
            if not _waits[place]:
                del _waits[place]
        hub.asyncio_loop.remove_reader(fd)
    return None if heard is TIMED_OUT else heard
