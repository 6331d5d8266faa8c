"""Timeout, Event, AsyncResult, semaphores, locks and queues between green threads and between OS threads."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green import Timeout
from oneloop.green.event import AsyncResult, Event
from oneloop.green.hub import get_hub
from oneloop.green.lock import BoundedSemaphore, DummySemaphore, RLock, Semaphore
from oneloop.green.queue import Empty, Full, LifoQueue, PriorityQueue, Queue, ShutDown, SimpleQueue

# -- timeouts ----------------------------------------------------------------------------------------


def test_timeout_raises_itself_or_what_is_given() -> None:
    with pytest.raises(Timeout) as told, Timeout(0.001) as timeout:
        green.sleep(10)
    assert told.value is timeout
    assert str(timeout) == "0.001 seconds"
    with pytest.raises(LookupError), Timeout(0.001, LookupError):
        green.sleep(10)
    with Timeout(0.001, False) as timeout:
        green.sleep(10)
    assert not timeout.pending


def test_a_timeout_is_a_number() -> None:
    for seconds in ("1", [], object()):
        with pytest.raises(TypeError, match="real number"):
            Timeout(seconds)  # type: ignore[arg-type]


def test_timeout_that_is_cancelled_or_never_comes() -> None:
    with Timeout(0.001) as timeout:
        assert timeout.pending
        timeout.cancel()
        green.sleep(0.005)
    with Timeout(None) as timeout:
        assert not timeout.pending
        green.sleep(0.001)


def test_timeout_that_has_expired_in_the_last_moment_is_not_raised_later() -> None:
    """The exception was scheduled when the timeout was cancelled."""
    timeout = Timeout.start_new(0)
    end = get_hub().asyncio_loop.time() + 0.002
    while get_hub().asyncio_loop.time() < end:
        pass
    timeout.cancel()
    green.sleep(0.005)


def test_timeout_twice() -> None:
    timeout = Timeout.start_new(10)
    with pytest.raises(AssertionError, match="already started"):
        timeout.start()
    assert Timeout.start_new(timeout) is timeout
    timeout.close()


def test_nested_timeouts() -> None:
    with pytest.raises(Timeout) as told, Timeout(10), Timeout(0.001) as inner:
        green.sleep(10)
    assert told.value is inner
    with pytest.raises(Timeout) as told, Timeout(0.001) as outer, Timeout(10):
        green.sleep(10)
    assert told.value is outer


def test_with_timeout() -> None:
    assert green.with_timeout(0.001, green.sleep, 10, timeout_value=7) == 7
    with pytest.raises(Timeout):
        green.with_timeout(0.001, green.sleep, 10)
    assert green.with_timeout(10, len, [1]) == 1


# -- events and results ------------------------------------------------------------------------------


def test_event() -> None:
    event = Event()
    assert event.wait(timeout=0.001) is False
    waiting = [green.spawn(event.wait) for _ in range(3)]
    green.sleep(0)
    event.set()
    event.clear()
    green.joinall(waiting)
    assert [greenlet.value for greenlet in waiting] == [True] * 3
    assert not event.is_set()
    told: list[Any] = []
    event.rawlink(told.append)
    event.unlink(told.append)
    event.rawlink(told.append)
    event.set()
    green.sleep(0)
    assert told == [event]
    with pytest.raises(TypeError, match="Expected callable"):
        event.rawlink(7)  # type: ignore[arg-type]


def test_a_pulse_reaches_links() -> None:
    """As it reaches waiters, although the event is clear when they run."""
    pulsed, later = Event(), Event()
    told: list[Any] = []
    pulsed.rawlink(told.append)
    unlinked = told.copy
    pulsed.rawlink(unlinked)  # type: ignore[arg-type]
    waiting = green.spawn(green.wait, [pulsed, later], count=1)
    green.sleep(0)
    pulsed.set()
    pulsed.clear()
    assert pulsed.linkcount() == 3
    pulsed.unlink(unlinked)  # type: ignore[arg-type]
    # This one waits for the next time.
    pulsed.rawlink(told.append)
    waiting.join()
    assert waiting.value == [pulsed]
    assert told == [pulsed]
    pulsed.set()
    green.sleep(0)
    assert told == [pulsed] * 2
    assert (pulsed.linkcount(), later.linkcount()) == (0, 0)


def test_killed_waiters_leave_nothing() -> None:
    event = Event()
    waiting = [green.spawn(event.wait) for _ in range(100)]
    green.sleep(0)
    green.killall(waiting)
    assert event.waiting == 0


def test_late_waiters_leave_nothing() -> None:
    event = Event()
    assert [event.wait(timeout=0.001) for _ in range(3)] == [False] * 3
    assert event.waiting == 0


def test_a_timeout_object_ends_the_wait_for_an_event() -> None:
    """Its own timeout makes the wait return; another one that is running is raised."""
    event = Event()
    assert event.wait(timeout=Timeout(0.001)) is False  # type: ignore[arg-type]
    with Timeout(0.001) as other, pytest.raises(Timeout) as caught:
        event.wait(timeout=Timeout(60))  # type: ignore[arg-type]
    assert caught.value is other
    with pytest.raises(KeyError):
        event.wait(timeout=Timeout(0.001, KeyError))  # type: ignore[arg-type]
    assert event.waiting == 0


def test_a_timeout_of_an_event_that_is_none() -> None:
    event = Event()
    with pytest.raises(TypeError, match="must be a number or a Timeout"):
        event.wait(KeyError("x"))  # type: ignore[arg-type]
    assert event.waiting == 0


def test_a_place_that_cannot_be_woken_keeps_no_other_one_asleep() -> None:
    class Place:
        def wake(self, value: Any) -> bool:
            raise MemoryError

    event = Event()
    assert not event._is_set_or_enter(Place())
    waiting = green.spawn(event.wait, 60)
    green.sleep(0)
    with pytest.raises(MemoryError):
        event.set()
    assert waiting.get(timeout=60) is True
    assert event.waiting == 0


def test_a_link_that_was_added_twice_is_called_once() -> None:
    """As in gevent."""
    event, told = Event(), list[Any]()
    link = told.append
    event.rawlink(link)
    event.rawlink(link)
    assert event.linkcount() == 2
    event.set()
    green.sleep(0)
    assert (told, event.linkcount()) == ([event], 0)


def test_an_event_that_was_set_keeps_no_loop() -> None:
    for wait in (lambda event: green.spawn(event.wait), lambda event: asyncio.ensure_future(event.wait())):
        event = Event()

        async def main(wait: Any = wait, event: Event = event) -> weakref.ref[Any]:
            waiting = wait(event)
            await asyncio.sleep(0)
            event.set()
            await waiting
            return weakref.ref(asyncio.get_running_loop())

        loop = oneloop.run(main())
        gc.collect()
        assert loop() is None


def test_a_wait_lets_those_run_that_were_woken_before() -> None:
    event, ran = Event(), list[str]()

    def wait() -> None:
        event.wait()
        ran.append("woken")

    waiting = green.spawn(wait)
    green.sleep(0)
    event.set()
    assert event.wait() is True
    assert ran == ["woken"]
    waiting.join()


def test_result() -> None:
    result: AsyncResult[int] = AsyncResult()
    with pytest.raises(Timeout):
        result.get(block=False)
    with pytest.raises(Timeout):
        result.get(timeout=0.001)
    assert result.wait(timeout=0.001) is None
    waiting = green.spawn(result.get)
    green.sleep(0)
    result.set(7)
    assert (waiting.get(), result.get_nowait(), result.value, result.successful()) == (7, 7, 7, True)
    failed: AsyncResult[int] = AsyncResult()
    failed.set_exception(LookupError("told"))
    with pytest.raises(LookupError):
        failed.get()
    assert (failed.ready(), failed.successful()) == (True, False)
    assert isinstance(failed.exception, LookupError)


def test_result_of_a_green_thread() -> None:
    result: AsyncResult[int] = AsyncResult()
    green.spawn(lambda: 7).link(result)
    assert result.get() == 7


# -- semaphores and locks ----------------------------------------------------------------------------


def test_semaphore() -> None:
    semaphore = Semaphore(2)
    assert semaphore.acquire()
    assert semaphore.acquire()
    assert semaphore.locked()
    assert semaphore.acquire(blocking=False) is False
    assert semaphore.acquire(timeout=0.001) is False
    order: list[int] = []

    def takes(number: int) -> None:
        with semaphore:
            order.append(number)

    waiting = [green.spawn(takes, number) for number in range(5)]
    green.sleep(0)
    semaphore.release()
    # A later caller must not overtake.
    assert semaphore.acquire(blocking=False) is False
    green.joinall(waiting)
    assert order == [0, 1, 2, 3, 4]
    assert semaphore.counter == 1
    with pytest.raises(ValueError, match="must be >= 0"):
        Semaphore(-1)


def test_a_killed_waiter_gives_the_semaphore_back() -> None:
    semaphore = Semaphore(0)
    first, second = green.spawn(semaphore.acquire), green.spawn(semaphore.acquire)
    green.sleep(0)
    first.kill(block=False)
    semaphore.release()
    assert second.get() is True
    assert semaphore.counter == 0


def test_bounded() -> None:
    semaphore = BoundedSemaphore(1)
    with pytest.raises(ValueError, match="too many"):
        semaphore.release()
    with semaphore:
        pass
    assert DummySemaphore().acquire()


def test_rlock() -> None:
    lock = RLock()
    with lock, lock:
        other = green.spawn(lock.acquire, blocking=False)
        assert other.get() is False
        with pytest.raises(RuntimeError, match="un-acquired"):
            green.spawn(lock.release).get()
    with pytest.raises(RuntimeError, match="un-acquired"):
        lock.release()
    assert green.spawn(lock.acquire).get() is True


def test_condition_of_threading_on_an_rlock() -> None:
    condition = threading.Condition(RLock())  # type: ignore[arg-type]
    with condition, pytest.raises(RuntimeError):
        threading.Condition(RLock()).notify()  # type: ignore[arg-type]
    with condition:
        condition.notify_all()


# -- queues ------------------------------------------------------------------------------------------


def test_queue() -> None:
    queue: Queue[int] = Queue(2)
    queue.put(1)
    queue.put(2)
    assert (queue.full(), queue.qsize(), queue.peek()) == (True, 2, 1)
    with pytest.raises(Full):
        queue.put_nowait(3)
    with pytest.raises(Full):
        queue.put(3, timeout=0.001)
    putting = green.spawn(queue.put, 3)
    green.sleep(0)
    assert queue.get() == 1
    putting.join()
    assert [queue.get(), queue.get()] == [2, 3]
    with pytest.raises(Empty):
        queue.get_nowait()
    with pytest.raises(Empty):
        queue.get(timeout=0.001)
    with pytest.raises(Empty):
        queue.peek_nowait()


def test_order_of_queues() -> None:
    items = [3, 1, 2]
    for made, expected in ((LifoQueue(items=items), [2, 1, 3]), (PriorityQueue(items=items), [1, 2, 3])):
        assert made.peek() == expected[0]
        assert [made.get() for _ in range(3)] == expected
    assert list(SimpleQueue(items=[1, 2, StopIteration])) == [1, 2]


def test_tasks_done() -> None:
    queue: Queue[int] = Queue()
    assert queue.join() is True
    queue.put(1)
    assert queue.join(timeout=0.001) is False
    joining = green.spawn(queue.join)
    getting = green.spawn(queue.get)
    green.joinall([getting])
    assert not joining.ready()
    queue.task_done()
    assert joining.get() is True
    with pytest.raises(ValueError, match="too many"):
        queue.task_done()


def test_an_item_that_is_handed_over_counts_as_unfinished() -> None:
    queue: Queue[int] = Queue()
    getting = green.spawn(queue.get)
    green.sleep(0)
    queue.put(1)
    assert getting.get() == 1
    assert queue.join(timeout=0.001) is False


def test_shutdown() -> None:
    queue: Queue[int] = Queue(1)
    queue.put(1)
    putting = green.spawn(queue.put, 2)
    green.sleep(0)
    queue.shutdown()
    with pytest.raises(ShutDown):
        putting.get()
    with pytest.raises(ShutDown):
        queue.put(3)
    assert queue.get() == 1
    with pytest.raises(ShutDown):
        queue.get()
    dropped: Queue[int] = Queue(items=[1, 2])
    dropped.shutdown(immediate=True)
    assert dropped.join(timeout=0.001) is True
    with pytest.raises(ShutDown):
        dropped.get()


# -- between threads ---------------------------------------------------------------------------------


def test_a_queue_between_threads() -> None:
    """Each OS thread has a hub, and green threads that block on the same queue."""
    queue: Queue[int] = Queue(10)
    found: list[list[int]] = []

    def produce() -> None:
        def puts() -> None:
            for number in range(200):
                queue.put(number)

        green.joinall([green.spawn(puts) for _ in range(3)], raise_error=True)
        get_hub().destroy()
        gc.collect()

    threads = [threading.Thread(target=produce) for _ in range(2)]
    for thread in threads:
        thread.start()

    def gets() -> None:
        found.append([queue.get() for _ in range(400)])

    green.joinall([green.spawn(gets) for _ in range(3)], raise_error=True)
    for thread in threads:
        thread.join()
    assert sorted(item for items in found for item in items) == sorted(list(range(200)) * 6)


def test_a_semaphore_between_threads() -> None:
    semaphore = Semaphore(1)
    counts = {"inside": 0, "most": 0, "done": 0}

    def work() -> None:
        def enters() -> None:
            for _ in range(50):
                with semaphore:
                    counts["inside"] += 1
                    counts["most"] = max(counts["most"], counts["inside"])
                    green.sleep(0)
                    counts["inside"] -= 1
                    counts["done"] += 1

        green.joinall([green.spawn(enters) for _ in range(4)], raise_error=True)
        get_hub().destroy()
        gc.collect()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {"inside": 0, "most": 1, "done": 600}
