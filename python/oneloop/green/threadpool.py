"""`ThreadPool`: OS threads for what blocks without the hub's knowledge; green threads wait for the results.

A pool belongs to the thread of its hub. Results come back through the hub, in that thread.
"""

from __future__ import annotations

import sys
import weakref
from _thread import get_ident
from functools import partial
from typing import TYPE_CHECKING, Any

from oneloop.green.event import AsyncResult, Event
from oneloop.green.exceptions import InvalidThreadUseError
from oneloop.green.executor import ThreadPoolExecutor
from oneloop.green.hub import get_hub, is_in_green_thread
from oneloop.green.lock import Semaphore
from oneloop.green.mapping import GroupMappingMixin
from oneloop.green.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from oneloop.green.hub import Hub

__all__ = ["ThreadPool", "ThreadPoolExecutor", "ThreadResult"]


class ThreadPool(GroupMappingMixin):
    """At most `maxsize` OS threads, made when they are needed. Its length is the number of calls that have not ended.

    A call cannot be killed; who waits for it can. At the program's exit nobody waits for calls that still run.

    Args:
        maxsize: how many calls run at a time.
        hub: gets the results; None: that of the calling thread.
        idle_task_timeout: a thread ends when it has had nothing to do for so many seconds; negative: never.

    Raises:
        TypeError: `maxsize` is no integer.
        ValueError: `maxsize` is negative.
    """

    def __init__(self, maxsize: int, hub: Hub | None = None, idle_task_timeout: float = -1) -> None:
        _check_maxsize(maxsize)
        self.hub = get_hub() if hub is None else hub
        self._thread_ident = get_ident()
        self._unfinished = 0
        self._is_idle = Event()
        self._is_idle.set()
        self._room = Semaphore(maxsize)
        # A lowered maxsize: so much room is not given back.
        self._debt = 0
        self._resized = Event()
        self._workers = Workers(
            maxsize,
            None if idle_task_timeout < 0 else idle_task_timeout,
            gone=_Gone(weakref.ref(self)),
        )
        weakref.finalize(self, self._workers.shrink, 0).atexit = False

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} at {hex(id(self))} tasks={len(self)} size={self.size} maxsize={self.maxsize} "
            f"hub={self.hub!r}>"
        )

    def __len__(self) -> int:
        return self._unfinished

    def __bool__(self) -> bool:
        return True

    # -- size ------------------------------------------------------------------------------------------

    @property
    def maxsize(self) -> int:
        """How many threads there may be. If it is lowered, those in excess end when their calls have ended."""
        return self._workers.maxsize

    @maxsize.setter
    def maxsize(self, maxsize: int) -> None:
        _check_maxsize(maxsize)
        more = maxsize - self._workers.maxsize
        self._workers.maxsize = maxsize
        for _ in range(more):
            self._give_room()
        for _ in range(-more):
            if not self._room.acquire(blocking=False):
                self._debt += 1
        self._workers.shrink(maxsize)

    @property
    def size(self) -> int:
        """How many threads there are. Set, threads are made, or told to end and waited for.

        Raises:
            ValueError: it is negative or more than `maxsize`.
        """
        return self._workers.size

    @size.setter
    def size(self, size: int) -> None:
        if size < 0:
            raise ValueError(f"Size of the pool cannot be negative: {size!r}")
        if size > self.maxsize:
            raise ValueError(f"Size of the pool cannot be bigger than maxsize: {size!r} > {self.maxsize!r}")
        self._workers.grow(size)
        self._workers.shrink(size)
        while is_in_green_thread() and self._workers.threads > size:
            self._resized.clear()
            if self._workers.threads > size:
                self._resized.wait()

    def kill(self) -> None:
        """End the threads when their calls have ended, and wait for that. A later `spawn` makes new ones."""
        self.size = 0

    def close(self) -> None:
        """As `kill`, without waiting."""
        self._workers.shrink(0)

    def join(self) -> None:
        """Wait until all calls have ended.

        Raises:
            BlockingSwitchOutError: in a coroutine.
        """
        if self._is_idle.is_set():
            return
        if not is_in_green_thread():
            raise self.hub._parking_refused()
        self._is_idle.wait()

    # -- calls -----------------------------------------------------------------------------------------

    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> AsyncResult[Any]:
        """Call a function in an OS thread, waiting until one is free; the result to come.

        An exception is reported by the hub, and raised for whoever asks for the result.

        Raises:
            InvalidThreadUseError: in another thread than the hub's.
            BlockingSwitchOutError: no thread is free, in a coroutine.
            RuntimeError: the system gives no thread.
        """
        if get_ident() != self._thread_ident:
            raise InvalidThreadUseError(f"{self!r} belongs to another thread")
        if not self._room.acquire(blocking=False):
            if not is_in_green_thread():
                raise self.hub._parking_refused()
            self._room.acquire()
        result: AsyncResult[Any] = AsyncResult()
        self._unfinished += 1
        self._is_idle.clear()
        try:
            self._workers.put(_Call(func, args, kwargs, ThreadResult(result, self.hub, self._call_over)))
        except BaseException:
            self._call_over()
            raise
        return result

    def _call_over(self) -> None:
        """On the hub."""
        self._unfinished -= 1
        if self._unfinished == 0:
            self._is_idle.set()
        self._give_room()

    def _give_room(self) -> None:
        if self._debt:
            self._debt -= 1
        else:
            self._room.release()

    def _is_inside(self) -> bool:
        # By one of its own threads.
        return get_ident() != self._thread_ident

    def _would_wait(self) -> bool:
        return True

    def _call_back(self, callback: Callable[[Any], object], result: Any) -> None:
        callback(result)


class ThreadResult:
    """What a call in an OS thread gives, on its way to the hub.

    Args:
        receiver: called on the hub with this object when the outcome is there.
        hub: whose thread that is.
        call_when_ready: called on the hub before that.
    """

    __slots__ = ("_call_when_ready", "context", "exc_info", "hub", "receiver", "value")

    def __init__(
        self, receiver: Callable[[ThreadResult], object], hub: Hub, call_when_ready: Callable[[], object]
    ) -> None:
        self.receiver = receiver
        self.hub = hub
        self._call_when_ready = call_when_ready
        self.context: object = None
        self.value: Any = None
        self.exc_info: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[()] = ()

    @property
    def exception(self) -> BaseException | None:
        """What the call has raised; None otherwise."""
        return self.exc_info[1] if self.exc_info else None

    def successful(self) -> bool:
        """Whether the call has raised nothing."""
        return not self.exc_info

    def set(self, value: Any) -> None:
        """The call has returned. Any thread, as `handle_error`; one of the two, once."""
        self.value = value
        self._deliver_soon()

    def handle_error(
        self, context: object, exc_info: tuple[type[BaseException], BaseException, TracebackType | None]
    ) -> None:
        """The call has raised; `context` tells whose error the hub reports."""
        self.context, self.exc_info = context, exc_info
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        try:
            self.hub.run_callback_threadsafe(self._deliver)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            self.exc_info = ()

    def _deliver(self) -> None:
        self._call_when_ready()
        self.receiver(self)
        if self.exc_info:
            raised, self.exc_info = self.exc_info, ()
            self.hub.handle_error(self.context, *raised)


class _Call:
    __slots__ = ("_args", "_function", "_kwargs", "_result")

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: ThreadResult
    ) -> None:
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._result = result

    def do(self) -> Callable[[], object]:
        try:
            value = self._function(*self._args, **self._kwargs)
        except BaseException:  # noqa: BLE001 - it is reported, and raised for who asks
            return partial(self._result.handle_error, self._described(), sys.exc_info())  # type: ignore[arg-type]
        return partial(self._result.set, value)

    def _described(self) -> str:
        return f"the call of {self._function!r} in an OS thread"


class _Gone:
    """Tells a pool, on its hub, that a thread has left."""

    __slots__ = ("_pool",)

    def __init__(self, pool: weakref.ref[ThreadPool]) -> None:
        self._pool = pool

    def __call__(self) -> None:
        pool = self._pool()
        if pool is not None:
            try:
                pool.hub.run_callback_threadsafe(pool._resized.set)
            except RuntimeError:
                return


def _check_maxsize(maxsize: object) -> None:
    if not isinstance(maxsize, int):
        raise TypeError(f"maxsize must be integer: {maxsize!r}")
    if maxsize < 0:
        raise ValueError(f"maxsize must not be negative: {maxsize!r}")
