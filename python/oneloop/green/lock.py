"""Semaphores and locks for green threads and coroutines, in one OS thread or several.

`acquire()` blocks in a green thread. In a coroutine it returns an awaitable; `async with` works too.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident  # the original ones, even if patching replaces them later
from collections import deque
from typing import TYPE_CHECKING, Any, Self, SupportsFloat

from oneloop import _native
from oneloop.green.hub import get_hub, has_hub
from oneloop.green.line import TIMED_OUT, Coroutine, wait_at
from oneloop.green.steps import is_in_green_thread, wait_here

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["BoundedSemaphore", "DummySemaphore", "RLock", "Semaphore"]


_main_thread_ident = get_ident()


class Semaphore(_native.SemaphoreCore):
    """A counter. `acquire` decrements it and waits while it is 0; `release` increments it. Waiters are served in order.

    Raises:
        ValueError: the initial value is negative.
    """

    _hub: Any = None

    def __new__(cls, value: int = 1, hub: Any = None, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls, value, None)
        if hub is not None:
            made._hub = hub
        return made

    @property
    def hub(self) -> Any:
        """The hub that calls the links; None if there is none yet."""
        return self._hub

    def _block_thread(self, timeout: SupportsFloat | None) -> bool | None:
        """Acquire it in a thread without green threads, where nothing else could run; None: in another thread."""
        if get_ident() == _main_thread_ident or has_hub():
            return None
        place = _native.ThreadPlace(allocate_lock())
        if self._take_or_enter(place):
            return True
        try:
            place.wait(None if timeout is None else float(timeout))
        finally:
            self.forget(place)
        # From here on nobody wakes it.
        return place.done()

    async def _acquired(self, timeout: SupportsFloat | None = None) -> bool:
        place = Coroutine(timeout)
        if self._take_or_enter(place):
            return True
        return await wait_at(self, place, self._give_back) is not TIMED_OUT

    def _give_back(self, _: Any) -> None:
        self._pass_on()

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until the counter is not 0, without decrementing it.

        Args:
            timeout: the maximum time in seconds; None means no limit.

        Returns:
            The counter. In a coroutine: an awaitable of it.
        """
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
        """Make the hub call `callback(self)` once, when `acquire` would not wait. The callback must not block.

        Raises:
            TypeError: `callback` is not callable.
        """
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        if self._hub is None:
            self._hub = get_hub()
        self.__dict__.setdefault("_links", deque()).append(callback)
        self._watch(True)
        if self.ready():
            self._notify_soon()

    def unlink(self, callback: Callable[[Any], object]) -> None:
        """Remove a callback."""
        links = self.__dict__.get("_links", [])
        if callback in links:
            links.remove(callback)
        self._watch(bool(links))

    def linkcount(self) -> int:
        """The number of callbacks and waiters."""
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
    """A semaphore whose `release` raises ValueError if it is called more often than `acquire`."""

    def __new__(cls, value: int = 1, hub: Any = None, *args: Any, **kwargs: Any) -> Self:
        made = _native.SemaphoreCore.__new__(cls, value, value)
        if hub is not None:
            made._hub = hub
        return made


class DummySemaphore:
    """A semaphore that never blocks."""

    def __init__(self, value: int | None = None) -> None:
        pass

    def locked(self) -> bool:
        """Return False."""
        return False

    def ready(self) -> bool:
        """Return True."""
        return True

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Return True immediately."""
        return True

    def release(self) -> None:
        """Do nothing."""

    def wait(self, timeout: float | None = None) -> int:
        """Return 1 immediately."""
        return 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class RLock(_native.RLockCore):
    """A lock that the green thread which owns it may acquire again."""

    def __new__(cls, hub: Any = None, *args: Any, **kwargs: Any) -> Self:
        return super().__new__(cls, Semaphore(1, hub))

    def _wait(self, blocking: bool, timeout: float | None) -> bool:
        if not blocking:
            return False
        taken: bool = wait_here(self._block.acquire, True, timeout)
        return taken

    def locked(self) -> bool:
        """Whether the lock is held."""
        return self._block.locked()

    # Methods that threading.Condition calls on its lock.

    def _acquire_restore(self, state: tuple[int, object]) -> None:
        ended = wait_here(_native.acquire_at_last, self._block)
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
