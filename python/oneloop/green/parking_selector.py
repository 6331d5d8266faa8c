"""`ParkingSelector`: the selector of an asyncio loop that a green thread runs. It parks the thread instead of sleeping.

The loop's descriptors are in a separate epoll instance, which the hub's loop watches. While the green thread is parked,
no loop counts as running in it, and the hooks for asynchronous generators are the hub's.
"""

from __future__ import annotations

import asyncio
import sys
from selectors import EpollSelector as _EpollSelector
from time import monotonic as _monotonic
from typing import TYPE_CHECKING, Any

from oneloop import _native
from oneloop.green.hub import Hub, Waiter, get_hub, has_hub

if TYPE_CHECKING:
    from selectors import SelectorKey

__all__ = ["ParkingSelector", "hidden_loop", "is_on_hub", "select_now"]

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
        with hidden_loop():
            hub = self._hub
            if hub is None or _native.active_hub() is not hub:
                hub = self._join(get_hub()) if has_hub() else None
            if hub is not None:
                if is_busy:
                    hub.pause()
                else:
                    self._park(hub, timeout)
        if hub is None:
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

    def _park(self, hub: Hub, timeout_s: float | None) -> None:
        waiter = self._waiter
        assert waiter is not None, "it has joined the hub"
        timer = None if timeout_s is None else hub.asyncio_loop.call_later(timeout_s, waiter.wake)
        try:
            waiter.get()
        finally:
            if timer is not None:
                timer.cancel()

    def _join(self, hub: Hub) -> Hub:
        if hub is not self._hub:
            self._part()
            self._hub, self._waiter = hub, Waiter(hub)
            hub.asyncio_loop.add_reader(self.fileno(), self._be_readable)
            # Descriptors may have become readable before the hub's loop watched them.
            self._is_readable = True
        return hub

    def _part(self) -> None:
        hub, self._hub, self._waiter = self._hub, None, None
        if hub is not None and not hub.asyncio_loop.is_closed():
            hub.asyncio_loop.remove_reader(self.fileno())

    def _be_readable(self) -> None:
        self._is_readable = True
        self.wake()


class hidden_loop:  # noqa: N801 - it is used as a function
    """Hides a loop while its selector parks: no loop counts as running, and the generator hooks are the hub's."""

    __slots__ = ("_depth", "_hooks", "_loop")

    def __enter__(self) -> None:
        self._loop = asyncio._get_running_loop()
        self._hooks = sys.get_asyncgen_hooks()
        self._depth = sys.get_coroutine_origin_tracking_depth()
        asyncio._set_running_loop(None)
        sys.set_asyncgen_hooks(*_outer_hooks())
        if self._depth:
            sys.set_coroutine_origin_tracking_depth(0)

    def __exit__(self, *_error: object) -> None:
        # The other green threads may have changed the depth.
        sys.set_coroutine_origin_tracking_depth(self._depth)
        sys.set_asyncgen_hooks(*self._hooks)
        asyncio._set_running_loop(self._loop)


def _outer_hooks() -> tuple[Any, Any]:
    hub = _native.active_hub()
    if not isinstance(hub, Hub) or not hub.asyncio_loop.is_running():
        return (None, None)
    loop: Any = hub.asyncio_loop
    return (loop._asyncgen_firstiter_hook, loop._asyncgen_finalizer_hook)


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
