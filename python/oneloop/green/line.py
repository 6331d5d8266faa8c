"""`Line`: those who wait for an object, green threads and coroutines, in the order in which they came.

A green thread waits in `wait`, a coroutine awaits `waited`. Who is woken leaves the line with what it was woken with.
If it is thrown out of its wait after that (killed, cancelled, too late), `given_back` gets the value, for the next one.
"""

from __future__ import annotations

import asyncio
from _thread import RLock as _RLock  # the interpreter's own, whatever is patched later
from collections import deque
from typing import TYPE_CHECKING, Any

from oneloop.green.hub import TIMED_OUT, Waiter, get_hub, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TIMED_OUT", "Line"]


class _Coroutine:
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


class Line:
    """Waiters, first come, first served. Any thread may wake them.

    Who looks whether it has to wait, and enters the line if so, does both inside of `guard`; who changes what is looked
    at, and wakes somebody, does too. So no wake-up from another thread is lost. Nobody waits inside of it. It can be
    entered again, by a destructor or a handler of a signal that runs in its midst.
    """

    __slots__ = ("_waiters", "guard")

    def __init__(self) -> None:
        self._waiters: deque[Any] = deque()
        self.guard = _RLock()

    def __len__(self) -> int:
        return len(self._waiters)

    def wake(self, value: Any = None) -> bool:
        """Wake who has waited longest. False if nobody waits."""
        with self.guard:
            while self._waiters:
                if self._waiters.popleft().wake(value):
                    return True
        return False

    def wake_all(self, value: Any = None) -> None:
        """Wake those who wait now."""
        for _ in range(len(self._waiters)):
            if not self.wake(value):
                return

    def enter(self) -> Waiter:
        """A place for the green thread that calls; `wait` is to follow."""
        waiter = Waiter(get_hub())
        self._waiters.append(waiter)
        return waiter

    def enter_coroutine(self) -> Any:
        """A place for the coroutine that calls; `waited` is to follow."""
        waiter = _Coroutine()
        self._waiters.append(waiter)
        return waiter

    def wait(
        self, waiter: Waiter, timeout_s: float | None = None, given_back: Callable[[Any], object] | None = None
    ) -> Any:
        """Wait in a place; what it is woken with, `TIMED_OUT` after so many seconds."""
        try:
            value = wait_for(waiter, get_hub(), timeout_s)
        except BaseException:
            self._leave(waiter, given_back)
            raise
        if value is TIMED_OUT:
            self.forget(waiter)
        return value

    async def waited(
        self, waiter: Any, timeout_s: float | None = None, given_back: Callable[[Any], object] | None = None
    ) -> Any:
        """The same for coroutines."""
        timer = None if timeout_s is None else waiter.loop.call_later(max(timeout_s, 0), waiter.wake, TIMED_OUT)
        try:
            value = await waiter.future
        except BaseException:
            self._leave(waiter, given_back)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if value is TIMED_OUT:
            self.forget(waiter)
        return value

    def _leave(self, waiter: Any, given_back: Callable[[Any], object] | None) -> None:
        """It was thrown out of its wait, perhaps after it was woken."""
        self.forget(waiter)
        # From here on nobody wakes it.
        if waiter.done():
            value = waiter.get()
            if given_back is not None and value is not TIMED_OUT:
                given_back(value)

    def forget(self, waiter: Any) -> None:
        """Take a place out of the line."""
        with self.guard:
            for index, waiting in enumerate(self._waiters):
                if waiting is waiter:
                    del self._waiters[index]
                    return
