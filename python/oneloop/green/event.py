"""`Event` and `AsyncResult`: green threads and coroutines wait for them, and any thread can set them.

In a coroutine, the blocking methods return an awaitable: use `event.wait()` in a green thread, and `await event.wait()`
in a coroutine.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic

from oneloop import _native
from oneloop.green.hub import get_hub
from oneloop.green.line import TIMED_OUT, Coroutine, Line, wait_at
from oneloop.green.links import unlink
from oneloop.green.steps import is_in_green_thread
from oneloop.green.timeout import Timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["AsyncResult", "Event"]


class _Linked:
    """An object with callbacks that the hub calls, once each, when the object is ready."""

    def __init__(self) -> None:
        self._links: deque[Callable[[Any], object]] = deque()
        # Their time has come, even if the event is cleared before they are called, as that of waiters.
        self._told_links: deque[Callable[[Any], object]] = deque()
        self._hub: Any = None

    def ready(self) -> bool:
        raise NotImplementedError

    def _count_waiters(self) -> int:
        raise NotImplementedError

    def rawlink(self, callback: Callable[[Any], object]) -> None:
        """Make the hub call `callback(self)` once, when the object is ready. The callback must not block.

        Raises:
            TypeError: `callback` is not callable.
        """
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        # Set before the link is added: another thread may set the event at any moment.
        if self._hub is None:
            self._hub = get_hub()
        self._links.append(callback)
        if self.ready():
            self._tell_links()

    def unlink(self, callback: Callable[[Any], object]) -> None:
        """Remove a callback."""
        unlink(self._links, callback)
        unlink(self._told_links, callback)

    def linkcount(self) -> int:
        """The number of callbacks and waiters."""
        return len(self._links) + len(self._told_links) + self._count_waiters()

    def _notify(self) -> None:
        # By their numbers: a callback may be unhashable. Each is kept, so that no other one gets its number.
        called: dict[int, Callable[[Any], object]] = {}
        for _ in range(len(self._told_links)):
            if not self._told_links:
                return
            link = self._told_links.popleft()
            if id(link) in called:
                continue
            called[id(link)] = link
            try:
                link(self)
            except BaseException as error:  # noqa: BLE001 - it is reported
                self._hub.handle_error((link, self), type(error), error, error.__traceback__)

    def _tell_links(self) -> None:
        # Other threads may do the same.
        with suppress(IndexError):
            while True:
                self._told_links.append(self._links.popleft())
        self._hub.run_callback_threadsafe(self._notify)


class Event(_native.EventCore, _Linked):
    """A flag that green threads and coroutines can wait for; see `threading.Event`."""

    def ready(self) -> bool:
        """Whether the flag is set."""
        return self.is_set()

    isSet = ready  # noqa: N815 - threading's name

    def _count_waiters(self) -> int:
        return self.waiting

    def set(self) -> None:
        """Set the flag and wake all waiters. Callable from any thread."""
        self._set()
        if self._links:
            self._tell_links()

    _at_fork_reinit = _reset_internal_locks = _native.EventCore._forget_all
    """`threading` calls them in a forked child on its events, which may be these."""

    async def _waited(self, timeout: float | Timeout | None) -> bool:
        place = Coroutine(timeout)
        if self._is_set_or_enter(place):
            return True
        return await wait_at(self, place) is not TIMED_OUT or self.is_set()

    def __repr__(self) -> str:
        state = "set" if self.is_set() else "clear"
        return f"<{type(self).__name__} at {hex(id(self))} {state} waiting={self.waiting}>"


class AsyncResult(_Linked, Generic[T]):
    """A value or an exception that is set later; a coroutine can await it.

    It can be a link of a green thread (`greenlet.link(result)`): it then receives the green thread's value or
    exception.
    """

    def __init__(self) -> None:
        super().__init__()
        self._line = Line()
        self._is_set = False
        self._value: T | None = None
        self._exception: BaseException | None = None
        self._trace: TracebackType | None = None

    def ready(self) -> bool:
        """Whether a value or an exception was set."""
        return self._is_set

    done = ready

    def successful(self) -> bool:
        """Whether a value was set."""
        return self._is_set and self._exception is None

    @property
    def value(self) -> T | None:
        """The value, or None."""
        return self._value

    @property
    def exception(self) -> BaseException | None:
        """The exception, or None."""
        return self._exception

    @property
    def exc_info(self) -> tuple[Any, ...]:
        """The exception in the form of `sys.exc_info()`; an empty tuple if there is none."""
        raised = self._exception
        return () if raised is None else (type(raised), raised, self._trace)

    def set(self, value: T | None = None) -> None:
        """Set the value and wake all waiters. Callable from any thread."""
        self._come(value, None)

    set_result = set  # noqa: A003 - a future's name for it

    def set_exception(self, exception: BaseException, exc_info: tuple[Any, Any, Any] | None = None) -> None:
        """Set an exception and wake all waiters. Callable from any thread.

        Args:
            exception: the exception that `get` raises.
            exc_info: a tuple as from `sys.exc_info()`; its traceback, if it has one, is set on the exception.
        """
        if exc_info is not None and exc_info[2] is not None:
            exception = exception.with_traceback(exc_info[2])
        self._come(None, exception)

    def _come(self, value: T | None, exception: BaseException | None) -> None:
        with self._line.guard:
            self._is_set, self._value, self._exception = True, value, exception
            self._trace = None if exception is None else exception.__traceback__
        self._line.wake_all()
        if self._links:
            self._tell_links()

    def _count_waiters(self) -> int:
        return len(self._line)

    def get(self, block: bool = True, timeout: float | Timeout | None = None) -> T:
        """Wait for the value.

        Args:
            block: whether to wait.
            timeout: the maximum time to wait, in seconds, or a `Timeout`; None means no limit.

        Returns:
            The value. In a coroutine, with `block`: an awaitable of it, which type checkers do not know; `await result`
            has the type of the value.

        Raises:
            Timeout: nothing was set, and `block` is false or the timeout expired.
            BaseException: the exception that was set.
        """
        if block and not is_in_green_thread():
            return self._got(timeout)  # type: ignore[return-value]  # see above
        if not block and not self._is_set:
            raise Timeout
        self._wait(timeout)
        if not self._is_set:
            raise timeout if isinstance(timeout, Timeout) else Timeout(timeout)
        return self._outcome()

    result = get

    async def _got(self, timeout: float | Timeout | None) -> T:
        await self._waited(timeout)
        if not self._is_set:
            raise timeout if isinstance(timeout, Timeout) else Timeout(timeout)
        return self._outcome()

    def _outcome(self) -> T:
        if self._exception is not None:
            # Each `raise` adds frames to the exception's traceback.
            raise self._exception.with_traceback(self._trace)
        return self._value  # type: ignore[return-value]  # it is set

    def get_nowait(self) -> T:
        """Return the value without waiting, as `get(block=False)` does."""
        return self.get(block=False)

    def wait(self, timeout: float | Timeout | None = None) -> Any:
        """Wait until a value or an exception is set.

        Args:
            timeout: the maximum time in seconds, or a `Timeout`; None means no limit.

        Returns:
            The value; None if there is none. In a coroutine: an awaitable of that.
        """
        if not is_in_green_thread():
            return self._waited(timeout)
        try:
            self._wait(timeout)
        except Timeout as raised:
            if raised is not timeout:
                raise
        return self._value

    def _wait(self, timeout: float | Timeout | None) -> None:
        with self._line.guard:
            place = None if self._is_set else self._line.enter()
        if place is not None:
            self._line.wait(place, timeout)

    async def _waited(self, timeout: float | Timeout | None) -> Any:
        with self._line.guard:
            place = None if self._is_set else self._line.enter_coroutine(timeout)
        if place is not None:
            await self._line.waited(place)
        return self._value

    def cancel(self) -> bool:
        """Return False: it cannot be cancelled. For code that expects a future."""
        return False

    def cancelled(self) -> bool:
        """Whether its exception is a CancelledError."""
        return isinstance(self._exception, CancelledError)

    def __call__(self, source: Any) -> None:
        """As a link: copy the value or exception of `source`."""
        if source.successful():
            self.set(source.value)
        else:
            self.set_exception(source.exception, getattr(source, "exc_info", None))

    def __await__(self) -> Generator[Any, None, T]:
        return self._got(None).__await__()

    def __repr__(self) -> str:
        state = f"value={self._value!r}" if self.successful() else f"exception={self._exception!r}"
        return f"<{type(self).__name__} at {hex(id(self))} {state if self._is_set else 'unset'}>"
