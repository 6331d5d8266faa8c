"""`LockType`: the lock of `_thread` for green threads, and `RLock`, the reentrant lock.

The holder can be a green thread of any OS thread, or an OS thread without a hub. Without contention, the operations are
native code. How a waiter waits depends on its kind:

- A green thread or a script's main greenlet is parked, so that other green threads run.
- An OS thread without a hub (an executor's, for example) is blocked, because it has no green threads.
- A coroutine or a callback parks its green thread, if that runs its loop and the program is patched. On another loop it
  is blocked too if another OS thread holds the lock. If a green thread of the same OS thread holds it, or waits for it
  too, that could not run to release it, so BlockingSwitchOutError is raised.

A released lock goes to the longest waiting waiter.
"""

from __future__ import annotations

import sys
from _thread import _local
from _thread import allocate_lock as _allocate
from _thread import get_ident as _thread_ident
from threading import TIMEOUT_MAX
from threading import main_thread as _main_thread
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

from oneloop import _native
from oneloop.green.hub import TIMED_OUT, Waiter, get_hub, has_hub, wait_for
from oneloop.green.lock import acquire_at_last
from oneloop.green.steps import may_block

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["ConditionPlace", "LockType", "RLock", "leave_condition", "let_others_go", "may_park"]

# Per OS thread: the loop tick in which `_give_turn` was called last.
_last_turn = _local()

_RLOCK_IS_STRICT = sys.version_info >= (3, 15)


def may_park() -> bool:
    """Whether a blocking call here parks on a hub or raises an error. If not, it can block this OS thread."""
    return has_hub() or _thread_ident() == _main_thread().ident


def let_others_go() -> None:
    """Let other green threads run, because the caller may retry until it gets the lock."""
    if may_block() and has_hub():
        get_hub().pause()


def leave_condition(condition: Any, place: Any, has_ended: bool) -> None:
    """Take a waiter that was not woken out of a `threading.Condition`, whose lock it has.

    Args:
        condition: the condition.
        place: what a notification of this waiter releases.
        has_ended: its time is over. If not, it was killed: if it was notified, another one is.
    """
    try:
        condition._waiters.remove(place)
    except ValueError:
        if not has_ended and not getattr(place, "is_one_of_all", False):
            condition.notify()


class _Blocked:
    """An OS thread that blocks; has the methods of a `Waiter`."""

    __slots__ = ("_is_woken", "_lock", "_value")

    def __init__(self) -> None:
        self._lock = _allocate()
        self._lock.acquire()
        self._is_woken = False
        self._value: Any = None

    def wake(self, value: Any = None) -> bool:
        if self._is_woken:
            return False
        self._is_woken, self._value = True, value
        self._lock.release()
        return True

    def wait(self, timeout_s: float | None) -> Any:
        if not self._lock.acquire(True, -1 if timeout_s is None else min(timeout_s, TIMEOUT_MAX)):
            return TIMED_OUT
        return self._value

    def done(self) -> bool:
        return self._is_woken

    def get(self) -> Any:
        return self._value


class LockType(_native.LockCore):
    """Like `threading.Lock`. Any green thread, coroutine or OS thread may release it."""

    __slots__ = ()

    blocks_loop = False
    """Whether a coroutine that has to wait blocks the loop instead of getting an error, whoever holds the lock."""

    def __init_subclass__(cls) -> None:
        if cls.__module__ != __name__:
            raise TypeError("type 'LockType' is not an acceptable base type")

    acquire_lock = _native.LockCore.acquire
    release_lock = _native.LockCore.release
    locked_lock = _native.LockCore.locked
    # Without this, threading.Condition would try to acquire the lock, which can park the caller. The owner of the lock
    # must not park there.
    _is_owned = _native.LockCore.locked

    def _acquire_restore(self, _: object) -> None:
        """Called by `threading.Condition` after a wait: who is killed meanwhile has it nevertheless."""
        ended = acquire_at_last(self)
        if ended is not None:
            raise ended

    # Called by native code.

    def _give_turn(self) -> None:
        """Let other green threads run, after many locks were taken without contention.

        A thread that polls for another green thread's work would otherwise loop forever. This applies only to threads
        of `threading` and to the main greenlet: other green threads may hold a lock for which a coroutine cannot wait.
        """
        if not has_hub():
            return
        hub, current = get_hub(), getcurrent()
        if type(current).__name__ == "ThreadGreenlet" or current is hub.main:
            ticks = hub.asyncio_loop._counters()["ticks"]
            if getattr(_last_turn, "ticks", None) == ticks:
                let_others_go()
            _last_turn.ticks = ticks

    def _checked(self, blocking: Any, timeout: Any) -> float | None:
        """The maximum time that `acquire` waits, in seconds; 0 means that it does not wait, None means no limit."""
        blocking = blocking is None or bool(blocking)
        timeout = -1 if timeout is None else timeout
        if timeout != -1 or not blocking:
            _check_timeout(blocking, timeout)
        if not blocking:
            return 0
        return None if timeout == -1 else timeout

    def _wait(self, timeout_s: float | None) -> bool:
        if timeout_s == 0:
            let_others_go()
            return False
        hub = None
        if may_block():
            if may_park():
                hub = get_hub()
        elif self._waits_for_this_thread() and not self.blocks_loop:
            raise get_hub()._parking_refused()
        place: Any = _Blocked() if hub is None else Waiter(hub)
        if self._take_or_enter(place):
            return True
        try:
            woken = place.wait(timeout_s) if hub is None else wait_for(place, timeout_s)
        except BaseException:
            if self._was_handed_over(place):
                self.release()
            raise
        return woken is not TIMED_OUT or self._was_handed_over(place)

    def _was_handed_over(self, place: Any) -> bool:
        """Whether the lock was given to a waiter that has stopped waiting."""
        return not self._forget(place) and bool(place.done() and place.get() is True)

    def __repr__(self) -> str:
        state = "locked" if self.locked() else "unlocked"
        return f"<{state} {type(self).__module__}.{type(self).__qualname__} object at {id(self):#x}>"


class ConditionPlace(LockType):
    """What a green thread waits for in a `threading.Condition`, and which notifying it releases."""

    __slots__ = ("is_one_of_all",)

    def __init__(self) -> None:
        # All that waited were notified.
        self.is_one_of_all = False
        self.acquire()


class ImportLock(LockType):
    """The import system's lock. A coroutine that imports a module which another thread is importing blocks."""

    __slots__ = ()

    blocks_loop = True


def _check_timeout(blocking: bool, timeout: float) -> None:
    if not isinstance(timeout, (int, float)):
        raise TypeError(f"'{type(timeout).__name__}' object cannot be interpreted as a number of seconds")
    if not blocking:
        if timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
    elif timeout < 0:
        raise ValueError("timeout value must be a non-negative number")
    elif timeout > TIMEOUT_MAX:
        raise OverflowError("timeout value is too large")


def _identity() -> int:
    try:
        return id(getcurrent())
    except RuntimeError:
        # The interpreter is shutting down, and greenlets are not available any more.
        return _thread_ident()


class RLock:
    """Like `threading.RLock`. Its owner is a green thread; all coroutines of a loop count as one owner."""

    __slots__ = ("__weakref__", "_block", "_count", "_owner")

    def __init__(self, *args: object, **kwargs: object) -> None:
        if _RLOCK_IS_STRICT and (args or kwargs):
            raise TypeError("RLock() takes no arguments")
        self._block = self._make_block()
        # The owner's identity; 0 means that nobody owns it.
        self._owner = 0
        self._count = 0

    def _make_block(self) -> LockType:
        return LockType()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, or increment the owner's count. The arguments are those of `LockType.acquire`."""
        me = _identity()
        if self._owner == me:
            if timeout != -1:
                _check_timeout(blocking, timeout)
            self._count += 1
            return True
        if not self._block.acquire(blocking, timeout):
            return False
        self._owner, self._count = me, 1
        return True

    __enter__ = acquire

    def release(self) -> None:
        """Decrement the owner's count, and release the lock at 0.

        Raises:
            RuntimeError: the caller does not own the lock.
        """
        if self._owner != _identity():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = 0
            self._block.release()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def locked(self) -> bool:
        """Whether the lock is held."""
        return self._block.locked()

    # Methods that threading.Condition and threading's fork handler call.

    def _acquire_restore(self, state: tuple[int, int]) -> None:
        ended = acquire_at_last(self._block)
        self._count, self._owner = state
        if ended is not None:
            raise ended

    def _release_save(self) -> tuple[int, int]:
        if not self._count:
            raise RuntimeError("cannot release un-acquired lock")
        state = self._count, self._owner
        self._count, self._owner = 0, 0
        self._block.release()
        return state

    def _is_owned(self) -> bool:
        return self._owner == _identity()

    def _recursion_count(self) -> int:
        return self._count if self._is_owned() else 0

    def _at_fork_reinit(self) -> None:
        self._block._at_fork_reinit()
        self._owner, self._count = 0, 0

    def __repr__(self) -> str:
        state = "locked" if self.locked() else "unlocked"
        return (
            f"<{state} {type(self).__module__}.{type(self).__qualname__} object owner={self._owner} "
            f"count={self._count} at {id(self):#x}>"
        )


class ImportRLock(RLock):
    """Like `ImportLock`, reentrant."""

    __slots__ = ()

    def _make_block(self) -> LockType:
        return ImportLock()
