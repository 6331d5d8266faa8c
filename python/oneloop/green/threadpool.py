"""`ThreadPool`: OS threads for calls that would block the loop. Green threads wait for the results.

A pool belongs to the OS thread that has made it. Results are delivered through the hub of who has made the call.
"""

from __future__ import annotations

import os
import sys
import weakref
from _thread import RLock, get_ident  # the original ones, even if patching replaces them later
from functools import partial
from typing import TYPE_CHECKING, Any

from oneloop.green.event import AsyncResult, Event
from oneloop.green.exceptions import InvalidThreadUseError
from oneloop.green.executor import ThreadPoolExecutor
from oneloop.green.hub import get_hub
from oneloop.green.lock import Semaphore
from oneloop.green.mapping import GroupMappingMixin
from oneloop.green.steps import may_block, wait_here
from oneloop.green.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import ParamSpec, TypeVar

    from oneloop.green.hub import Hub

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = ["ThreadPool", "ThreadPoolExecutor", "ThreadResult"]


class ThreadPool(GroupMappingMixin):
    """At most `maxsize` OS threads, created when needed. Its length is the number of calls that have not ended.

    A call cannot be killed, but green threads that wait for it can. At interpreter exit, running calls are not waited
    for.

    Args:
        maxsize: the maximum number of calls that run at the same time.
        hub: the hub of the pool; None means that of the calling thread. Results go to the hub of who calls `spawn`.
        idle_task_timeout: a thread ends after it has been idle for this many seconds; a negative number means never.

    Raises:
        TypeError: `maxsize` is not an integer.
        ValueError: `maxsize` is negative.
    """

    def __init__(self, maxsize: int, hub: Hub | None = None, idle_task_timeout: float = -1) -> None:
        _check_maxsize(maxsize)
        self.hub = get_hub() if hub is None else hub
        self._thread_ident = get_ident()
        self._calls = _Calls(maxsize)
        self._resized = Event()
        self._workers = Workers(
            maxsize,
            None if idle_task_timeout < 0 else idle_task_timeout,
            gone=_Gone(weakref.ref(self)),
        )
        weakref.finalize(self, self._workers.shrink, 0).atexit = False
        _pools.add(self)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} at {hex(id(self))} tasks={len(self)} size={self.size} maxsize={self.maxsize} "
            f"hub={self.hub!r}>"
        )

    def __len__(self) -> int:
        return self._calls.unfinished

    def __bool__(self) -> bool:
        return True

    # -- size ------------------------------------------------------------------------------------------

    @property
    def maxsize(self) -> int:
        """The maximum number of threads. If it is lowered, excess threads end after their calls."""
        return self._workers.maxsize

    @maxsize.setter
    def maxsize(self, maxsize: int) -> None:
        _check_maxsize(maxsize)
        more = maxsize - self._workers.maxsize
        self._workers.maxsize = maxsize
        self._calls.allow(more)
        self._workers.shrink(maxsize)

    @property
    def size(self) -> int:
        """The number of threads. Setting it starts threads, or ends threads and waits for them.

        Raises:
            ValueError: the size is negative or more than `maxsize`.
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
        # Calls that are made meanwhile start threads again, so the number of threads is not asked for.
        while may_block() and self._workers.leaving:
            self._resized.clear()
            if self._workers.leaving:
                wait_here(self._resized.wait)

    def kill(self) -> None:
        """End the threads after their calls, and wait for that. A later `spawn` starts new threads."""
        self.size = 0

    def close(self) -> None:
        """Like `kill`, without waiting."""
        self._workers.shrink(0)

    def join(self) -> None:
        """Wait until all calls have ended.

        Raises:
            BlockingSwitchOutError: called in a coroutine that may not block, and it would have to wait.
        """
        is_idle = self._calls.is_idle
        if not is_idle.is_set():
            wait_here(is_idle.wait)

    # -- calls -----------------------------------------------------------------------------------------

    def spawn(self, func: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> AsyncResult[R]:
        """Call a function in an OS thread. Wait until at most one other call waits for a thread.

        If the function raises an exception, the hub reports it, and the result's `get` raises it.

        Args:
            func: the function to call.
            *args: its arguments.
            **kwargs: its keyword arguments.

        Returns:
            An AsyncResult for the function's return value.

        Raises:
            InvalidThreadUseError: called in another thread than the hub's.
            BlockingSwitchOutError: called in a coroutine that may not block while no thread is free.
            RuntimeError: the system cannot start a thread.
        """
        if get_ident() != self._thread_ident:
            raise InvalidThreadUseError(f"{self!r} belongs to another OS thread: use a pool of the calling thread")
        result: AsyncResult[R] = AsyncResult()
        hub, calls = get_hub(), self._calls
        calls.begin()
        # Another hub of this OS thread may not run when the call ends: that of another run of a loop.
        over, over_in_thread = (calls.end, _ignore) if hub is self.hub else (_ignore, calls.end)
        try:
            self._workers.put(_Call(func, args, kwargs, ThreadResult(result, hub, over), over_in_thread))
        except BaseException:
            calls.end()
            raise
        return result

    def _is_inside(self) -> bool:
        # The caller is a thread of the pool (or another OS thread).
        return get_ident() != self._thread_ident

    def _would_wait(self) -> bool:
        return True

    def _call_back(self, callback: Callable[[Any], object], result: Any) -> None:
        callback(result)


class _Calls:
    """The calls of a pool in one process: how many have not ended, and how many more are allowed.

    They end on the pool's hub, in a thread of the pool, or wherever a result is dropped that nobody can get any more.
    """

    __slots__ = ("_debt", "_guard", "_room", "is_idle", "unfinished")

    def __init__(self, max_threads: int) -> None:
        # Held when the following changes.
        self._guard = RLock()
        self.unfinished = 0
        self.is_idle = Event()
        self.is_idle.set()
        # One more than there are threads, so that a thread that becomes free has a call at once.
        self._room = Semaphore(max_threads + 1)
        # After the maximum was lowered: the number of permits that will not be released again.
        self._debt = 0

    def begin(self) -> None:
        """Take the permit of a call, and wait until there is one."""
        if not self._room.acquire(blocking=False):
            wait_here(self._room.acquire)
        with self._guard:
            self.unfinished += 1
            self.is_idle.clear()

    def end(self) -> None:
        """Release the permit of a call."""
        with self._guard:
            self.unfinished -= 1
            if self.unfinished == 0:
                self.is_idle.set()
            self._give_room()

    def allow(self, more: int) -> None:
        """Allow more calls at the same time, or fewer."""
        with self._guard:
            for _ in range(more):
                self._give_room()
            for _ in range(-more):
                if not self._room.acquire(blocking=False):
                    self._debt += 1

    def _give_room(self) -> None:
        if self._debt:
            self._debt -= 1
        else:
            self._room.release()


class ThreadResult:
    """Delivers the outcome of a call in an OS thread to the hub.

    Args:
        receiver: called on the hub with this object when the outcome is available; None: nothing is called.
        hub: the hub.
        call_when_ready: called on the hub before `receiver`. If the hub's loop is closed before that: called anywhere.
    """

    __slots__ = ("_call_when_ready", "_is_set", "context", "exc_info", "hub", "receiver", "value")

    def __init__(
        self, receiver: Callable[[ThreadResult], object] | None, hub: Hub, call_when_ready: Callable[[], object]
    ) -> None:
        self.receiver = _ignore if receiver is None else receiver
        self.hub = hub
        self._call_when_ready = call_when_ready
        self._is_set = False
        self.context: object = None
        self.value: Any = None
        self.exc_info: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[()] = ()

    @property
    def exception(self) -> BaseException | None:
        """The exception that the call raised, or None."""
        return self.exc_info[1] if self.exc_info else None

    def successful(self) -> bool:
        """Whether the call did not raise an exception."""
        return not self.exc_info

    def set(self, value: Any) -> None:
        """Set the return value. Callable from any thread. Call either this or `handle_error`, once."""
        self.value = value
        self._deliver_soon()

    def handle_error(
        self, context: object, exc_info: tuple[type[BaseException], BaseException, TracebackType | None]
    ) -> None:
        """Set the exception. `context` describes the call in the hub's report."""
        self.context, self.exc_info = context, exc_info
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        self._is_set = True
        try:
            self.hub.run_callback_threadsafe(self._deliver)
        except RuntimeError:
            # The loop is closed: nothing waits for the result any more.
            self.exc_info = ()
            self._be_ready()

    def __del__(self) -> None:
        # The loop was closed before it has delivered it. In a forked child, it is the parent's.
        if self._is_set and not self.hub._is_parents:
            self._be_ready()

    def _be_ready(self) -> None:
        call, self._call_when_ready = self._call_when_ready, _ignore
        call()

    def _deliver(self) -> None:
        try:
            # First, so that an exception that ends the program is raised where the main greenlet waits for the result.
            if self.exc_info:
                self.hub.handle_error(self.context, *self.exc_info)
            self._be_ready()
            self.receiver(self)
        except BaseException as error:  # noqa: BLE001 - it is reported
            self.hub.handle_error(self, type(error), error, error.__traceback__)
        finally:
            self.exc_info = ()
            self.value = None


def _ignore(*_: object) -> None:
    """Do nothing."""


# A forked child has none of the threads, and none of the calls.
_pools: weakref.WeakSet[ThreadPool] = weakref.WeakSet()


def _forget_parents() -> None:
    for pool in list(_pools):
        pool._calls = _Calls(pool.maxsize)


os.register_at_fork(after_in_child=_forget_parents)


class _Call:
    __slots__ = ("_args", "_function", "_kwargs", "_over", "_result")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: ThreadResult,
        over: Callable[[], object],
    ) -> None:
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._result = result
        # Called in this thread when the outcome was reported.
        self._over = over

    def do(self) -> Callable[[], object]:
        try:
            value = self._function(*self._args, **self._kwargs)
        except BaseException:  # noqa: BLE001 - it is reported, and raised by the result's get()
            report = partial(self._result.handle_error, self._described(), sys.exc_info())  # type: ignore[arg-type]
            return partial(self._report, report)
        return partial(self._report, partial(self._result.set, value))

    def _report(self, report: Callable[[], object]) -> None:
        report()
        self._over()

    def _described(self) -> str:
        return f"the call of {self._function!r} in an OS thread"


class _Gone:
    """Notifies a pool that a thread has ended."""

    __slots__ = ("_pool",)

    def __init__(self, pool: weakref.ref[ThreadPool]) -> None:
        self._pool = pool

    def __call__(self) -> None:
        pool = self._pool()
        if pool is not None:
            pool._resized.set()


def _check_maxsize(maxsize: object) -> None:
    if not isinstance(maxsize, int):
        raise TypeError(f"maxsize must be integer: {maxsize!r}")
    if maxsize < 0:
        raise ValueError(f"maxsize must not be negative: {maxsize!r}")
