"""`ParkingSelector`: the selector of an asyncio loop that a green thread runs. It parks the thread instead of sleeping.

The loop's descriptors are in a separate epoll instance, which the hub's loop watches. While the green thread is parked,
no loop counts as running in it, and the hooks for asynchronous generators are the hub's.
"""

from __future__ import annotations

import asyncio
from selectors import EpollSelector as _EpollSelector
from time import monotonic as _monotonic
from typing import TYPE_CHECKING

from oneloop import _native
from oneloop.green.hub import Hub, Waiter, get_hub, has_hub

if TYPE_CHECKING:
    from selectors import SelectorKey

__all__ = ["ParkingSelector", "is_on_hub", "select_now"]

# The standard library's function. Patching replaces it by that of `oneloop.green.selectors`, which imports this first.
select_now = _EpollSelector.select

BURST_TICKS = 8
"""The number of iterations that a busy loop runs before it lets green threads run."""
BURST_S = 20e-6
"""The maximum time in seconds for these iterations."""


class ParkingSelector(_EpollSelector):
    """An epoll selector for `asyncio.SelectorEventLoop`. Its `select()` lets the other green threads of its hub run.

    In a thread without a hub, it waits like the standard library's selector. `wake()` is callable from any thread,
    everything else only in the thread that runs the loop.
    """

    def __init__(self) -> None:
        super().__init__()
        self._hub: Hub | None = None
        self._waiter: Waiter | None = None  # written by the loop's thread, woken by any
        self._is_readable = False
        self._is_watched = False
        self._is_waiting = False
        self._burst_ticks = 0
        self._burst_end_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return the events after at most `timeout` seconds. Other green threads run meanwhile, even with timeout 0.

        Raises:
            GreenletExit: the green thread was killed. Other exceptions thrown into the green thread are raised too.
        """
        is_busy = timeout is not None and timeout <= 0
        if is_busy and self._burst_ticks and _monotonic() < self._burst_end_s:
            # Callbacks keep scheduling each other: do not poll the kernel and the hub each time.
            self._burst_ticks -= 1
            return []
        try:
            return self._select(timeout, is_busy)
        finally:
            self._burst_ticks, self._burst_end_s = BURST_TICKS, _monotonic() + BURST_S

    def _select(self, timeout: float | None, is_busy: bool) -> list[tuple[SelectorKey, int]]:
        if not _native.call_hidden(self._let_others_run, timeout, is_busy):
            self._part()
            return select_now(self, timeout)
        if not self._is_readable:
            return []
        self._is_readable = False
        return select_now(self, 0)

    def wake(self) -> bool:
        """End the current or the next wait. False in a thread without a hub, where the loop waits in the kernel."""
        waiter = self._waiter
        if waiter is None:
            return False
        waiter.wake()
        return True

    def close(self) -> None:
        """Stop watching all descriptors and close the epoll instance."""
        self._part()
        super().close()

    def _let_others_run(self, timeout_s: float | None, is_busy: bool) -> bool:
        """Wait for events. Returns False in a thread without a hub."""
        hub = self._hub
        if hub is None or _native.active_hub() is not hub:
            if not has_hub():
                return False
            hub = get_hub()
            self.join_hub(hub)
        if not self._is_watched:
            # While a step has blocked it was not.
            self._watch(hub)
        self._is_waiting = True
        try:
            if is_busy:
                hub.pause()
            else:
                self._park(hub, timeout_s)
        finally:
            self._is_waiting = False
        return True

    def _park(self, hub: Hub, timeout_s: float | None) -> None:
        waiter = self._waiter
        assert waiter is not None, "it has joined the hub"
        timer = None if timeout_s is None else hub.asyncio_loop.call_later(timeout_s, waiter.wake)
        try:
            waiter.get()
        finally:
            if timer is not None:
                timer.cancel()

    def join_hub(self, hub: Hub) -> None:
        """Let a hub watch the descriptors, if it does not yet."""
        if hub is not self._hub:
            self._part()
            self._hub, self._waiter = hub, Waiter(hub)
            self._watch(hub)
            # Descriptors may have become readable before the hub's loop watched them.
            self._is_readable = True

    def _watch(self, hub: Hub) -> None:
        hub.asyncio_loop.add_reader(self.fileno(), self._be_readable, hub)
        self._is_watched = True

    def _part(self) -> None:
        hub, self._hub, self._waiter, self._is_watched = self._hub, None, None, False
        if hub is not None and not hub.asyncio_loop.is_closed():
            hub.asyncio_loop.remove_reader(self.fileno())

    def _be_readable(self, hub: Hub) -> None:
        self._is_readable = True
        if self._is_waiting and hub is self._hub:
            self.wake()
            return
        # A step of the loop blocks: nobody reads them until it is over, and this would be called in each tick.
        if hub is self._hub:
            self._is_watched = False
        hub.asyncio_loop.remove_reader(self.fileno())


def is_on_hub(loop: asyncio.AbstractEventLoop, hub: Hub) -> bool:
    """Whether a loop runs on a hub: it is the hub's own loop, or a green thread of the hub runs it."""
    if loop is hub.asyncio_loop:
        return True
    selector = getattr(loop, "_selector", None)
    if not isinstance(selector, ParkingSelector):
        return False
    joined = selector._hub
    if joined is None and asyncio._get_running_loop() is loop:
        joined = get_hub()
    return joined is hub
