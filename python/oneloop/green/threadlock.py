"""`LockType`: the lock of `_thread` for green threads, and `RLock`, the reentrant lock.

The holder can be a green thread of any OS thread, or an OS thread without a hub. Taking it, waiting and handing it over
are native code; how a waiter waits is decided here, and depends on its kind:

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
from threading import main_thread as _main_thread
from typing import TYPE_CHECKING, Any, ClassVar

from greenlet import getcurrent

from oneloop import _native
from oneloop.green.hub import Waiter, get_hub, has_hub
from oneloop.green.seconds import checked_seconds
from oneloop.green.steps import may_block

if TYPE_CHECKING:
    from typing import Self

__all__ = ["ConditionPlace", "LockType", "RLock", "leave_condition", "let_others_go", "may_park", "notify_all"]

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


def notify_all(condition: Any) -> None:
    """`Condition.notify_all`: one of those that waited, if it is killed now, has nobody to notify instead."""
    for place in condition._waiters:
        if hasattr(place, "is_one_of_all"):
            place.is_one_of_all = True
    condition.notify(len(condition._waiters))


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
            timeout = _checked_timeout(blocking, timeout)
        if not blocking:
            return 0
        return None if timeout == -1 else timeout

    def _place(self, timeout_s: float | None) -> Waiter | _native.ThreadPlace | None:
        """Where the caller waits for at most `timeout_s` seconds; None: it does not wait."""
        if timeout_s == 0:
            let_others_go()
            return None
        if may_block():
            if may_park():
                hub = get_hub()
                waiter = Waiter(hub)
                if getcurrent().parent is None:
                    hub.lock_waiter = waiter
                return waiter
        elif self._waits_for_this_thread() and not self.blocks_loop:
            raise get_hub()._parking_refused()
        return _native.ThreadPlace(_allocate())

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


def _checked_timeout(blocking: bool, timeout: Any) -> float:
    timeout_s = checked_seconds(timeout)
    if not blocking:
        if timeout_s != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
    elif timeout_s < 0 and timeout_s != -1:
        raise ValueError("timeout value must be a non-negative number")
    return timeout_s


class RLock(_native.ReentrantCore):
    """Like `threading.RLock`. Its owner is a green thread; all coroutines of a loop count as one owner."""

    __slots__ = ()

    _block_type: ClassVar[type[LockType]] = LockType

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        if _RLOCK_IS_STRICT and cls.__init__ is object.__init__ and (args or kwargs):
            raise TypeError("RLock() takes no arguments")
        return super().__new__(cls, cls._block_type())

    def __repr__(self) -> str:
        state = "locked" if self.locked() else "unlocked"
        return (
            f"<{state} {type(self).__module__}.{type(self).__qualname__} object owner={self._owner} "
            f"count={self._count} at {id(self):#x}>"
        )


class ImportRLock(RLock):
    """Like `ImportLock`, reentrant."""

    __slots__ = ()

    _block_type = ImportLock
