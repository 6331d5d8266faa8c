"""Order: what is ready, then what the poll brought, then the timers that were due at the poll.

What these schedule waits for the next tick, behind what was scheduled before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.loop.conftest import Pair, run_ticks

Order = list[str]


@pytest.fixture
def order() -> Order:
    return []


def spin_until(loop: asyncio.AbstractEventLoop, when: float) -> None:
    while loop.time() <= when:
        pass


def test_a_timer_of_no_delay_comes_behind_what_is_ready(loop: asyncio.AbstractEventLoop, order: Order) -> None:
    loop.call_soon(order.append, "ready")
    loop.call_later(0, order.append, "timer")
    run_ticks(loop, 2)
    assert order == ["ready", "timer"]


def test_and_even_if_it_was_set_before(loop: asyncio.AbstractEventLoop, order: Order) -> None:
    loop.call_later(0, order.append, "timer")
    loop.call_at(0, order.append, "long due")
    loop.call_soon(order.append, "ready")
    loop.call_soon_threadsafe(order.append, "from a thread")
    run_ticks(loop, 2)
    assert order == ["ready", "from a thread", "long due", "timer"]


def test_within_callbacks(loop: asyncio.AbstractEventLoop, order: Order) -> None:
    def act() -> None:
        loop.call_later(0, order.append, "timer")
        loop.call_soon(order.append, "ready")
        loop.call_later(-1, order.append, "past")

    loop.call_soon(act)
    run_ticks(loop, 3)
    assert order == ["ready", "past", "timer"]


def test_a_timer_that_falls_due_during_a_callback_waits_for_the_next_tick(
    loop: asyncio.AbstractEventLoop, order: Order
) -> None:
    def first() -> None:
        # Set here, it cannot be due before.
        when = loop.time() + 0.002
        loop.call_at(when, order.append, "timer")
        loop.call_soon(second)
        spin_until(loop, when)
        order.append("first")

    def second() -> None:
        order.append("second")
        loop.call_soon(order.append, "third")

    loop.call_soon(first)
    loop.call_soon(order.append, "beside the first")
    run_ticks(loop, 4)
    assert order == ["first", "beside the first", "second", "timer", "third"]


def test_a_timer_that_falls_due_during_a_timer_waits_for_the_next_tick(
    loop: asyncio.AbstractEventLoop, order: Order
) -> None:
    now = loop.time()

    def first() -> None:
        order.append("first")
        loop.call_soon(order.append, "scheduled")
        spin_until(loop, now + 0.11)

    loop.call_at(now + 0.001, first)
    loop.call_at(now + 0.1, order.append, "second")
    loop.call_at(now + 0.1, loop.stop)
    loop.run_forever()
    assert order == ["first", "scheduled", "second"]


def test_a_timer_that_a_timer_sets_waits_for_the_next_tick(loop: asyncio.AbstractEventLoop, order: Order) -> None:
    def first() -> None:
        order.append("first")
        loop.call_later(0, order.append, "inner")
        loop.call_soon(order.append, "scheduled")

    loop.call_later(0, first)
    loop.call_later(0, order.append, "second")
    run_ticks(loop, 4)
    assert order == ["first", "second", "scheduled", "inner"]


def test_ready_then_readers_then_timers(loop: asyncio.AbstractEventLoop, pair: Pair, order: Order) -> None:
    ours, theirs = pair

    def note(what: str) -> None:
        order.append(what)
        loop.call_soon(order.append, f"after {what}")

    def read() -> None:
        loop.remove_reader(ours)
        note("reader")

    loop.call_later(0, note, "timer")
    loop.add_reader(ours, read)
    theirs.send(b"x")
    loop.call_soon(note, "ready")
    run_ticks(loop, 3)
    assert order == ["ready", "reader", "timer", "after ready", "after reader", "after timer"]


@pytest.mark.parametrize("timeout", [0, 0.0001])
@pytest.mark.parametrize("spins", [False, True])
def test_wait_for_of_a_task_that_has_not_started(
    loop: asyncio.AbstractEventLoop, order: Order, timeout: float, spins: bool
) -> None:
    """With no time at all it never starts; with a little it starts, however late it is."""

    async def work() -> None:
        order.append("started")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            order.append("cancelled")
            raise

    async def main() -> None:
        task = asyncio.create_task(work())
        waiting = asyncio.create_task(asyncio.wait_for(task, timeout))
        if spins:
            spin_until(loop, loop.time() + 0.001)
        with pytest.raises(TimeoutError):
            await waiting
        order.append("timeout")

    loop.run_until_complete(main())
    assert order == ["started", "cancelled", "timeout"]


def test_wait_for_nothing_of_a_coroutine(loop: asyncio.AbstractEventLoop, order: Order) -> None:
    async def work() -> None:
        order.append("started")

    with pytest.raises(TimeoutError):
        loop.run_until_complete(asyncio.wait_for(work(), 0))
    assert order == []


@pytest.mark.parametrize("delay", [0, 0.0001, -1])
def test_timeout_around_a_task_that_has_not_started(
    loop: asyncio.AbstractEventLoop, order: Order, delay: float
) -> None:
    async def work() -> None:
        order.append("started")
        await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(work())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(delay):
                spin_until(loop, loop.time() + 0.001)
                await task
        order.append("timeout")
        assert task.cancelled()

    loop.run_until_complete(main())
    assert order == ["started", "timeout"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_an_exception_leaves_keeps_its_order(
    loop: asyncio.AbstractEventLoop, pair: Pair, order: Order, error: type[BaseException]
) -> None:
    ours, theirs = pair

    def interrupt() -> None:
        loop.call_soon(order.append, "scheduled before the exception")
        raise error

    def read() -> None:
        loop.remove_reader(ours)
        order.append("reader")

    loop.call_soon(order.append, "first")
    loop.call_soon(interrupt)
    loop.call_soon(order.append, "ready")
    loop.add_reader(ours, read)
    theirs.send(b"x")
    loop.call_later(0, order.append, "timer")
    with pytest.raises(error):
        loop.run_forever()
    assert order == ["first"]
    loop.call_soon(order.append, "scheduled between the runs")
    run_ticks(loop, 3)
    assert order == [
        "first",
        "ready",
        "reader",
        "timer",
        "scheduled before the exception",
        "scheduled between the runs",
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_an_exception_of_a_timer_leaves(
    loop: asyncio.AbstractEventLoop, order: Order, error: type[BaseException]
) -> None:
    def interrupt() -> None:
        raise error

    loop.call_later(0, order.append, "first")
    loop.call_later(0, interrupt)
    loop.call_later(0, order.append, "second")
    with pytest.raises(error):
        loop.run_forever()
    loop.call_soon(order.append, "ready")
    loop.call_later(0, order.append, "third")
    run_ticks(loop, 3)
    assert order == ["first", "second", "ready", "third"]


def test_what_stop_leaves(loop: asyncio.AbstractEventLoop, order: Order) -> None:
    """The tick of stop() runs to its end; the rest waits for the next run."""
    loop.call_soon(loop.stop)
    loop.call_soon(order.append, "beside stop")
    loop.call_later(0, order.append, "timer")
    loop.call_soon(lambda: loop.call_soon(order.append, "scheduled"))
    loop.run_forever()
    assert order == ["beside stop", "timer"]
    run_ticks(loop, 1)
    assert order == ["beside stop", "timer", "scheduled"]


CHANGES: dict[str, Callable[..., None]] = {
    "replaced": lambda loop, fd, new: loop.add_reader(fd, new),
    "removed and added": lambda loop, fd, new: (loop.remove_reader(fd), loop.add_reader(fd, new)),  # type: ignore[dict-item, return-value]
    "removed": lambda loop, fd, new: loop.remove_reader(fd),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_reader_that_is_changed_after_its_poll(
    loop: asyncio.AbstractEventLoop, pair: Pair, order: Order, change: str
) -> None:
    """Its event belongs to the old callback, which is not called any more; the new one waits for the next poll."""
    ours, theirs = pair

    def new() -> None:
        loop.remove_reader(ours)
        order.append("new")

    def act() -> None:
        order.append("act")
        loop.call_soon(order.append, "soon")
        CHANGES[change](loop, ours, new)

    loop.add_reader(ours, order.append, "old")
    theirs.send(b"x")
    loop.call_soon(act)
    loop.call_later(0, order.append, "timer")
    run_ticks(loop, 4)
    rest = [] if change == "removed" else ["new"]
    assert order == ["act", "timer", "soon", *rest]


def test_a_writer_that_is_replaced_after_its_poll(loop: asyncio.AbstractEventLoop, pair: Pair, order: Order) -> None:
    ours, _ = pair

    def new() -> None:
        loop.remove_writer(ours)
        order.append("new")

    def act() -> None:
        order.append("act")
        loop.call_soon(order.append, "soon")
        loop.add_writer(ours, new)

    loop.add_writer(ours, order.append, "old")
    loop.call_soon(act)
    run_ticks(loop, 4)
    assert order == ["act", "soon", "new"]


def test_pausing_and_resuming_after_the_poll(loop: asyncio.AbstractEventLoop, pair: Pair, order: Order) -> None:
    """As for a reader: the data comes with the next poll."""
    ours, theirs = pair

    class Noting(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            order.append("data")

    transport: Any
    transport, _ = loop.run_until_complete(loop.create_connection(Noting, sock=ours))
    run_ticks(loop, 2)

    def act() -> None:
        order.append("act")
        loop.call_soon(order.append, "soon")
        transport.pause_reading()
        transport.resume_reading()

    theirs.send(b"x")
    loop.call_soon(act)
    loop.call_later(0, order.append, "timer")
    run_ticks(loop, 4)
    assert order == ["act", "timer", "soon", "data"]
    transport.close()
    run_ticks(loop, 3)
