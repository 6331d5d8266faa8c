"""Selectors whose `select()` lets other green threads and coroutines run.

`DefaultSelector` uses the standard library's epoll; only the waiting differs. Names that are not defined here come from
the standard library's module.
"""

from __future__ import annotations

import asyncio
import errno
import selectors as _stock
from typing import Any

from oneloop import _native
from oneloop.green.hub import Countdown, get_hub, has_hub
from oneloop.green.parking_selector import select_now
from oneloop.green.readiness import wait_for_epoll
from oneloop.green.seconds import checked_seconds
from oneloop.green.select import poll, select

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


def _select_for_loop(selector: _stock.EpollSelector, left: Countdown) -> list[tuple[_stock.SelectorKey, int]]:
    if has_hub():
        # Let green threads run even if this loop is always busy.
        get_hub().pause()
    return _select(selector, left)


def _select(selector: _stock.EpollSelector, left: Countdown) -> list[tuple[_stock.SelectorKey, int]]:
    while True:
        ready = select_now(selector, 0)
        seconds = left.seconds()
        if ready or seconds == 0 or not wait_for_epoll(selector.fileno(), seconds):
            return ready or select_now(selector, 0)


class EpollSelector(_stock.EpollSelector):
    """Like `selectors.EpollSelector`, but other green threads run while `select` waits.

    An event loop that is not a oneloop loop can use it too: green threads run while that loop has nothing to do.
    """

    def select(self, timeout: float | None = None) -> list[tuple[_stock.SelectorKey, int]]:
        """Like `selectors.BaseSelector.select`.

        Raises:
            TypeError: the timeout is no number.
            ValueError: the timeout is NaN.
            OverflowError: the timeout is more than 292 years.
            BlockingSwitchOutError: called in a coroutine or a callback that may not block, and it would have to wait.
        """
        # The standard library's multiplies: a Fraction is a number of seconds, a Decimal is none.
        left = Countdown(None if timeout is None else 0 if timeout <= 0 else checked_seconds(timeout * 1.0))
        if getattr(asyncio._get_running_loop(), "_selector", None) is self:
            # A loop that waits with its own selector is not a coroutine or callback, so it may wait here.
            return _native.call_hidden(_select_for_loop, self, left)
        return _select(self, left)


class SelectSelector(_stock.SelectSelector):
    """See `selectors.SelectSelector`."""

    _select = staticmethod(select)


class PollSelector(_stock.PollSelector):
    """See `selectors.PollSelector`."""

    _selector_cls = poll


class GeventSelector(EpollSelector):
    """Like `EpollSelector`, but a closed descriptor is refused with ValueError, as gevent's selector does."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> _stock.SelectorKey:
        """Like `selectors.BaseSelector.register`.

        Raises:
            ValueError: `fileobj` is closed.
        """
        try:
            return super().register(fileobj, events, data)
        except OSError as error:
            # EINVAL: its number is that of this epoll now.
            if error.errno not in (errno.EBADF, errno.EINVAL):
                raise
            raise ValueError(f"Invalid file object: {fileobj!r}") from error


DefaultSelector = GreenSelector = GeventSelector

__patched_attributes__ = [
    (_stock.SelectSelector, "_select", staticmethod(select)),
    (_stock.PollSelector, "_selector_cls", poll),
    (_stock.EpollSelector, "select", EpollSelector.select),
]
"""Attributes that patching replaces in the standard library's classes, for code that imported them earlier."""


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
