"""`ThreadPoolExecutor`: `concurrent.futures`' executor, with futures for which green threads wait.

Its threads, locks and queue are the real ones, also where patching has replaced those of the standard library.
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

from oneloop.green.hub import Waiter, get_hub, has_hub, is_in_green_thread, wait_for
from oneloop.green.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GreenFuture", "ThreadPoolExecutor"]

T = TypeVar("T")
P = ParamSpec("P")


class ThreadPoolExecutor(concurrent.futures.ThreadPoolExecutor):
    """As that of `concurrent.futures`, for any thread; `submit` never waits, and results let other green threads go on.

    Unlike that one, it does not keep the program from ending: calls that are not waited for may never be made.

    Args:
        max_workers: how many threads there are at most; None: as in `concurrent.futures`.
        thread_name_prefix: has no effect: the threads have no names.
        initializer: called by each thread before anything else.
        initargs: its arguments.
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
        """Call a function in an OS thread; the future of what it returns. Never waits.

        Raises:
            RuntimeError: the executor was shut down, or the system gives no thread.
            BrokenThreadPool: the initializer has failed.
        """
        future: GreenFuture[T] = GreenFuture()
        self._pool.put(_Submitted(future, fn, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; wait until those that were taken have ended.

        Raises:
            BlockingSwitchOutError: it would wait, in a coroutine.
        """
        self._pool.shut_down()
        if cancel_futures:
            self._pool.cancel_all()
        if wait:
            self._pool.is_over.result()


class GreenFuture(Future[T]):
    """A future: where there are green threads, `result()` and `exception()` let the others go on."""

    def __init__(self) -> None:
        super().__init__()
        # A thread sets it: the lock is a real one, even if `threading` was patched.
        self._condition = Condition(RLock())

    def result(self, timeout: float | None = None) -> T:
        """What the call has returned.

        Raises:
            TimeoutError: it has not ended in so many seconds.
            CancelledError: it was cancelled.
            BlockingSwitchOutError: it has not ended, in a coroutine, which can await `asyncio.wrap_future(future)`.
            BaseException: what it has raised.
        """
        return super().result(self._wait(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the call has raised; None if it has returned. Raises what `result` does itself."""
        return super().exception(self._wait(timeout))

    def _wait(self, timeout_s: float | None) -> float | None:
        """Until it is done, for at most so long; how long there is left to wait for in the thread itself."""
        if self.done():
            return 0
        if not has_hub():
            # Nobody here could go on meanwhile.
            return timeout_s
        if not is_in_green_thread():
            raise get_hub()._parking_refused()
        hub = get_hub()
        waiter = Waiter(hub)

        def wake(_: Future[T]) -> None:
            waiter.wake()

        self.add_done_callback(wake)
        try:
            wait_for(waiter, timeout_s)
        finally:
            # One that is left does no harm, but those of many waits would add up.
            with self._condition:
                callbacks: list[object] = self._done_callbacks  # type: ignore[attr-defined]
                if wake in callbacks:
                    callbacks.remove(wake)
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
        except BaseException as error:  # noqa: BLE001 - it is the future's
            return partial(self.future.set_exception, error)
        return partial(self.future.set_result, value)


def _nothing() -> None:
    """The future was cancelled: there is nothing to tell."""


class _Pool:
    """What the threads of an executor know of it; does not keep it alive."""

    def __init__(self, maxsize: int, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]) -> None:
        self.is_over: GreenFuture[None] = GreenFuture()
        """Done when the executor was shut down and its threads have gone."""
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
        except BaseException as error:  # noqa: BLE001 - it is each future's
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
