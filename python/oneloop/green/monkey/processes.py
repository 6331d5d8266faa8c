"""multiprocessing in green threads of a patched program: others run while one waits for a process.

Connections, queues and listeners, locks and their relatives, `wait`, `Process.join`, results of a `Pool`. In OS threads
without green threads, in coroutines and in callbacks they wait as without patching. The locks of other processes tell
nobody that they are free, so they are asked again and again, every 20 ms at the latest.
"""

from __future__ import annotations

import os
import selectors as _stock
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

from oneloop.green import os as green_os
from oneloop.green import selectors
from oneloop.green.event import Event
from oneloop.green.hub import Countdown, get_hub
from oneloop.green.os import may_wait
from oneloop.green.time import sleep

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["adapt_connection", "adapt_locks", "adapt_pool", "adapt_popen"]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.000_5, 0.02


def adapt_connection(module: Any) -> None:
    """Adapt `multiprocessing.connection`: connections, listeners and `wait`."""
    module.Connection._recv.__defaults__ = (green_os.read,)
    module.Connection._send.__defaults__ = (green_os.write,)
    module._WaitSelector = _selector
    accept = module.SocketListener.accept

    def accept_green(self: Any) -> Any:
        green_os.wait_if_blocking(self._socket.fileno(), False)
        return accept(self)

    module.SocketListener.accept = accept_green


def _selector() -> _stock.BaseSelector:
    return selectors.PollSelector() if may_wait() else _stock.PollSelector()


def adapt_locks(module: Any) -> None:
    """Adapt `multiprocessing.synchronize`: Lock, RLock, Semaphore, BoundedSemaphore, and what is made of them."""
    make_methods = module.SemLock._make_methods

    def _make_methods(self: Any) -> None:
        make_methods(self)
        if self._semlock.kind == module.RECURSIVE_MUTEX:
            lock = _Recursive(self._semlock)
            self.acquire, self.release = lock.acquire, lock.release
        else:
            self.acquire = partial(_acquire, self._semlock)

    def __enter__(self: Any) -> bool:  # noqa: N807 - of a class
        return bool(self.acquire())

    def __exit__(self: Any, *_: object) -> None:  # noqa: N807 - of a class
        self.release()

    module.SemLock._make_methods = _make_methods
    module.SemLock.__enter__ = __enter__
    module.SemLock.__exit__ = __exit__


class _Recursive:
    """The methods of a process's recursive lock, which takes all green threads of an OS thread for one holder."""

    __slots__ = ("_holder", "_lock")

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._holder: object = None

    def _is_of_another(self) -> bool:
        """Whether another green thread of this OS thread holds it."""
        return bool(self._lock._is_mine()) and self._holder is not getcurrent()

    def _take(self) -> bool:
        if self._is_of_another() or not self._lock.acquire(False):
            return False
        self._holder = getcurrent()
        return True

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Take the lock; see `multiprocessing.RLock`.

        Raises:
            BlockingSwitchOutError: called in a coroutine, and a green thread of this OS thread holds the lock.
        """
        if not block:
            return self._take()
        if may_wait() or self._is_of_another():
            return _poll(self._take, timeout)
        taken = bool(self._lock.acquire(True, timeout))
        if taken:
            self._holder = getcurrent()
        return taken

    def release(self) -> None:
        """Give the lock back.

        Raises:
            AssertionError: the calling green thread does not hold it.
        """
        if self._is_of_another():
            raise AssertionError("attempt to release recursive lock not owned by thread")
        if self._lock._count() == 1:
            self._holder = None
        self._lock.release()


def _acquire(lock: Any, block: bool = True, timeout: float | None = None) -> bool:
    if not block or not may_wait():
        return bool(lock.acquire(block, timeout))
    return _poll(partial(lock.acquire, False), timeout)


def _poll(take: Callable[[], bool], timeout: float | None) -> bool:
    left, pause_s = Countdown(None if timeout is None else max(timeout, 0)), _FIRST_PAUSE_S
    while not take():
        seconds = left.seconds()
        if seconds is not None and seconds <= 0:
            return False
        sleep(pause_s if seconds is None else min(pause_s, seconds))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return True


def adapt_pool(module: Any) -> None:
    """Adapt `multiprocessing.pool`: the results of `Pool` and `ThreadPool`, `join` and `terminate`.

    Its own threads, which are OS threads, tell the green threads that wait.
    """
    names = ModuleType("threading")
    vars(names).update(vars(module.threading))
    names.Event = _make_event(module.threading.Event)  # type: ignore[attr-defined]
    names.Condition = _make_condition(module.threading.Condition)  # type: ignore[attr-defined]
    module.threading = names
    for name in ("join", "terminate"):
        setattr(module.Pool, name, _in_os_thread(getattr(module.Pool, name)))


def _make_event(real: Any) -> type:
    class PoolEvent(real):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._green = Event()

        def set(self) -> None:
            super().set()
            self._green.set()

        def wait(self, timeout: float | None = None) -> bool:
            waited = self._green.wait if may_wait() else super().wait
            return bool(waited(timeout))

    return PoolEvent


def _make_condition(real: Any) -> type:
    class PoolCondition(real):  # type: ignore[misc]
        def wait(self, timeout: float | None = None) -> bool:
            if not may_wait():
                return bool(super().wait(timeout))
            place = _Place()
            self._waiters.append(place)
            state = self._release_save()
            try:
                return bool(place.event.wait(timeout))
            finally:
                self._acquire_restore(state)
                with suppress(ValueError):
                    self._waiters.remove(place)

    return PoolCondition


class _Place:
    """What a condition releases to notify a waiter: here a green thread."""

    def __init__(self) -> None:
        self.event = Event()

    def release(self) -> None:
        self.event.set()


def _in_os_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a method that joins OS threads in another one."""

    def run(self: Any) -> Any:
        return get_hub().threadpool.apply(function, (self,)) if may_wait() else function(self)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


def adapt_popen(module: Any) -> None:
    """Adapt `multiprocessing.popen_fork`, whose class those of `fork` and `spawn` are derived from."""
    poll = module.Popen.poll

    def poll_green(self: Any, flag: int = os.WNOHANG) -> int | None:
        if flag != os.WNOHANG and self.returncode is None and may_wait():
            try:
                pid, status = green_os.waitpid(self.pid, flag)
            except OSError:
                # As the original: somebody else has collected it.
                return None
            if pid == self.pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        code: int | None = poll(self, flag)
        return code

    module.Popen.poll = poll_green
