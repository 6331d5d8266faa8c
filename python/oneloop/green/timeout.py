"""`Timeout`: an exception that is raised in the green thread that started it, after a given time."""

from __future__ import annotations

from functools import partial
from math import inf, ldexp
from typing import TYPE_CHECKING, Any, Self, overload

from greenlet import getcurrent

from oneloop.green.exceptions import BlockingSwitchOutError
from oneloop.green.hub import get_hub
from oneloop.green.steps import is_in_green_thread

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable
    from types import TracebackType
    from typing import ParamSpec, TypeVar

    from oneloop._native import Waiter
    from oneloop.green.loop import Alarm

    P = ParamSpec("P")
    T = TypeVar("T")
    V = TypeVar("V")

__all__ = ["Timeout", "with_timeout"]


class Timeout(BaseException):
    """Raise an exception in the current green thread after a given time.

    Args:
        seconds: the time; None means never. 0 or less: when the green thread waits next.
        exception: an exception or exception class: raise that. None or True: raise this object. False: raise this
            object, and suppress it at the end of its `with` block. A string: raise this object; `str()` shows the
            string. Anything else: raise TypeError.
        ref: whether the timer keeps the loop alive.
        priority: ignored; accepted because gevent has it.

    Raises:
        TypeError: `seconds` is no number.
    """

    def __init__(
        self,
        seconds: float | None = None,
        exception: BaseException | type[BaseException] | bool | str | None = None,
        ref: bool = True,
        priority: int = -1,
    ) -> None:
        BaseException.__init__(self)
        if seconds is not None:
            # Unlike `float`, it takes no text.
            ldexp(seconds, 0)
        self.seconds = seconds
        self.exception = exception
        self._ref = ref
        self._timer: TimerHandle | Alarm | None = None
        self._thrown: Waiter | None = None

    def __float__(self) -> float:
        """The seconds, for calls that accept it as their `timeout`; infinite if `seconds` is None."""
        return inf if self.seconds is None else float(self.seconds)

    def start(self) -> None:
        """Start the timer.

        Raises:
            AssertionError: it is already started.
            BlockingSwitchOutError: called in a coroutine, which may await something else when it expires. A subclass of
                AssertionError.
        """
        if self.pending:
            raise AssertionError(f"{self!r} is already started; to restart it, cancel it first")
        if self.seconds is None:
            return
        if not is_in_green_thread():
            raise BlockingSwitchOutError("a Timeout needs a green thread: in a coroutine, use asyncio.timeout()")
        hub = get_hub()
        if self._ref:
            self._timer = hub.asyncio_loop.call_later(max(self.seconds, 0), self._expire, hub, getcurrent())
        else:
            self._timer = hub.loop.unref_timer(max(self.seconds, 0), partial(self._expire, hub, getcurrent()))

    def _expire(self, hub: Any, greenlet: Any) -> None:
        self._timer = None
        self._thrown = hub.throw_soon(greenlet, self._raised())

    def _raised(self) -> BaseException:
        if isinstance(self.exception, BaseException):
            return self.exception
        if isinstance(self.exception, type) and issubclass(self.exception, BaseException):
            return self.exception()
        if self.exception in (None, True, False) or isinstance(self.exception, str):
            return self
        kind = type(self.exception).__name__
        return TypeError(f"exceptions must be classes, or instances, not {kind}")

    @classmethod
    def start_new(
        cls,
        timeout: float | Timeout | None = None,
        exception: BaseException | type[BaseException] | bool | str | None = None,
        ref: bool = True,
    ) -> Timeout:
        """Return a started timeout.

        Args:
            timeout: seconds; or a Timeout, which is returned, after starting it if it was not started.
            exception: as in `Timeout`.
            ref: as in `Timeout`.
        """
        if isinstance(timeout, Timeout):
            if not timeout.pending:
                timeout.start()
            return timeout
        started = cls(timeout, exception, ref=ref)
        started.start()
        return started

    @classmethod
    def _start_new_or_dummy(cls, timeout: Any, exception: Any = None, ref: bool = True) -> Timeout:
        """Like `start_new`, which accepts None too: gevent's private name, which programs use."""
        return cls.start_new(timeout, exception, ref)

    @property
    def pending(self) -> bool:
        """Whether the timer is running."""
        return self._timer is not None

    def cancel(self) -> None:
        """Stop the timer. An exception that was not delivered yet is dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._thrown is not None:
            self._thrown.let_go()
            self._thrown = None

    close = cancel

    def __enter__(self) -> Self:
        if not self.pending:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.cancel()
        return True if value is self and self.exception is False else None

    def __str__(self) -> str:
        if self.seconds is None:
            return ""
        unit = "" if self.seconds == 1 else "s"
        if self.exception is None or self.exception is True:
            return f"{self.seconds} second{unit}"
        if self.exception is False:
            return f"{self.seconds} second{unit} (silent)"
        return f"{self.seconds} second{unit}: {self.exception}"

    def __repr__(self) -> str:
        pending = " pending" if self.pending else ""
        raised = "" if self.exception is None else f" exception={self.exception!r}"
        return f"<{type(self).__name__} at {hex(id(self))} seconds={self.seconds}{raised}{pending}>"


@overload
def with_timeout(
    seconds: float | None, function: Callable[..., T], *args: Any, timeout_value: V, **kwds: Any
) -> T | V: ...
@overload
def with_timeout(seconds: float | None, function: Callable[P, T], *args: P.args, **kwds: P.kwargs) -> T: ...
def with_timeout(
    seconds: float | None, function: Callable[..., T], *args: Any, timeout_value: Any = ..., **kwds: Any
) -> T | Any:
    """Call a function with a time limit.

    Args:
        seconds: the time limit; None means no limit.
        function: the function to call.
        *args: its arguments.
        timeout_value: the value to return if the time limit expires.
        **kwds: its keyword arguments.

    Raises:
        Timeout: the time limit expired, and there is no `timeout_value`.
    """
    timeout = Timeout.start_new(seconds)
    try:
        return function(*args, **kwds)
    except Timeout as raised:
        if raised is timeout and timeout_value is not ...:
            return timeout_value
        raise
    finally:
        timeout.cancel()
