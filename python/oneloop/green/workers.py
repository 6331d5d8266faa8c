"""`Workers`: OS threads that execute the tasks in their queue. They do not use hubs or green threads.

```text
created → idle ⇄ executing a task → ended
             ↘ told to leave, or idle for too long ↗
```
They use the original functions and locks of `_thread`, even if patching replaces those later. The interpreter does not
wait for these threads when it exits.
"""

from __future__ import annotations

import os
import threading
import weakref
from _queue import Empty, SimpleQueue
from _thread import allocate_lock, get_ident, start_new_thread
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Task", "Workers", "call_at_thread_end", "idle_threads", "unfinished_tasks"]


class Task(Protocol):
    """A unit of work for a thread."""

    def do(self) -> Callable[[], object]:
        """Execute the task. Return a function that reports the outcome once the thread is free. Neither raises."""
        ...


class Workers:
    """At most `maxsize` threads that execute tasks in the order in which they were put. Callable from any thread.

    Args:
        maxsize: the maximum number of threads.
        idle_s: a thread ends after it has been idle for this many seconds; None means never.
        begin: called by each thread when it starts. If it returns False, the thread ends.
        gone: called by each thread when it ends.
    """

    def __init__(
        self,
        maxsize: int,
        idle_s: float | None = None,
        begin: Callable[[], bool] = lambda: True,
        gone: Callable[[], object] = lambda: None,
    ) -> None:
        self.maxsize = maxsize
        self._idle_s = idle_s
        self._begin = begin
        self._gone = gone
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        self._lock = allocate_lock()
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        # All of these are changed only while the lock is held.
        self._threads = 0
        self._begun = 0
        self._leaving = 0
        self._unfinished = 0
        # The unfinished tasks, plus finished tasks whose outcome was not reported yet.
        self._unreported = 0

    @property
    def size(self) -> int:
        """The number of threads that were not told to leave."""
        return self._threads - self._leaving

    @property
    def threads(self) -> int:
        """The number of threads."""
        return self._threads

    @property
    def leaving(self) -> int:
        """The number of threads that were told to leave and have not ended."""
        return self._leaving

    @property
    def unreported(self) -> int:
        """The number of tasks whose outcome was not reported yet."""
        return self._unreported

    @property
    def idle(self) -> int:
        """The number of threads without a task to execute or an outcome to report, and that were not told to leave.

        Threads that are still starting do not count: the interpreter's list has one entry for all of them.
        """
        return max(0, min(self.size, self._begun) - self._unreported)

    def put(self, task: Task) -> None:
        """Queue a task for the next free thread. Start a thread if needed and allowed.

        Raises:
            RuntimeError: the system cannot start a thread, and there is none.
        """
        with self._lock:
            self._unfinished += 1
            self._unreported += 1
            self._tasks.put(task)
            if self._unfinished <= self.size or self.size >= self.maxsize:
                return
        try:
            self._add()
        except RuntimeError:
            if self.size == 0 and task in self.drain():
                raise

    def grow(self, size: int) -> None:
        """Start threads until there are `size`.

        Raises:
            RuntimeError: the system cannot start another thread.
        """
        while self.size < size:
            self._add()

    def shrink(self, size: int) -> None:
        """Tell all but `size` threads to leave after the tasks that were put before."""
        with self._lock:
            excess = max(0, self.size - size)
            self._leaving += excess
            for _ in range(excess):
                self._tasks.put(None)

    def drain(self) -> list[Task]:
        """Remove and return the tasks that no thread has started."""
        drained = []
        with self._lock:
            leave_requests = 0
            while not self._tasks.empty():
                task = self._tasks.get()
                if task is None:
                    leave_requests += 1
                else:
                    drained.append(task)
            self._unfinished -= len(drained)
            self._unreported -= len(drained)
            for _ in range(leave_requests):
                self._tasks.put(None)
        return drained

    # -- the threads -----------------------------------------------------------------------------------

    def _add(self) -> None:
        with self._lock:
            self._threads += 1
        try:
            start_new_thread(self._work, ())
        except BaseException:
            with self._lock:
                self._threads -= 1
            raise

    def _work(self) -> None:
        with self._lock:
            self._begun += 1
        try:
            if self._begin():
                self._do_tasks()
            else:
                with self._lock:
                    self._leaving += 1
        finally:
            try:
                _leave_thread()
            finally:
                with self._lock:
                    self._threads -= 1
                    self._begun -= 1
                    self._leaving -= 1
                self._gone()

    def _do_tasks(self) -> None:
        """Execute tasks until the thread has to leave."""
        while (task := self._next_task()) is not None:
            report = task.do()
            # Drop the references now, not when the next task arrives.
            del task
            with self._lock:
                self._unfinished -= 1
            report()
            with self._lock:
                self._unreported -= 1
            del report

    def _next_task(self) -> Task | None:
        while True:
            try:
                return self._tasks.get(True, self._idle_s)
            except Empty:
                with self._lock:
                    if self._tasks.empty():
                        self._leaving += 1
                        return None


_all: weakref.WeakSet[Workers] = weakref.WeakSet()


def idle_threads() -> int:
    """The number of idle threads of all workers. They produce no events on their own."""
    return sum(workers.idle for workers in list(_all))


def unfinished_tasks() -> int:
    """The number of tasks of all workers whose outcome was not reported yet."""
    return sum(workers.unreported for workers in list(_all))


_calls_at_thread_end: list[Callable[[], object]] = []


def call_at_thread_end(function: Callable[[], object]) -> None:
    """Have a function called in each thread that ends, after its last task."""
    _calls_at_thread_end.append(function)


def _leave_thread() -> None:
    """Remove what tasks left behind in the thread: its hub, and its `threading` dummy entry."""
    for function in _calls_at_thread_end:
        function()
    ident = get_ident()
    if isinstance(threading._active.get(ident), threading._DummyThread):  # type: ignore[attr-defined]
        threading._active.pop(ident, None)  # type: ignore[attr-defined]


def _forget_threads() -> None:
    """In a forked child: forget the threads and tasks, which belong to the parent."""
    for workers in list(_all):
        workers._reset()


os.register_at_fork(after_in_child=_forget_threads)
