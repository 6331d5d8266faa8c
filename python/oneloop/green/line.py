"""`Line`: the green threads and coroutines that wait for an object, in order of arrival.

A green thread waits in `wait`; a coroutine awaits `waited`. Waking a waiter removes it from the line and gives it a
value. If the waiter is then killed, cancelled or too late to use the value, `given_back` gets the value and can pass it
to the next waiter.
"""

from __future__ import annotations

import asyncio
from _thread import RLock as _RLock  # the original lock, even if patching replaces it later
from math import inf, isfinite, ldexp
from typing import TYPE_CHECKING, Any, SupportsFloat

from oneloop import _native
from oneloop.green.hub import TIMED_OUT

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TIMED_OUT", "Coroutine", "Line", "wait_at"]


class Coroutine:
    """A coroutine that waits: a future with the methods of a `Waiter`. Any thread can wake it.

    Args:
        timeout_s: how long it waits; None: without a limit. It is read here, before the place is in a line: what a
            place is woken with is lost if nobody waits there.

    Raises:
        TypeError, OverflowError: the timeout is no number.
    """

    __slots__ = ("_value", "future", "is_woken", "limit_s", "loop")

    def __init__(self, timeout_s: SupportsFloat | None = None) -> None:
        # Unlike `float`, it takes no text.
        limit_s = inf if timeout_s is None else ldexp(timeout_s, 0)
        self.limit_s = max(limit_s, 0.0)
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.is_woken = False
        self._value: Any = None

    def wake(self, value: Any = None) -> bool:
        if self.is_woken or self.future.done() or self.loop.is_closed():
            return False
        self.is_woken, self._value = True, value
        if asyncio._get_running_loop() is self.loop:
            self._settle()
        else:
            self.loop.call_soon_threadsafe(self._settle)
        return True

    def _settle(self) -> None:
        if not self.future.done():
            self.future.set_result(self._value)

    def done(self) -> bool:
        return self.is_woken

    def get(self) -> Any:
        return self._value


class Line(_native.LineCore):
    """Waiters, first come, first served. Any thread can wake them.

    Two steps must be atomic: checking whether a wait is needed and entering the line; and changing the checked state
    and waking a waiter. Hold `guard` for both, so that no wake-up from another thread is lost. Do not wait while
    holding it. It is reentrant, because a destructor or a signal handler can run at any point in between.
    """

    __slots__ = ("guard",)

    def __init__(self) -> None:
        self.guard = _RLock()

    def wake_all(self, value: Any = None) -> None:
        """Wake all current waiters."""
        failure: BaseException | None = None
        for _ in range(len(self)):
            try:
                if not self.wake(value):
                    break
            except BaseException as error:  # noqa: BLE001 - raised when the others are awake
                failure = error
        if failure is not None:
            raise failure

    def enter_coroutine(self, timeout_s: SupportsFloat | None = None) -> Coroutine:
        """Add the calling coroutine to the line. Call `waited` with the result."""
        place = Coroutine(timeout_s)
        self.add(place)
        return place

    async def waited(self, place: Coroutine, given_back: Callable[[Any], object] | None = None) -> Any:
        """Like `wait`, for coroutines."""
        return await wait_at(self, place, given_back)


async def wait_at(line: Any, place: Coroutine, given_back: Callable[[Any], object] | None = None) -> Any:
    """Wait in a coroutine until its place in a line is woken.

    If the coroutine is cancelled after it was woken, `given_back` is called with the value.

    Returns:
        The value it was woken with, or `TIMED_OUT` after the place's time.
    """
    timer = None
    try:
        if isfinite(place.limit_s):
            timer = place.loop.call_later(place.limit_s, place.wake, TIMED_OUT)
        value = await place.future
    except BaseException:
        line.forget(place)
        # It has left the line, so it cannot be woken any more.
        if place.done():
            value = place.get()
            if given_back is not None and value is not TIMED_OUT:
                given_back(value)
        raise
    finally:
        if timer is not None:
            timer.cancel()
    if value is TIMED_OUT:
        line.forget(place)
    return value
