"""`ThreadPoolExecutor`: the executor of `concurrent.futures`, with futures that green threads can wait for.

Its threads, locks and queue are real ones, even where patching replaced those of the standard library.
"""

from __future__ import annotations

import concurrent.futures
import weakref
from _thread import RLock, allocate_lock
from concurrent.futures import Future
from concurrent.futures.thread import BrokenThreadPool
from functools import partial
from threading import Condition
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from oneloop.green.hub import Waiter, get_hub, has_hub, wait_for
from oneloop.green.steps import may_block
from oneloop.green.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GreenFuture", "ThreadPoolExecutor"]

T = TypeVar("T")
P = ParamSpec("P")


class ThreadPoolExecutor(concurrent.futures.ThreadPoolExecutor):
    """Like `concurrent.futures.ThreadPoolExecutor`, but waiting for a result lets other green threads run.

    Callable from any thread. `submit` never waits. Difference from `concurrent.futures`: the executor does not delay
    the end of the program, so calls that nobody waits for might never be made.

    Args:
        max_workers: the maximum number of threads; None means the default of `concurrent.futures`.
        thread_name_prefix: ignored: the threads have no names.
        initializer: called by each thread when it starts.
        initargs: the arguments of `initializer`.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(max_workers, thread_name_prefix)
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._pool = _Pool(self._max_workers, initializer, initargs)
        weakref.finalize(self, self._pool.workers.shrink, 0).atexit = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in an OS thread. Never waits.

        Args:
            fn: the function to call.
            *args: its arguments.
            **kwargs: its keyword arguments.

        Returns:
            A future for the function's return value.

        Raises:
            RuntimeError: the executor was shut down, or the system cannot start a thread.
            BrokenThreadPool: the initializer raised an exception.
        """
        future: GreenFuture[T] = GreenFuture()
        self._pool.put(_Submitted(future, fn, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, and wait until the submitted ones have ended.

        Args:
            wait: whether to wait.
            cancel_futures: cancel the calls that were not started.

        Raises:
            BlockingSwitchOutError: called in a coroutine that may not block, and it would have to wait.
        """
        self._pool.shut_down()
        if cancel_futures:
            self._pool.cancel_all()
        if wait:
            self._pool.is_over.result()

    kill = shutdown


class GreenFuture(Future[T]):
    """A future whose `result()` and `exception()` let other green threads run while they wait."""

    def __init__(self) -> None:
        super().__init__()
        # An OS thread sets the result, so this must be a real lock even if `threading` was patched.
        self._condition = Condition(RLock())

    def result(self, timeout: float | None = None) -> T:
        """Wait for the return value of the call.

        Args:
            timeout: the maximum time in seconds; None means no limit.

        Raises:
            TimeoutError: the call has not ended in time.
            CancelledError: the call was cancelled.
            BlockingSwitchOutError: called in a coroutine that may not block before the call has ended; use `await
                asyncio.wrap_future(future)` there.
            BaseException: the exception that the call raised.
        """
        return super().result(self._wait(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the call; return the exception that it raised, or None. Raises the same errors as `result`."""
        return super().exception(self._wait(timeout))

    def rawlink(self, callback: Callable[[Any], object]) -> None:
        """Make the calling thread's hub call `callback(self)` when the call has ended. For `wait` and `iwait`."""
        hub = get_hub()

        def call_soon(_: Future[T]) -> None:
            hub.run_callback_threadsafe(callback, self)

        with self._condition:
            self.__dict__.setdefault("_linked", []).append((callback, call_soon))
        self.add_done_callback(call_soon)

    def unlink(self, callback: Callable[[Any], object]) -> None:
        """Remove a link. No effect if it was called, or not added."""
        with self._condition:
            linked: list[tuple[object, object]] = self.__dict__.get("_linked", [])
            for one in linked:
                if one[0] == callback:
                    linked.remove(one)
                    self._forget(one[1])
                    return

    def _forget(self, called: object) -> None:
        # A leftover callback is harmless, but those of many waits would accumulate.
        with self._condition:
            callbacks: list[object] = self._done_callbacks  # type: ignore[attr-defined]
            if called in callbacks:
                callbacks.remove(called)

    def _wait(self, timeout_s: float | None) -> float | None:
        """Wait until the call has ended. Return the timeout for a wait that blocks the OS thread."""
        if self.done():
            return 0
        if not has_hub():
            # The OS thread has no green threads, so it can block.
            return timeout_s
        hub = get_hub()
        if not may_block():
            raise hub._parking_refused()
        waiter = Waiter(hub)

        def wake(_: Future[T]) -> None:
            waiter.wake()

        self.add_done_callback(wake)
        try:
            wait_for(waiter, timeout_s)
        finally:
            self._forget(wake)
        return 0


class _Submitted:
    __slots__ = ("_args", "_function", "_kwargs", "future")

    def __init__(
        self, future: GreenFuture[Any], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.future = future
        self._function = function
        self._args = args
        self._kwargs = kwargs

    def do(self) -> Callable[[], object]:
        if not self.future.set_running_or_notify_cancel():
            return _nothing
        try:
            value = self._function(*self._args, **self._kwargs)
        except BaseException as error:  # noqa: BLE001 - set on the future
            return partial(self.future.set_exception, error)
        return partial(self.future.set_result, value)


def _nothing() -> None:
    """Do nothing: the future was cancelled."""


class _Pool:
    """The state of an executor that its threads use. It does not keep the executor alive."""

    def __init__(self, maxsize: int, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]) -> None:
        self.is_over: GreenFuture[None] = GreenFuture()
        """Done when the executor was shut down and its threads have ended."""
        self._initializer = initializer
        self._initargs = initargs
        self._lock = allocate_lock()
        self._is_shut = False
        self._failed: BaseException | None = None
        self.workers = Workers(maxsize, begin=self._begin, gone=self._gone)

    def put(self, task: _Submitted) -> None:
        with self._lock:
            if self._failed is not None:
                raise BrokenThreadPool("a thread's initializer has failed") from self._failed
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self.workers.put(task)

    def shut_down(self) -> None:
        with self._lock:
            self._is_shut = True
            self.workers.shrink(0)
        self._gone()

    def cancel_all(self) -> None:
        for task in self.workers.drain():
            if isinstance(task, _Submitted):
                task.future.cancel()
                task.future.set_running_or_notify_cancel()

    def _begin(self) -> bool:
        if self._initializer is None:
            return True
        try:
            self._initializer(*self._initargs)
        except BaseException as error:  # noqa: BLE001 - set on each future
            with self._lock:
                self._failed = error
            for task in self.workers.drain():
                if isinstance(task, _Submitted) and task.future.set_running_or_notify_cancel():
                    broken = BrokenThreadPool("a thread's initializer has failed")
                    broken.__cause__ = error
                    task.future.set_exception(broken)
            return False
        return True

    def _gone(self) -> None:
        with self._lock:
            is_over = self._is_shut and self.workers.threads == 0 and not self.is_over.done()
            if is_over:
                self.is_over.set_running_or_notify_cancel()
        if is_over and not self.is_over.done():
            self.is_over.set_result(None)
