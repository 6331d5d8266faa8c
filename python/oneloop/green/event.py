"""`Event` and `AsyncResult`: green threads and coroutines wait for them, and any thread can set them.

In a coroutine, the blocking methods return an awaitable: use `event.wait()` in a green thread, and `await event.wait()`
in a coroutine.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oneloop.green.greenlet import unlink
from oneloop.green.hub import get_hub, is_in_green_thread
from oneloop.green.line import TIMED_OUT, Line
from oneloop.green.timeout import Timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["AsyncResult", "Event"]

T = TypeVar("T")


class _Linked:
    """An object with callbacks that the hub calls, once each, when the object is ready."""

    def __init__(self) -> None:
        self._line = Line()
        self._links: deque[Callable[[Any], object]] = deque()
        self._hub: Any = None

    def ready(self) -> bool:
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
            self._hub.run_callback_threadsafe(self._notify)

    def unlink(self, callback: Callable[[Any], object]) -> None:
        """Remove a callback."""
        unlink(self._links, callback)

    def linkcount(self) -> int:
        """The number of callbacks and waiters."""
        return len(self._links) + len(self._line)

    def _notify(self) -> None:
        for _ in range(len(self._links)):
            if not self._links or not self.ready():
                return
            link = self._links.popleft()
            try:
                link(self)
            except BaseException as error:  # noqa: BLE001 - it is reported
                self._hub.handle_error((link, self), type(error), error, error.__traceback__)

    def _tell(self, value: Any) -> None:
        self._line.wake_all(value)
        if self._links:
            self._hub.run_callback_threadsafe(self._notify)


class Event(_Linked):
    """A flag that green threads and coroutines can wait for; see `threading.Event`."""

    def __init__(self) -> None:
        super().__init__()
        self._flag = False

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self._flag

    isSet = ready = is_set  # noqa: N815 - threading's name

    def set(self) -> None:
        """Set the flag and wake all waiters. Callable from any thread."""
        with self._line.guard:
            self._flag = True
        self._tell(True)

    def clear(self) -> None:
        """Clear the flag: later waits block until it is set again."""
        self._flag = False

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until the flag is set.

        Args:
            timeout: the maximum time in seconds; None means no limit.

        Returns:
            True, or False if the timeout expired. In a coroutine: an awaitable of that.
        """
        if not is_in_green_thread():
            return self._waited(timeout)
        if self.is_set():
            return True
        with self._line.guard:
            if self.is_set():
                return True
            place = self._line.enter()
        return self._line.wait(place, timeout) is not TIMED_OUT or self._flag

    async def _waited(self, timeout: float | None) -> bool:
        with self._line.guard:
            if self._flag:
                return True
            place = self._line.enter_coroutine()
        return await self._line.waited(place, timeout) is not TIMED_OUT or self._flag

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} at {hex(id(self))} {'set' if self._flag else 'clear'} waiting={len(self._line)}>"
        )


class AsyncResult(_Linked, Generic[T]):
    """A value or an exception that is set later; a coroutine can await it.

    It can be a link of a green thread (`greenlet.link(result)`): it then receives the green thread's value or
    exception.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False
        self._value: T | None = None
        self._exception: BaseException | None = None

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
    def exc_info(self) -> tuple[Any, Any, Any]:
        """The exception in the form of `sys.exc_info()`; three times None if there is none."""
        raised = self._exception
        return (None, None, None) if raised is None else (type(raised), raised, raised.__traceback__)

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
        self._tell(None)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Wait for the value.

        Args:
            block: whether to wait.
            timeout: the maximum time to wait, in seconds; None means no limit.

        Returns:
            The value. In a coroutine, with `block`: an awaitable of it.

        Raises:
            Timeout: nothing was set, and `block` is false or the timeout expired.
            BaseException: the exception that was set.
        """
        if block and not is_in_green_thread():
            return self._got(timeout)
        if not block and not self._is_set:
            raise Timeout
        self.wait(timeout)
        if not self._is_set:
            raise Timeout(timeout)
        return self._outcome()

    result = get

    async def _got(self, timeout: float | None) -> Any:
        await self._waited(timeout)
        if not self._is_set:
            raise Timeout(timeout)
        return self._outcome()

    def _outcome(self) -> Any:
        if self._exception is not None:
            raise self._exception
        return self._value

    def get_nowait(self) -> Any:
        """Return the value without waiting, as `get(block=False)` does."""
        return self.get(block=False)

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until a value or an exception is set.

        Args:
            timeout: the maximum time in seconds; None means no limit.

        Returns:
            The value; None if there is none. In a coroutine: an awaitable of that.
        """
        if not is_in_green_thread():
            return self._waited(timeout)
        with self._line.guard:
            place = None if self._is_set else self._line.enter()
        if place is not None:
            self._line.wait(place, timeout)
        return self._value

    async def _waited(self, timeout: float | None) -> Any:
        with self._line.guard:
            place = None if self._is_set else self._line.enter_coroutine()
        if place is not None:
            await self._line.waited(place, timeout)
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

    def __await__(self) -> Generator[Any, None, Any]:
        return self._got(None).__await__()

    def __repr__(self) -> str:
        state = f"value={self._value!r}" if self.successful() else f"exception={self._exception!r}"
        return f"<{type(self).__name__} at {hex(id(self))} {state if self._is_set else 'unset'}>"
