"""Regression tests for defects that hostile scripts have found."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green import Timeout, socket, threadlock
from oneloop.green.event import AsyncResult, Event
from oneloop.green.exceptions import BlockingSwitchOutError, LoopExit
from oneloop.green.hub import get_hub
from oneloop.green.lock import RLock, Semaphore
from oneloop.green.queue import Channel, Full, LifoQueue, Queue, ShutDown
from tests import programs


def test_a_stock_loop_in_a_script_that_has_waited() -> None:
    """Its coroutines cannot block either, and it stays the running loop."""
    green.sleep(0.001)

    async def main() -> None:
        one, other = socket.socketpair()
        with one, other:
            calls: list[Callable[[], object]] = [lambda: green.sleep(0.001), lambda: one.recv(1), get_hub().pause]
            for call in calls:
                with pytest.raises(BlockingSwitchOutError):
                    call()
        assert asyncio.get_running_loop() is not None
        await asyncio.sleep(0)

    asyncio.run(main())
    green.sleep(0.001)


def test_system_exit_of_a_loop_in_a_green_thread() -> None:
    def runs() -> str:
        async def main() -> None:
            loop: Any = asyncio.get_running_loop()

            def leaves() -> None:
                raise SystemExit(3)

            await loop.run_green(leaves)

        with pytest.raises(SystemExit):
            oneloop.run(main())
        return "here"

    assert green.spawn(runs).get() == "here"

    async def again() -> int:
        await asyncio.sleep(0)
        return 7

    assert oneloop.run(again()) == 7


def test_a_channel_whose_getter_was_killed_with_an_item() -> None:
    channel: Channel[str] = Channel()
    killed = green.spawn(channel.get)
    green.sleep(0)
    killed.kill(block=False)
    channel.put("a")
    green.sleep(0)
    putting = green.spawn(channel.put, "b")
    green.sleep(0)
    assert (channel.peek(), channel.get(), channel.get()) == ("a", "a", "b")
    assert putting.get() is None


def test_a_channel_whose_first_offer_is_void() -> None:
    """The first offer times out in the tick in which a getter takes the offer after it."""
    channel: Channel[str] = Channel()
    late = green.spawn(channel.put, "a", timeout=0)
    kept = green.spawn(channel.put, "b")
    green.sleep(0)
    assert channel.get() in ("a", "b")
    green.joinall([late], timeout=1)
    if isinstance(late.exception, Full):
        kept.get()
        assert channel.empty()
    else:
        assert channel.get() == "b"


def test_a_channel_that_is_shut_down_at_once() -> None:
    channel: Channel[str] = Channel()
    putting = green.spawn(channel.put, "a")
    green.sleep(0)
    channel.shutdown(immediate=True)
    with pytest.raises(ShutDown):
        putting.get()


def test_waiting_without_taking_in_a_coroutine() -> None:
    async def main() -> None:
        semaphore, queue = Semaphore(1), Queue[int]()
        assert await semaphore.wait() == 1
        assert semaphore.counter == 1
        green.spawn_later(0.001, queue.put, 7)
        assert await queue.peek() == 7
        assert await queue.get() == 7
        queue.put_nowait(8)
        queue.put_nowait(StopIteration)  # type: ignore[arg-type]
        assert [item async for item in queue] == [8]
        with pytest.raises(TypeError, match="async for"):
            next(queue)
        with pytest.raises(BlockingSwitchOutError, match=r"asyncio\.timeout"):
            Timeout(1).start()

    oneloop.run(main())


def test_a_cancellation_in_the_moment_of_the_end() -> None:
    async def main() -> None:
        greenlet = green.spawn(green.sleep, 0.001)

        async def waits() -> None:
            await greenlet
            raise AssertionError("the cancellation was lost")

        task = asyncio.ensure_future(waits())
        await asyncio.sleep(0)
        greenlet.rawlink(lambda _: task.cancel())
        with pytest.raises(asyncio.CancelledError):
            await task

    oneloop.run(main())


def test_readiness_that_was_there_before() -> None:
    one, other = socket.socketpair()
    with one, other:
        other.send(b"xy")
        socket.wait_read(one)
        assert one.recv(1) == b"x"
        socket.wait_read(one, timeout=1)
        assert one.recv(1) == b"y"


def test_iwait_in_time_beside_a_slow_consumer() -> None:
    ready = Event()
    greenlets = [green.spawn(int), green.spawn(ready.wait), green.spawn(green.sleep, 100)]
    seen = []
    for greenlet in green.iwait(greenlets, timeout=0.3):
        seen.append(greenlet)
        ready.set()
        # Longer than the timeout: what ended before it is told in any case.
        green.sleep(0.35)
    assert seen == greenlets[:2]
    greenlets[2].kill()


FORK = """
from oneloop import green
from oneloop.green.event import Event
waiting = green.spawn(Event().wait)
green.sleep(0.001)
child = os.fork()
if child == 0:
    green.joinall([green.spawn(green.sleep, 0.001) for _ in range(3)])
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
green.sleep(0.001)
"""


def test_a_forked_child_has_a_hub_of_its_own() -> None:
    assert programs.run_ok("oneloop", FORK, options=("-W", "ignore::DeprecationWarning")) == "7\n"


EXIT = """
from oneloop import green
from oneloop.green.event import Event
first = green.spawn(Event().wait)
green.spawn(first.join)
green.sleep(0.001)
"""


def test_a_script_ends_silently_while_green_threads_wait_for_each_other() -> None:
    assert programs.run_ok("oneloop", EXIT) == ""


def test_what_a_closed_loop_has_left_takes_no_items() -> None:
    queue: Queue[str] = Queue()
    left: list[Any] = []

    async def main() -> None:
        left.append(green.spawn(queue.get))
        await asyncio.sleep(0.001)

    oneloop.run(main())
    queue.put("kept")
    assert queue.get() == "kept"


def test_green_threads_that_wait_unwind_with_the_loop() -> None:
    unwound = []

    def waits() -> None:
        try:
            Event().wait()
        finally:
            unwound.append(True)

    async def main() -> None:
        green.spawn(waits)
        await asyncio.sleep(0.001)

    oneloop.run(main())
    assert unwound == [True]


def test_errors_after_an_interrupt_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    def later() -> None:
        green.sleep(0.01)
        raise LookupError("of a raw greenlet")

    def interrupts() -> None:
        raise KeyboardInterrupt

    green.spawn_raw(later)
    green.spawn(interrupts)
    with pytest.raises(KeyboardInterrupt):
        green.sleep(1)
    green.sleep(0.05)
    assert "of a raw greenlet" in capsys.readouterr().err


def test_unlinking_from_several_threads() -> None:
    greenlet = green.spawn(green.sleep, 0.2)
    errors: list[BaseException] = []

    def joins() -> None:
        try:
            for _ in range(200):
                greenlet.join(0)
        except BaseException as error:
            errors.append(error)
        finally:
            get_hub().destroy()
            gc.collect()

    threads = [threading.Thread(target=joins) for _ in range(3)]
    for thread in threads:
        thread.start()
    greenlet.join()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_put_has_one_timeout() -> None:
    queue: LifoQueue[int] = LifoQueue(1, items=[0])
    putting = green.spawn(queue.put, 1, timeout=0.02)

    def steals() -> None:
        while not putting.ready():
            queue.get()
            queue.put_nowait(0)
            green.sleep(0.005)

    green.spawn(steals).join()
    assert isinstance(putting.exception, Full)


def test_room_goes_to_who_has_waited_for_it() -> None:
    queue: Queue[int] = Queue(1, items=[0])
    first, second = green.spawn(queue.put, 1), green.spawn(queue.put, 2)
    green.sleep(0)
    assert queue.get() == 0
    with pytest.raises(Full):
        queue.put_nowait(3)
    green.joinall([first])
    assert not second.ready()
    assert [queue.get(), queue.get()] == [1, 2]
    second.join()
    assert queue.empty()


def test_dead_before_it_began() -> None:
    greenlet = green.spawn(os.getpid)
    greenlet.kill()
    assert (greenlet.dead, greenlet.ready()) == (True, True)


def test_a_link_to_a_result_that_another_thread_sets() -> None:
    result: AsyncResult[int] = AsyncResult()
    told: list[Any] = []
    result.rawlink(told.append)
    thread = threading.Thread(target=result.set, args=(7,))
    thread.start()
    thread.join()
    green.sleep(0.001)
    assert told == [result]


def test_a_cancelled_timer_is_nothing_to_wait_for() -> None:
    green.get_hub().call_later(60, print).cancel()
    with pytest.raises(LoopExit):
        Queue().get()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 does not tell of a thread that is about to begin")
def test_an_idle_thread_is_nothing_to_wait_for() -> None:
    assert green.get_hub().threadpool.apply(int) == 0
    with pytest.raises(LoopExit):
        Queue().get()


def test_a_thread_that_works_is_something_to_wait_for() -> None:
    hub = green.get_hub()
    result: AsyncResult[int] = AsyncResult()
    lock = threading.Lock()

    def work() -> None:
        with lock:
            result.set(7)

    with lock:
        working = hub.threadpool.spawn(work)
        green.sleep(0.001)
    assert result.get() == 7
    working.get()


def test_a_timeout_is_a_timeout() -> None:
    soon: Any = Timeout(0.001)
    never: Any = Timeout(None)
    with pytest.raises(Timeout) as raised:
        Queue().get(timeout=soon)
    assert raised.value is soon
    with pytest.raises(LookupError):
        Queue(1, [1]).put(1, timeout=Timeout(0.001, LookupError))  # type: ignore[arg-type]
    assert Event().wait(soon) is False
    assert Queue(items=[1]).get(timeout=never) == 1
    assert Semaphore(0).acquire(timeout=soon) is False


def test_a_green_thread_without_a_function() -> None:
    greenlet = green.Greenlet()
    greenlet.start()
    assert greenlet.get() is None


def test_who_waits_for_several_may_give_up() -> None:
    event = Event()
    thread = green.spawn(int)
    with green.iwait([event, thread]) as ready:
        assert next(ready) is thread
        assert event.linkcount() == 1
    assert event.linkcount() == 0
    assert (thread.has_links(), Semaphore().linkcount()) == (False, 0)


def test_a_socket_that_was_waited_for_and_closed_is_nothing_to_wait_for() -> None:
    one, other = socket.socketpair()
    reading = green.spawn(one.recv, 1)
    green.sleep(0)
    other.send(b"x")
    assert reading.get() == b"x"
    one.close()
    other.close()
    with pytest.raises(LoopExit):
        Event().wait()


@pytest.mark.parametrize("kind", [RLock, threadlock.RLock])
def test_a_killed_wait_for_a_condition_has_its_lock_again(kind: Any) -> None:
    """Otherwise releasing the lock would fail and hide the exception that killed the green thread."""
    lock = kind()

    def waits() -> None:
        # As in `threading.Condition.wait`.
        with lock:
            state = lock._release_save()
            green.sleep(0)
            lock._acquire_restore(state)

    waiting = green.spawn(waits)
    green.sleep(0)
    with lock:
        green.sleep(0.001)
        waiting.kill(KeyError("mine"), block=False)
        green.sleep(0.001)
        assert not waiting.ready()
    waiting.join()
    assert isinstance(waiting.exception, KeyError)
    assert not lock.locked()


def test_a_negative_time_is_over_at_once() -> None:
    with pytest.raises(Timeout), Timeout(-1):
        Event().wait()
