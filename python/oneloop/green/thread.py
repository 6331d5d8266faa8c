"""`_thread`: its functions and types, with green threads of the calling OS thread as threads.

A thread that is started on an OS thread without a running loop (of an executor, a callback of a process pool) is an OS
thread: a green one would only run while the starting thread waits, and would be lost when that ends.

The identity of a green thread is a number that identifies its greenlet. The main greenlet of an OS thread, and the
greenlet that runs its loop, have the identity of the OS thread.
"""

from __future__ import annotations

import _thread as _stock
import asyncio
import os
import sys
import weakref
from _thread import get_ident as _thread_ident
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from greenlet import GreenletExit, getcurrent
from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

from oneloop.green.greenlet import Greenlet
from oneloop.green.hub import runs_green_threads
from oneloop.green.local import local as _local  # noqa: F401  # pyright: ignore[reportUnusedImport]
from oneloop.green.threadlock import LockType, RLock
from oneloop.green.workers import _all as _workers

if TYPE_CHECKING:
    from collections.abc import Callable

__implements__ = [
    "LockType",
    "RLock",
    "_count",
    "_local",
    "allocate",
    "allocate_lock",
    "exit",
    "exit_thread",
    "get_ident",
    "stack_size",
    "start_new",
    "start_new_thread",
]
if sys.version_info >= (3, 13):
    __implements__ += ["_ThreadHandle", "_make_thread_handle", "lock", "start_joinable_thread"]
else:
    __implements__ += ["_set_sentinel"]

__all__ = ["LockType", "RLock", "allocate_lock", "exit", "get_ident", "stack_size", "start_new_thread"]

lock = allocate_lock = allocate = LockType


def get_ident() -> int:
    """The identity of the calling thread; see `_thread.get_ident`."""
    current = getcurrent()
    if isinstance(current, Greenlet):
        return id(current)
    if current.parent is None or (type(current) is RawGreenlet and asyncio._get_running_loop() is not None):
        return _thread_ident()
    return id(current)


def exit() -> NoReturn:  # noqa: A001 - the standard library's name
    """End the calling thread by raising SystemExit."""
    raise SystemExit


exit_thread = exit


def stack_size(size: int = 0, /) -> int:
    """The stack size of OS threads; see `_thread.stack_size`. Green threads have no separate C stack."""
    return _stock_stack_size(size)


_stock_stack_size = _stock.stack_size


class ThreadGreenlet(Greenlet):
    """A thread started by a function of this module. The functions in `_calls_at_end` are called when it has ended."""

    alive = 0
    """The number of these threads that have started and not ended."""

    def __init__(
        self, function: Callable[..., object], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> None:
        super().__init__(None, function, args, kwargs or {})
        self._calls_at_end: list[Callable[[], object]] = []
        self._is_counted = False
        # A link, because the thread may be killed before it starts.
        self.rawlink(self._note_end)

    def _run(self, function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            function(*args, **kwargs)
        except (SystemExit, GreenletExit):
            # These exceptions end a thread without a report.
            return
        except BaseException as error:  # noqa: BLE001 - it is reported
            # The traceback starts with the function, like that of an OS thread.
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            _report_unraisable(error, function)
        finally:
            self._note_end()

    def start(self) -> None:
        """Like `Greenlet.start`."""
        if not self._is_counted:
            self._is_counted = True
            ThreadGreenlet.alive += 1
        super().start()

    def _note_end(self, _: object = None) -> None:
        if self._is_counted:
            self._is_counted = False
            ThreadGreenlet.alive -= 1
        calls, self._calls_at_end = self._calls_at_end, []
        for call in calls:
            call()


_stock_count = _stock._count


def _count() -> int:  # pyright: ignore[reportUnusedFunction]
    """The number of threads beside the main one, without those of thread pools; see `_thread._count`."""
    return ThreadGreenlet.alive + _stock_count() - sum(workers.threads for workers in list(_workers))


def _report_unraisable(error: BaseException, function: object) -> None:
    text, source = "Exception ignored in thread started by", function
    if sys.version_info >= (3, 13):
        text, source = f"{text} {function!r}", None
    sys.unraisablehook(_unraisable_type()((type(error), error, error.__traceback__, text, source)))


@cache
def _unraisable_type() -> Any:
    """The type of the argument of `sys.unraisablehook`. It has no public name, so provoke a call of the hook."""
    seen: list[Any] = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda raised: seen.append(type(raised))
    try:
        _Failing()
    finally:
        sys.unraisablehook = hook
    return seen[0]


class _Failing:
    def __del__(self) -> None:
        raise ValueError


def start_new_thread(
    function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, /
) -> int:
    """Start a green thread that calls a function. See `_thread.start_new_thread`.

    Returns:
        The identity of the thread.

    Raises:
        TypeError: `function` is not callable, `args` is not a tuple, or `kwargs` is not a dictionary.
    """
    if not callable(function):
        raise TypeError("first arg must be callable")
    if not isinstance(args, tuple):
        raise TypeError("2nd arg must be a tuple")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise TypeError("optional 3rd arg must be a dictionary")
    if start_of_threading is not None:
        return start_of_threading(function, args, kwargs)
    if not runs_green_threads():
        return _stock_start_new_thread(function, args, kwargs or {})
    sys.audit("_thread.start_new_thread", function, args, kwargs)
    greenlet = ThreadGreenlet(function, args, kwargs)
    greenlet.start()
    return id(greenlet)


start_new = start_new_thread

start_of_threading: Callable[..., int] | None = None
"""Before Python 3.13, what starts threads once `threading` is patched; set by `oneloop.green.threading`."""
note_begin: Callable[[Any, int], object] | None = None
"""Called with the function and the identity of a green thread that was started; set by `oneloop.green.threading`."""

_stock_start_new_thread = _stock.start_new_thread
_stock_start_joinable_thread: Any = getattr(_stock, "start_joinable_thread", None)


def _release(sentinel: LockType) -> None:
    if sentinel.locked():
        sentinel.release()


def make_sentinel(greenlet: Any) -> LockType:
    """Return a lock that is released when a thread has ended."""
    sentinel = LockType()
    if isinstance(greenlet, ThreadGreenlet):
        greenlet._calls_at_end.append(lambda: _release(sentinel))
    return sentinel


def _set_sentinel() -> LockType:  # pyright: ignore[reportUnusedFunction]
    """A lock that is released when the calling thread ends; `_thread._set_sentinel` before Python 3.13."""
    return make_sentinel(getcurrent())


class _ThreadHandle:
    """The state of a thread: not started, running, done. See `_thread._ThreadHandle`, since Python 3.13."""

    __slots__ = ("__weakref__", "_greenlet", "_is_done", "_is_started", "_life", "ident")

    def __init__(self) -> None:
        self.ident = 0
        self._is_started = False
        self._is_done = False
        # Held while the thread is alive.
        self._life = LockType()
        self._greenlet: weakref.ref[Any] | None = None
        _handles.add(self)

    def _begin(self, ident: int, greenlet: Any) -> None:
        self.ident = ident
        self._is_started = True
        self._greenlet = weakref.ref(greenlet)
        self._life.acquire()

    def _start_real(self, function: Callable[[], object], daemon: bool) -> None:
        """Run a function in an OS thread."""

        def run() -> None:
            self._greenlet = weakref.ref(getcurrent())
            try:
                function()
            finally:
                self._set_done()

        self._is_started = True
        self._life.acquire()
        try:
            self.ident = _stock_start_joinable_thread(run, daemon=daemon).ident
        except BaseException:
            self._is_started = False
            self._life.release()
            raise

    def is_done(self) -> bool:
        """Whether the thread has ended."""
        return self._is_done

    def _set_done(self) -> None:
        if not self._is_started:
            raise RuntimeError("thread not started")
        if not self._is_done:
            self._is_done = True
            self._life.release()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended.

        Args:
            timeout: the maximum time in seconds; None or a negative number means no limit.

        Raises:
            RuntimeError: the thread was not started, or it is the calling thread.
        """
        if not self._is_started:
            raise RuntimeError("thread not started")
        if self._is_done:
            return
        if self._greenlet is not None and self._greenlet() is getcurrent():
            raise RuntimeError("Cannot join current thread")
        if self._life.acquire(timeout=-1 if timeout is None or timeout < 0 else timeout):
            self._life.release()

    def _after_fork(self) -> None:
        """In a forked child, where only the calling thread continues."""
        self._life._at_fork_reinit()
        if self._is_started and not self._is_done:
            if self._greenlet is not None and self._greenlet() is getcurrent():
                self._life.acquire()
            else:
                self._is_done = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object: ident={self.ident}>"


_handles: weakref.WeakSet[_ThreadHandle] = weakref.WeakSet()


def _forget_threads() -> None:
    for handle in list(_handles):
        handle._after_fork()


os.register_at_fork(after_in_child=_forget_threads)


def _make_thread_handle(ident: int) -> _ThreadHandle:  # pyright: ignore[reportUnusedFunction]
    """The handle of the calling thread, which is running already; see `_thread._make_thread_handle`."""
    handle = _ThreadHandle()
    handle._begin(ident, getcurrent())
    return handle


def start_joinable_thread(
    function: Callable[[], object], handle: _ThreadHandle | None = None, daemon: bool = True
) -> _ThreadHandle:
    """Start a green thread that can be joined; see `_thread.start_joinable_thread`.

    Args:
        function: the function to call.
        handle: an unused handle; None creates one.
        daemon: whether the interpreter does not wait for it at exit; for green threads, `threading` does that.

    Raises:
        TypeError: `function` is not callable, or `handle` is not a handle.
        RuntimeError: the handle has a thread already.
    """
    if not callable(function):
        raise TypeError("thread function must be callable")
    if handle is None:
        handle = _ThreadHandle()
    elif not isinstance(handle, _ThreadHandle):
        raise TypeError("'handle' must be a _ThreadHandle")
    if handle._is_started:
        raise RuntimeError("thread already started")
    if not runs_green_threads():
        handle._start_real(function, daemon)
        return handle
    sys.audit("_thread.start_joinable_thread", function, daemon, handle)
    greenlet = ThreadGreenlet(function)
    handle._begin(id(greenlet), greenlet)
    greenlet._calls_at_end.append(handle._set_done)
    greenlet.start()
    if note_begin is not None:
        note_begin(function, handle.ident)
    return handle


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
