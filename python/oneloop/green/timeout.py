"""`Timeout`: an exception in the green thread that started it, after a while."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Self, TypeVar

from greenlet import getcurrent

from oneloop.green.exceptions import BlockingSwitchOutError
from oneloop.green.hub import get_hub, is_in_green_thread

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable
    from types import TracebackType

    from oneloop._native import Waiter
    from oneloop.green.loop import Alarm

__all__ = ["Timeout", "with_timeout"]

T = TypeVar("T")


class Timeout(BaseException):
    """Raise an exception in the current green thread after so many seconds; itself, unless another one is given.

    Args:
        seconds: None: never. 0 or less: as soon as it waits.
        exception: an exception or its class; True or None: this object, and so is anything else, which its text then
            shows. False: this object, which ends its `with` block silently.
        ref: it counts as something to wait for.
    """

    def __init__(
        self,
        seconds: float | None = None,
        exception: BaseException | type[BaseException] | bool | str | None = None,
        ref: bool = True,
        priority: int = -1,
    ) -> None:
        BaseException.__init__(self)
        self.seconds = seconds
        self.exception = exception
        self._ref = ref
        self._timer: TimerHandle | Alarm | None = None
        self._thrown: Waiter | None = None

    def __float__(self) -> float:
        """Its seconds, where an object is taken for the `timeout` of a wait; infinite: never."""
        return inf if self.seconds is None else float(self.seconds)

    def start(self) -> None:
        """Start the time.

        Raises:
            AssertionError: it runs already, or (BlockingSwitchOutError) it is started in a coroutine.
        """
        if self.pending:
            raise AssertionError(f"{self!r} is already started; to restart it, cancel it first")
        if self.seconds is None:
            return
        if not is_in_green_thread():
            raise BlockingSwitchOutError("a Timeout is for green threads: in a coroutine, use asyncio.timeout()")
        hub = get_hub()
        if self._ref:
            self._timer = hub.asyncio_loop.call_later(max(self.seconds, 0), self._expire, hub, getcurrent())
        else:
            self._timer = hub.loop.quiet_alarm(max(self.seconds, 0), partial(self._expire, hub, getcurrent()))

    def _expire(self, hub: Any, greenlet: Any) -> None:
        self._timer = None
        self._thrown = hub.throw_soon(greenlet, self._raised())

    def _raised(self) -> BaseException:
        if isinstance(self.exception, BaseException):
            return self.exception
        if isinstance(self.exception, type) and issubclass(self.exception, BaseException):
            return self.exception()
        return self

    @classmethod
    def start_new(
        cls,
        timeout: float | Timeout | None = None,
        exception: BaseException | type[BaseException] | bool | str | None = None,
        ref: bool = True,
    ) -> Timeout:
        """A started timeout: of so many seconds, or `timeout` itself, started if it was not."""
        if isinstance(timeout, Timeout):
            if not timeout.pending:
                timeout.start()
            return timeout
        started = cls(timeout, exception, ref=ref)
        started.start()
        return started

    @property
    def pending(self) -> bool:
        """Whether the time runs."""
        return self._timer is not None

    def cancel(self) -> None:
        """End the time; what it has not raised yet is not raised any more."""
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


def with_timeout(
    seconds: float, function: Callable[..., T], *args: Any, timeout_value: Any = ..., **kwds: Any
) -> T | Any:
    """Call a function, for at most so many seconds; then `timeout_value`, where it is given.

    Raises:
        Timeout: the time is up, and there is no `timeout_value`.
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
