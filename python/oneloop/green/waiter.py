"""`Waiter`: gevent's own way to wait for the hub, for programs that use it. One green thread waits at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop import _native
from oneloop.green.exceptions import ConcurrentObjectUseError
from oneloop.green.hub import Hub, get_hub

if TYPE_CHECKING:
    from oneloop.green.greenlet import Greenlet

__all__ = ["Waiter"]

_NOTHING: Any = object()


class Waiter:
    """A value or an exception for the green thread that is in `get`; without one it is kept, until `clear`.

    `switch` and `throw` may be called on the hub, in green threads, and in other threads.
    """

    __slots__ = ("_error", "_wait", "hub", "value")

    def __init__(self, hub: Hub | None = None) -> None:
        self.hub = get_hub() if hub is None else hub
        self._wait = _native.Waiter(self.hub)
        self.clear()

    def clear(self) -> None:
        """Forget what is kept."""
        self.value: Any = None
        self._error: tuple[Any, ...] | None = _NOTHING

    @property
    def greenlet(self) -> Any:
        """Who waits; None if nobody does."""
        return self._wait.greenlet

    def ready(self) -> bool:
        """Whether it keeps a value or an exception."""
        return self._error is not _NOTHING

    def successful(self) -> bool:
        """Whether it keeps a value."""
        return self._error is None

    @property
    def exc_info(self) -> tuple[Any, ...] | None:
        """What `throw` was given, if it is kept."""
        return None if self._error is _NOTHING else self._error

    def switch(self, value: Any) -> None:
        """Have the green thread that waits go on with a value."""
        if self._wait.greenlet is None or not self._wait.wake(value):
            self.value, self._error = value, None

    def switch_args(self, *args: Any) -> None:
        """The same with several, as a tuple."""
        self.switch(args)

    def throw(self, *error: Any) -> None:
        """Have an exception raised there: itself or its class, and, as `raise` had it once, its value and traceback."""
        if self._wait.greenlet is None or not self._wait.fail(_made(error)):
            self._error = error

    def get(self) -> Any:
        """What is kept, or what comes.

        Raises:
            ConcurrentObjectUseError: another green thread waits.
            BlockingSwitchOutError: in a callback, or a coroutine.
        """
        if self._error is not _NOTHING:
            if self._error is None:
                return self.value
            raise _made(self._error)
        if self._wait.greenlet is not None:
            raise ConcurrentObjectUseError(f"This Waiter is already used by {self._wait.greenlet!r}")
        return self._wait.get()

    def __call__(self, source: Greenlet) -> None:
        """As a link of a green thread: what that has ended with."""
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


def _made(error: tuple[Any, ...]) -> BaseException:
    from oneloop.green.hub_loop import _raised

    return _raised(error)
