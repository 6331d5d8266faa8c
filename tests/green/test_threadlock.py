"""Locks of green threads: how callers wait, who is woken, and which waits are refused."""

from __future__ import annotations

import _thread
import asyncio
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import oneloop
from oneloop import green
from oneloop.green.exceptions import BlockingSwitchOutError, LoopExit
from oneloop.green.hub import has_hub
from oneloop.green.threadlock import LockType, RLock

if TYPE_CHECKING:
    from types import FrameType


def test_a_lock_is_taken_and_released() -> None:
    lock = LockType()
    assert not lock.locked()
    assert lock.acquire()
    assert lock.locked()
    assert not lock.acquire(False)
    assert not lock.acquire(timeout=0.001)
    lock.release()
    with lock as taken:
        assert taken
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        lock.release()
    assert "unlocked" in repr(lock)


def test_wrong_timeouts_are_refused() -> None:
    lock = LockType()
    with pytest.raises(ValueError, match="non-blocking"):
        lock.acquire(False, 1)
    with pytest.raises(ValueError, match="non-negative"):
        lock.acquire(timeout=-2)
    with pytest.raises(OverflowError):
        lock.acquire(timeout=1e100)
    with pytest.raises(TypeError):
        lock.acquire(timeout="1")  # type: ignore[arg-type]


def test_a_lock_has_no_subclasses() -> None:
    with pytest.raises(TypeError):
        type("Derived", (LockType,), {})


def test_green_threads_get_it_in_the_order_in_which_they_came() -> None:
    lock = LockType()
    order: list[int] = []

    def take(number: int) -> None:
        with lock:
            order.append(number)

    lock.acquire()
    waiting = [green.spawn(take, number) for number in range(5)]
    green.sleep(0)
    lock.release()
    # The lock was handed over: a later caller must not overtake.
    assert not lock.acquire(False)
    green.joinall(waiting)
    assert order == [0, 1, 2, 3, 4]


def test_who_is_killed_or_late_passes_it_on() -> None:
    lock = LockType()
    lock.acquire()
    killed = green.spawn(lock.acquire)
    late = green.spawn(lock.acquire, True, 0.001)
    waiting = green.spawn(lock.acquire)
    green.sleep(0)
    assert late.get() is False
    killed.kill(block=False)
    # The lock is handed to the killed green thread, which has not run yet.
    lock.release()
    assert waiting.get(timeout=5) is True


def test_nobody_who_could_release_it_is_an_error() -> None:
    lock = LockType()
    lock.acquire()
    with pytest.raises(LoopExit):
        lock.acquire()


def test_threads_without_a_hub_block_by_themselves() -> None:
    lock = LockType()
    lock.acquire()
    found: list[Any] = []

    def run() -> None:
        found.append(lock.acquire(timeout=0.001))
        found.append(lock.acquire())
        found.append(has_hub())
        lock.release()

    thread = threading.Thread(target=run)
    thread.start()
    while len(found) < 1:
        green.sleep(0.001)
    lock.release()
    thread.join()
    assert found == [False, True, False]


def test_a_coroutine_is_refused_what_only_its_own_thread_could_release() -> None:
    lock = LockType()
    rlock = RLock()

    async def main() -> None:
        assert lock.acquire()
        lock.release()
        holder = green.spawn(hold)
        await oneloop_sleep()
        with pytest.raises(BlockingSwitchOutError, match="would block the event loop"):
            lock.acquire()
        with pytest.raises(BlockingSwitchOutError):
            rlock.acquire()
        assert not rlock.acquire(False)
        go_on.release()
        await holder

    go_on = LockType()
    go_on.acquire()

    def hold() -> None:
        with lock, rlock:
            go_on.acquire()

    async def oneloop_sleep() -> None:
        await asyncio.sleep(0.001)

    oneloop.run(main())


def test_a_coroutine_is_refused_what_a_green_thread_is_about_to_get() -> None:
    """The lock is on its way to the green thread, which could not run to release it."""

    async def main() -> None:
        lock = LockType()
        lock.acquire()

        def use() -> None:
            with lock:
                pass

        thread = green.spawn(use)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        lock.release()
        with pytest.raises(BlockingSwitchOutError):
            lock.acquire()
        await thread
        assert lock.acquire(False)

    oneloop.run(main())


def test_a_coroutine_waits_for_another_thread() -> None:
    lock = LockType()
    is_held, may_go = _thread.allocate_lock(), _thread.allocate_lock()
    is_held.acquire()
    may_go.acquire()

    def hold() -> None:
        with lock:
            is_held.release()
            may_go.acquire()

    async def main() -> bool:
        is_held.acquire()
        asyncio.get_running_loop().call_soon(may_go.release)
        threading.Timer(0.001, may_go.release).start()
        return lock.acquire()

    thread = threading.Thread(target=hold)
    thread.start()
    assert oneloop.run(main())
    thread.join()


def test_a_reentrant_lock_belongs_to_a_green_thread() -> None:
    lock = RLock()
    with lock, lock:
        assert lock._recursion_count() == 2
        assert "locked" in repr(lock)
        assert green.spawn(lock.acquire, False).get() is False
        assert green.spawn(lock.acquire, True, 0.001).get() is False

        def release() -> None:
            with pytest.raises(RuntimeError, match="un-acquired"):
                lock.release()

        green.spawn(release).get()
    assert not lock.locked()
    with pytest.raises(RuntimeError, match="un-acquired"):
        lock.release()
    with pytest.raises(RuntimeError, match="un-acquired"):
        lock._release_save()


def test_conditions_wait_by_them() -> None:
    for made in (RLock(), LockType()):
        condition = threading.Condition(made)  # type: ignore[arg-type]
        # Its waiters are locks of `threading`, which is not patched here.
        with condition:
            assert condition._is_owned()  # type: ignore[attr-defined]
        state = None
        if isinstance(made, RLock):
            made.acquire()
            state = made._release_save()
            assert not made.locked()
            made._acquire_restore(state)
            made.release()


def test_after_a_fork_a_lock_is_free() -> None:
    lock, rlock = LockType(), RLock()
    lock.acquire()
    rlock.acquire()
    lock._at_fork_reinit()
    rlock._at_fork_reinit()
    assert not lock.locked()
    assert not rlock.locked()
    assert lock.acquire(False)
    assert rlock.acquire(False)


@pytest.mark.parametrize("restores", [False, True])
def test_a_handler_may_take_the_reentrant_lock_that_the_code_around_it_has_just_got(restores: bool) -> None:
    """Signals' handlers run between any two steps of Python code; one that logs takes logging's lock."""
    lock = RLock()
    answers: list[bool] = []
    is_handed_over = False

    def handle(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code is not take.__code__ and not frame.f_code.co_filename.endswith("/green/threadlock.py"):
            return None
        frame.f_trace_opcodes = True
        if is_handed_over:
            answers.append(lock.acquire(False))
            if answers[-1]:
                lock.release()
        return handle

    def take() -> tuple[int, bool]:
        before = sys.gettrace()
        if restores:
            lock.acquire()
            lock.acquire()
            state = lock._release_save()
        green.sleep(0)
        frame = sys._getframe()
        sys.settrace(handle)
        frame.f_trace, frame.f_trace_opcodes = handle, True
        try:
            if restores:
                lock._acquire_restore(state)
            else:
                lock.acquire()
        finally:
            sys.settrace(before)
        return lock._recursion_count(), lock._is_owned()

    taking = green.spawn(take)
    green.sleep(0)
    lock.acquire()
    green.sleep(0.001)
    is_handed_over = True
    lock.release()
    assert taking.get() == ((2 if restores else 1), True)
    assert answers
    assert all(answers)


def test_a_reentrant_lock_refuses_arguments_as_its_python_does() -> None:
    class Named(RLock):
        __slots__ = ("name",)

        def __init__(self, name: str) -> None:
            self.name = name

    assert Named("mine").name == "mine"
    lock = RLock()
    for taken in (False, True):
        if taken:
            lock.acquire()
        with pytest.raises(ValueError, match="non-blocking"):
            lock.acquire(False, 1)
        with pytest.raises(ValueError, match="non-negative"):
            lock.acquire(timeout=-2)
        with pytest.raises(OverflowError):
            lock.acquire(timeout=1e100)
    assert lock._count == 1
    if sys.version_info >= (3, 15):
        with pytest.raises(TypeError, match="takes no arguments"):
            RLock(1)
    else:
        RLock(1, name=2)


@pytest.mark.parametrize("kind", [LockType, RLock])
def test_a_wait_that_has_timed_out_and_is_killed_releases_nothing(kind: Any) -> None:
    """Both in one tick."""
    lock = kind()
    lock.acquire()

    def wait() -> None:
        with green.Timeout(0.01, False):
            lock.acquire(timeout=0.01)

    waiting = green.spawn(wait)
    green.sleep(0)
    # Both times are over when the loop looks next.
    time.sleep(0.02)
    waiting.join()
    assert lock.locked()
    lock.release()
