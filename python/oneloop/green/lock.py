"""Semaphores and locks for green threads and coroutines, of one thread or of several.

`acquire()` blocks in a green thread; in a coroutine it returns an awaitable, and `async with` does the same.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Self

from oneloop import _native
from oneloop.green.exceptions import BlockingSwitchOutError
from oneloop.green.hub import get_hub, is_in_green_thread
from oneloop.green.line import TIMED_OUT, Coroutine, wait_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["BoundedSemaphore", "DummySemaphore", "RLock", "Semaphore"]


def acquire_at_last(lock: Any) -> BaseException | None:
    """Take a lock that the caller has to have, also if it is killed meanwhile: with what it was killed.

    Raises:
        BlockingSwitchOutError: it would wait, in a coroutine.
    """
    ended = None
    while True:
        try:
            lock.acquire()
        except BlockingSwitchOutError:
            raise
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            ended = error
        else:
            return ended


class Semaphore(_native.SemaphoreCore):
    """A counter that `acquire` lowers, waiting while it is 0, and `release` raises. First come, first served.

    Raises:
        ValueError: the value is negative.
    """

    _hub: Any = None
    """Calls what is linked."""

    def __new__(cls, value: int = 1, hub: Any = None, *args: Any, **kwargs: Any) -> Self:
        return super().__new__(cls, value, None)

    async def _acquired(self, timeout: float | None = None) -> bool:
        place = Coroutine()
        if self._take_or_enter(place):
            return True
        return await wait_at(self, place, timeout, self._give_back) is not TIMED_OUT

    def _give_back(self, _: Any) -> None:
        self._pass_on()

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

    def rawlink(self, callback: Callable[[Any], object]) -> None:
        """Have the hub call `callback(self)`, once, when `acquire` would not wait; the callback may not block."""
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        if self._hub is None:
            self._hub = get_hub()
        self.__dict__.setdefault("_links", deque()).append(callback)
        self._watch(True)
        if self.ready():
            self._notify_soon()

    def unlink(self, callback: Callable[[Any], object]) -> None:
        """Call `callback` no more."""
        links = self.__dict__.get("_links", [])
        if callback in links:
            links.remove(callback)
        self._watch(bool(links))

    def linkcount(self) -> int:
        """How many callbacks there are, and waiters."""
        return len(self.__dict__.get("_links", ())) + self.waiting

    def _notify_soon(self) -> None:
        self._hub.run_callback_threadsafe(self._notify)

    def _notify(self) -> None:
        links = self.__dict__.get("_links", [])
        while links and self.ready():
            link = links.popleft()
            try:
                link(self)
            except BaseException as error:  # noqa: BLE001 - it is reported
                self._hub.handle_error((link, self), type(error), error, error.__traceback__)
        self._watch(bool(links))

    async def __aenter__(self) -> None:
        await self._acquired()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {hex(id(self))} counter={self.counter} waiting={self.waiting}>"


class BoundedSemaphore(Semaphore):
    """A semaphore that is not released more often than it was acquired: ValueError."""

    def __new__(cls, value: int = 1, hub: Any = None, *args: Any, **kwargs: Any) -> Self:
        return _native.SemaphoreCore.__new__(cls, value, value)


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


class RLock(_native.RLockCore):
    """A lock that its owner, a green thread, may acquire again."""

    def __new__(cls, hub: Any = None, *args: Any, **kwargs: Any) -> Self:
        return super().__new__(cls, Semaphore(1, hub))

    def _wait(self, blocking: bool, timeout: float | None) -> bool:
        if not blocking:
            return False
        if not is_in_green_thread():
            # It is an error, and the hub says it best.
            get_hub().pause()
        taken: bool = self._block.acquire(True, timeout)
        return taken

    def locked(self) -> bool:
        """Whether somebody owns it."""
        return self._block.locked()

    # What threading.Condition asks of its lock.

    def _acquire_restore(self, state: tuple[int, object]) -> None:
        if not is_in_green_thread():
            get_hub().pause()
        ended = acquire_at_last(self._block)
        count, owner = state
        self._set_owner(owner, count)
        if ended is not None:
            raise ended

    def _release_save(self) -> tuple[int, object]:
        state = self._disown()
        self._block._pass_on()
        return state

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {hex(id(self))} count={self._count} owner={self._owner!r}>"
