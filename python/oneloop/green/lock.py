"""Semaphores and locks for green threads and coroutines, of one thread or of several.

`acquire()` blocks in a green thread; in a coroutine it returns an awaitable, and `async with` does the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from greenlet import getcurrent

from oneloop.green.hub import get_hub, is_in_green_thread
from oneloop.green.line import TIMED_OUT, Line

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["BoundedSemaphore", "DummySemaphore", "RLock", "Semaphore"]


class Semaphore:
    """A counter that `acquire` lowers, waiting while it is 0, and `release` raises. First come, first served."""

    def __init__(self, value: int = 1, hub: Any = None) -> None:
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self.counter = value
        self._line = Line()

    def locked(self) -> bool:
        """Whether `acquire` would wait."""
        return self.counter <= 0

    def ready(self) -> bool:
        """Whether `acquire` would not wait."""
        return self.counter > 0

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> Any:
        """Lower the counter: whether that was possible in so many seconds. In a coroutine: an awaitable of that."""
        if blocking and not is_in_green_thread():
            return self._acquired(timeout)
        with self._line.guard:
            if self._take():
                return True
            if not blocking:
                return False
            place = self._line.enter()
        return self._line.wait(place, timeout, self._give_back) is not TIMED_OUT

    async def _acquired(self, timeout: float | None = None) -> bool:
        with self._line.guard:
            if self._take():
                return True
            place = self._line.enter_coroutine()
        return await self._line.waited(place, timeout, self._give_back) is not TIMED_OUT

    def _take(self) -> bool:
        if self.counter <= 0:
            return False
        self.counter -= 1
        return True

    def _give_back(self, _: Any) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        # Whoever waits has it at once: nobody who comes now overtakes.
        with self._line.guard:
            if not self._line.wake():
                self.counter += 1

    def release(self) -> int:
        """Raise the counter, or let who has waited longest go on. Any thread. The counter's value."""
        self._pass_on()
        return self.counter

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until the counter is not 0, without lowering it; its value. In a coroutine: an awaitable of that."""
        if not is_in_green_thread():
            return self._waited(timeout)
        if self.acquire(timeout=timeout):
            self._pass_on()
        return self.counter

    async def _waited(self, timeout: float | None) -> int:
        if await self._acquired(timeout):
            self._pass_on()
        return self.counter

    def __enter__(self) -> None:
        if not is_in_green_thread():
            raise RuntimeError("in a coroutine, a semaphore is acquired with `async with`")
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    async def __aenter__(self) -> None:
        await self._acquired()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {hex(id(self))} counter={self.counter} waiting={len(self._line)}>"


class BoundedSemaphore(Semaphore):
    """A semaphore that is not released more often than it was acquired."""

    def __init__(self, value: int = 1, hub: Any = None) -> None:
        super().__init__(value, hub)
        self._initial_value = value

    def release(self) -> int:
        """As `Semaphore.release`.

        Raises:
            ValueError: it was released too often.
        """
        with self._line.guard:
            if self.counter >= self._initial_value:
                raise ValueError("Semaphore released too many times")
            return super().release()


class DummySemaphore:
    """A semaphore that never makes anybody wait."""

    def __init__(self, value: int | None = None) -> None:
        pass

    def locked(self) -> bool:
        """Never."""
        return False

    def ready(self) -> bool:
        """Always."""
        return True

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """At once."""
        return True

    def release(self) -> None:
        """Nothing to do."""

    def wait(self, timeout: float | None = None) -> int:
        """Nothing to wait for."""
        return 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class RLock:
    """A lock that its owner, a green thread, may acquire again."""

    def __init__(self, hub: Any = None) -> None:
        self._block = Semaphore(1, hub)
        self._owner: object = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Whether it was possible in so many seconds."""
        me = getcurrent()
        if self._owner is me:
            self._count += 1
            return True
        if timeout is not None and timeout < 0:
            timeout = None
        if not is_in_green_thread() and blocking and self._block.locked():
            # It is an error, and the hub says it best.
            get_hub().pause()
        if self._block.acquire(blocking and is_in_green_thread(), timeout):
            self._owner, self._count = me, 1
            return True
        return False

    __enter__ = acquire

    def release(self) -> None:
        """Let go of it once.

        Raises:
            RuntimeError: another green thread owns it, or nobody.
        """
        if self._owner is not getcurrent():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if self._count == 0:
            self._owner = None
            self._block.release()

    def locked(self) -> bool:
        """Whether somebody owns it."""
        return self._block.locked()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    # What threading.Condition asks of its lock.

    def _acquire_restore(self, state: tuple[int, object]) -> None:
        if not is_in_green_thread():
            get_hub().pause()
        self._block.acquire()
        self._count, self._owner = state

    def _release_save(self) -> tuple[int, object]:
        state = self._count, self._owner
        self._count, self._owner = 0, None
        self._block.release()
        return state

    def _is_owned(self) -> bool:
        return self._owner is getcurrent()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {hex(id(self))} count={self._count} owner={self._owner!r}>"
