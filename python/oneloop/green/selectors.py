"""Selectors whose `select()` lets other green threads and coroutines go on.

`DefaultSelector` is an epoll of the standard library's; only the waiting is ours. Names that are not defined here are
those of the standard library's module.
"""

from __future__ import annotations

import asyncio
import selectors as _stock
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from oneloop.green.hub import Countdown, get_hub, has_hub
from oneloop.green.readiness import wait_for_epoll
from oneloop.green.select import poll, select

if TYPE_CHECKING:
    from collections.abc import Iterator

__implements__ = ["DefaultSelector", "EpollSelector", "PollSelector", "SelectSelector"]
__all__ = [
    "EVENT_READ",
    "EVENT_WRITE",
    "BaseSelector",
    "DefaultSelector",
    "EpollSelector",
    "GeventSelector",
    "GreenSelector",
    "PollSelector",
    "SelectSelector",
    "SelectorKey",
]

EVENT_READ = _stock.EVENT_READ
EVENT_WRITE = _stock.EVENT_WRITE
BaseSelector = _stock.BaseSelector
SelectorKey = _stock.SelectorKey


_select_now = _stock.EpollSelector.select


class EpollSelector(_stock.EpollSelector):
    """See `selectors.EpollSelector`.

    An event loop that is not oneloop's may wait with it as well: green threads go on while that loop has nothing to do.
    """

    def select(self, timeout: float | None = None) -> list[tuple[_stock.SelectorKey, int]]:
        """See `selectors.BaseSelector.select`.

        Raises:
            BlockingSwitchOutError: in a coroutine or a callback, if it has to wait.
        """
        left = Countdown(None if timeout is None else max(timeout, 0))
        with _as_green_thread(self) as is_a_loop:
            if is_a_loop and has_hub():
                # A loop that always has something to do lets others go on too.
                get_hub().pause()
            while True:
                ready = _select_now(self, 0)
                seconds = left.seconds()
                if ready or seconds == 0 or not wait_for_epoll(self.fileno(), seconds):
                    return ready or _select_now(self, 0)


class SelectSelector(_stock.SelectSelector):
    """See `selectors.SelectSelector`."""

    _select = staticmethod(select)


class PollSelector(_stock.PollSelector):
    """See `selectors.PollSelector`."""

    _selector_cls = poll


DefaultSelector = GeventSelector = GreenSelector = EpollSelector

__patched_attributes__ = [
    (_stock.SelectSelector, "_select", staticmethod(select)),
    (_stock.PollSelector, "_selector_cls", poll),
    (_stock.EpollSelector, "select", EpollSelector.select),
]
"""What patching replaces inside of the standard library's classes, for those that have imported them before."""


@contextmanager
def _as_green_thread(selector: EpollSelector) -> Iterator[bool]:
    """If a loop waits with its own selector, it is no coroutine that calls: the loop is hidden meanwhile."""
    loop = asyncio._get_running_loop()
    is_a_loop = getattr(loop, "_selector", None) is selector
    if is_a_loop:
        asyncio._set_running_loop(None)
    try:
        yield is_a_loop
    finally:
        if is_a_loop:
            asyncio._set_running_loop(loop)


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
