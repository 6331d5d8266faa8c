"""`Line`: those who wait for an object, green threads and coroutines, in the order in which they came.

A green thread waits in `wait`, a coroutine awaits `waited`. Who is woken leaves the line with what it was woken with.
If it is thrown out of its wait after that (killed, cancelled, too late), `given_back` gets the value, for the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from oneloop.green.hub import TIMED_OUT, Waiter, get_hub, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TIMED_OUT", "Line"]


class _Coroutine:
    """A coroutine that waits: a future with the methods of a `Waiter`. Any thread may wake it."""

    __slots__ = ("_loop", "_value", "future", "is_woken")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()
        self.is_woken = False
        self._value: Any = None

    def wake(self, value: Any = None) -> bool:
        if self.is_woken or self.future.done():
            return False
        self.is_woken, self._value = True, value
        if asyncio._get_running_loop() is self._loop:
            self._settle()
        else:
            self._loop.call_soon_threadsafe(self._settle)
        return True

    def _settle(self) -> None:
        if not self.future.done():
            self.future.set_result(self._value)

    def done(self) -> bool:
        return self.is_woken

    def get(self) -> Any:
        return self._value


class Line:
    """Waiters, first come, first served. Any thread may wake them."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: deque[Any] = deque()

    def __len__(self) -> int:
        return len(self._waiters)

    def wake(self, value: Any = None) -> bool:
        """Wake who has waited longest. False if nobody waits."""
        while self._waiters:
            try:
                waiter = self._waiters.popleft()
            except IndexError:
                return False
            if waiter.wake(value):
                return True
        return False

    def wake_all(self, value: Any = None) -> None:
        """Wake those who wait now."""
        for _ in range(len(self._waiters)):
            if not self.wake(value):
                return

    def wait(self, timeout_s: float | None = None, given_back: Callable[[Any], object] | None = None) -> Any:
        """Wait in a green thread; what it is woken with, `TIMED_OUT` after so many seconds."""
        hub = get_hub()
        waiter = Waiter(hub)
        self._waiters.append(waiter)
        try:
            value = wait_for(waiter, hub, timeout_s)
        except BaseException:
            self._leave(waiter, given_back)
            raise
        if value is TIMED_OUT:
            self._forget(waiter)
        return value

    async def waited(self, timeout_s: float | None = None, given_back: Callable[[Any], object] | None = None) -> Any:
        """The same for coroutines."""
        waiter = _Coroutine()
        self._waiters.append(waiter)
        timer = None if timeout_s is None else waiter._loop.call_later(max(timeout_s, 0), waiter.wake, TIMED_OUT)
        try:
            value = await waiter.future
        except BaseException:
            self._leave(waiter, given_back)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if value is TIMED_OUT:
            self._forget(waiter)
        return value

    def _leave(self, waiter: Any, given_back: Callable[[Any], object] | None) -> None:
        """It was thrown out of its wait, perhaps after it was woken."""
        if waiter.done():
            value = waiter.get()
            if given_back is not None and value is not TIMED_OUT:
                given_back(value)
        self._forget(waiter)

    def _forget(self, waiter: Any) -> None:
        for index, waiting in enumerate(self._waiters):
            if waiting is waiter:
                del self._waiters[index]
                return
