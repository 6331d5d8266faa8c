"""`Line`: those who wait for an object, green threads and coroutines, in the order in which they came.

A green thread waits in `wait`, a coroutine awaits `waited`. Who is woken leaves the line with what it was woken with.
If it is thrown out of its wait after that (killed, cancelled, too late), `given_back` gets the value, for the next one.
"""

from __future__ import annotations

import asyncio
from _thread import RLock as _RLock  # the interpreter's own, whatever is patched later
from math import inf
from typing import TYPE_CHECKING, Any

from oneloop import _native
from oneloop.green.hub import TIMED_OUT

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TIMED_OUT", "Coroutine", "Line", "wait_at"]


class Coroutine:
    """A coroutine that waits: a future with the methods of a `Waiter`. Any thread may wake it."""

    __slots__ = ("_value", "future", "is_woken", "loop")

    def __init__(self) -> None:
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
    """Waiters, first come, first served. Any thread may wake them.

    Who looks whether it has to wait, and enters the line if so, does both inside of `guard`; who changes what is looked
    at, and wakes somebody, does too. So no wake-up from another thread is lost. Nobody waits inside of it. It can be
    entered again, by a destructor or a handler of a signal that runs in its midst.
    """

    __slots__ = ("guard",)

    def __init__(self) -> None:
        self.guard = _RLock()

    def wake_all(self, value: Any = None) -> None:
        """Wake those who wait now."""
        for _ in range(len(self)):
            if not self.wake(value):
                return

    def enter_coroutine(self) -> Coroutine:
        """A place for the coroutine that calls; `waited` is to follow."""
        place = Coroutine()
        self.add(place)
        return place

    async def waited(
        self, place: Coroutine, timeout_s: float | None = None, given_back: Callable[[Any], object] | None = None
    ) -> Any:
        """As `wait`, for coroutines."""
        return await wait_at(self, place, timeout_s, given_back)


async def wait_at(
    line: Any, place: Coroutine, timeout_s: float | None = None, given_back: Callable[[Any], object] | None = None
) -> Any:
    """What a coroutine's place in a line is woken with, `TIMED_OUT` after so many seconds.

    If it is cancelled after it was woken, `given_back` gets the value.
    """
    ends = timeout_s is not None and float(timeout_s) != inf
    timer = place.loop.call_later(max(float(timeout_s), 0), place.wake, TIMED_OUT) if ends else None  # type: ignore[arg-type]
    try:
        value = await place.future
    except BaseException:
        line.forget(place)
        # From here on nobody wakes it.
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
