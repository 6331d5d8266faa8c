"""`Waiter`: gevent's class to wait for a switch from the hub. At most one green thread waits at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop import _native
from oneloop.green.exceptions import ConcurrentObjectUseError
from oneloop.green.hub_loop import raised_by

if TYPE_CHECKING:
    from oneloop.green.greenlet import Greenlet
    from oneloop.green.hub import Hub

__all__ = ["Waiter"]

_NOTHING: Any = object()


class Waiter:
    """Hands a value or an exception to the green thread that is in `get`.

    If no green thread waits, it keeps the value until `clear`. `switch` and `throw` may be called on the hub, in green
    threads, and in other OS threads.
    """

    __slots__ = ("_error", "_wait", "hub", "value")

    def __init__(self, hub: Hub | None = None) -> None:
        self.hub: Any = _native.get_hub() if hub is None else hub
        self._wait = _native.Waiter(self.hub)
        self.clear()

    def clear(self) -> None:
        """Forget the stored value or exception."""
        self.value: Any = None
        self._error: tuple[Any, ...] | None = _NOTHING

    @property
    def greenlet(self) -> Any:
        """The green thread that waits, or None."""
        return self._wait.greenlet

    def ready(self) -> bool:
        """Whether a value or an exception is stored."""
        return self._error is not _NOTHING

    def successful(self) -> bool:
        """Whether a value is stored."""
        return self._error is None

    @property
    def exc_info(self) -> tuple[Any, ...] | None:
        """The stored arguments of `throw`, or None."""
        return None if self._error is _NOTHING else self._error

    def switch(self, value: Any) -> None:
        """Resume the waiting green thread with a value; store the value if no green thread waits."""
        if self._wait.greenlet is None or not self._wait.wake(value):
            self.value, self._error = value, None

    def switch_args(self, *args: Any) -> None:
        """Like `switch`, with several values as a tuple."""
        self.switch(args)

    def throw(self, *error: Any) -> None:
        """Raise an exception in the waiting green thread; store it if no green thread waits.

        Args:
            error: an exception, or an exception class followed by an optional value and traceback.
        """
        if self._wait.greenlet is None or not self._wait.fail(raised_by(error)):
            self._error = error

    def get(self) -> Any:
        """Return the stored value, or wait for one.

        Raises:
            ConcurrentObjectUseError: another green thread is waiting.
            BlockingSwitchOutError: called in a coroutine or a callback that may not block.
            BaseException: the exception that was passed to `throw`.
        """
        if self._error is not _NOTHING:
            if self._error is None:
                return self.value
            raise raised_by(self._error)
        if self._wait.greenlet is not None:
            raise ConcurrentObjectUseError(f"This Waiter is already used by {self._wait.greenlet!r}")
        return self._wait.get()

    def __call__(self, source: Greenlet) -> None:
        """As a link of a green thread: pass on its value or exception."""
        if source.exception is None:
            self.switch(source.value)
        else:
            self.throw(source.exception)

    def __str__(self) -> str:
        if self._error is _NOTHING:
            return f"<{type(self).__name__} greenlet={self.greenlet}>"
        if self._error is None:
            return f"<{type(self).__name__} greenlet={self.greenlet} value={self.value!r}>"
        return f"<{type(self).__name__} greenlet={self.greenlet} exc_info={self._error!r}>"
