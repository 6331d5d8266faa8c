"""`Workers`: OS threads that do what is put into their queue. They know nothing of hubs and green threads.

```text
made → idle ⇄ doing a task → gone
           ↘ told to leave, idle for too long ↗
```
They are made with `_thread`'s own functions and wait on its own locks, whatever patching replaces later. The
interpreter does not wait for them at its exit.
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

__all__ = ["Task", "Workers"]


class Task(Protocol):
    """What a thread does."""

    def do(self) -> Callable[[], object]:
        """Do it; what tells the outcome, which is called when the thread counts as free. Neither raises."""


class Workers:
    """At most `maxsize` threads, which do the tasks in the order in which they were put. Any thread may use it.

    Args:
        maxsize: how many threads there are at most.
        idle_s: a thread leaves when it has had nothing to do for so long; None: never.
        begin: called by each thread before anything else; one for which it gives False leaves.
        gone: called by each thread when it leaves.
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
        # All under the lock.
        self._threads = 0
        self._leaving = 0
        self._unfinished = 0
        # And of those that are done, some have not told the outcome yet.
        self._untold = 0

    @property
    def size(self) -> int:
        """How many threads there are that were not told to leave."""
        return self._threads - self._leaving

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return self._threads

    @property
    def idle(self) -> int:
        """How many threads have nothing to do, nothing to tell, and are not about to leave."""
        return max(0, self.size - self._untold)

    def put(self, task: Task) -> None:
        """Have a task done by the next thread that is free, which is made if there may be more.

        Raises:
            RuntimeError: the system gives no thread, and there is none.
        """
        with self._lock:
            self._unfinished += 1
            self._untold += 1
            self._tasks.put(task)
            if self._unfinished <= self.size or self.size >= self.maxsize:
                return
        try:
            self._add()
        except RuntimeError:
            if self.size == 0 and task in self.drain():
                raise

    def grow(self, size: int) -> None:
        """Make threads until there are so many.

        Raises:
            RuntimeError: the system gives no more.
        """
        while self.size < size:
            self._add()

    def shrink(self, size: int) -> None:
        """Tell all but so many to leave, when they have done what was put before."""
        with self._lock:
            excess = max(0, self.size - size)
            self._leaving += excess
            for _ in range(excess):
                self._tasks.put(None)

    def drain(self) -> list[Task]:
        """Take out the tasks that nobody does yet."""
        drained = []
        with self._lock:
            told = 0
            while not self._tasks.empty():
                task = self._tasks.get()
                if task is None:
                    told += 1
                else:
                    drained.append(task)
            self._unfinished -= len(drained)
            self._untold -= len(drained)
            for _ in range(told):
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
                    self._leaving -= 1
                self._gone()

    def _do_tasks(self) -> None:
        """Until it has to leave."""
        while (task := self._next_task()) is not None:
            tell = task.do()
            # What they hold is not kept until the next one comes.
            del task
            with self._lock:
                self._unfinished -= 1
            tell()
            with self._lock:
                self._untold -= 1
            del tell

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
    """How many threads of all workers nothing comes from by itself."""
    return sum(workers.idle for workers in list(_all))


def _leave_thread() -> None:
    """What the tasks have left in the thread: a hub, and what `threading` made to know it by."""
    from oneloop.green.hub import end_own_hub

    end_own_hub()
    ident = get_ident()
    if isinstance(threading._active.get(ident), threading._DummyThread):  # type: ignore[attr-defined]
        threading._active.pop(ident, None)  # type: ignore[attr-defined]


def _forget_threads() -> None:
    """In a forked child: the threads are the parent's, and so are the tasks."""
    for workers in list(_all):
        workers._reset()


os.register_at_fork(after_in_child=_forget_threads)
