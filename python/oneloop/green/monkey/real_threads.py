"""The interpreter's threads in a patched program: a green thread that waits for one lets the others run.

multiprocessing, process pools and asyncio start such threads, and wait for them with `Thread.join` and conditions,
which events, semaphores, barriers and queues are made of. This adapts the realm's copy of `threading`. In OS threads
without green threads, and in coroutines and callbacks that may not block, they wait as without patching.
"""

from __future__ import annotations

from _thread import get_ident
from typing import TYPE_CHECKING, Any

from oneloop.green.blocking import blocking, may_wait
from oneloop.green.event import Event
from oneloop.green.steps import wait_here
from oneloop.green.threadlock import leave_condition, notify_all

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["adapt"]


def adapt(threads: Any) -> None:
    """Adapt the classes of a copy of `threading`."""
    threads.Condition.wait = _make_wait(threads.Condition.wait)
    threads.Condition.notify_all = notify_all
    kind = threads.Thread
    kind._bootstrap_inner, kind.join = _make_body(kind._bootstrap_inner), _make_join(kind.join)
    # Who starts one may hold a lock, and it has begun at once.
    kind.start = blocking(kind.start)


class _Place:
    """What a condition releases to notify a waiter: here a green thread."""

    def __init__(self) -> None:
        self.event = Event()
        self.is_one_of_all = False

    def release(self) -> None:
        self.event.set()


def _make_wait(wait_really: Callable[..., bool]) -> Callable[..., bool]:
    def wait(self: Any, timeout: float | None = None) -> bool:
        # One that only asks does not park: pools ask for an idle thread while they hold their locks.
        if not may_wait() or not self._is_owned() or (timeout is not None and timeout <= 0):
            return wait_really(self, timeout)
        place = _Place()
        self._waiters.append(place)
        state = self._release_save()
        try:
            try:
                is_notified = bool(wait_here(place.event.wait, timeout))
            finally:
                self._acquire_restore(state)
        except BaseException:
            if self._is_owned():
                leave_condition(self, place, False)
            elif place in self._waiters:
                self._waiters.remove(place)
            raise
        if not is_notified:
            leave_condition(self, place, True)
        return is_notified

    wait.__doc__ = wait_really.__doc__
    return wait


def _make_body(run: Callable[[Any], None]) -> Callable[[Any], None]:
    def run_and_tell(self: Any) -> None:
        # Set before `start()` returns, and so before anybody may join it.
        self._has_run = False
        try:
            run(self)
        finally:
            # In this order: who joins it makes the event and then looks whether it has run.
            self._has_run = True
            ended = self.__dict__.get("_ended")
            if ended is not None:
                ended.set()

    return run_and_tell


def _make_join(join_really: Callable[..., None]) -> Callable[..., None]:
    def join(self: Any, timeout: float | None = None) -> None:
        # It has not run if it has not started, or if this process is the child of a fork.
        if getattr(self, "_has_run", True) or not self.is_alive() or self.ident == get_ident() or not may_wait():
            join_really(self, timeout)
            return
        ended = self.__dict__.setdefault("_ended", Event())
        if self._has_run or wait_here(ended.wait, None if timeout is None else max(timeout, 0)):
            # It is about to end.
            join_really(self)

    join.__doc__ = join_really.__doc__
    return join
