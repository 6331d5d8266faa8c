"""call_later and call_at: order, deadlines, handles, cancelling, bad arguments."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import math
import random
import weakref
from typing import Any

import pytest

import oneloop


def test_timers_fire_in_deadline_order(loop: asyncio.AbstractEventLoop) -> None:
    """Deadlines a few microseconds apart, scheduled in random order, some of them past."""
    order = list(range(300))
    random.Random(7).shuffle(order)
    fired: list[int] = []
    start = loop.time() - 0.0005
    for number in order:
        loop.call_at(start + number * 5e-6, fired.append, number)
    loop.call_at(start + 0.01, loop.stop)
    loop.run_forever()
    assert fired == sorted(order)


@pytest.mark.oneloop_only("stock asyncio treats timers within the clock's resolution as equal: heap order")
def test_equal_deadlines_fire_in_the_order_of_their_calls(loop: asyncio.AbstractEventLoop) -> None:
    fired: list[int] = []
    when = loop.time() + 0.002
    for number in range(200):
        loop.call_at(when, fired.append, number)
    loop.call_at(when, loop.stop)
    loop.run_forever()
    assert fired == list(range(200))


@pytest.mark.oneloop_only("stock asyncio adds the clock's resolution to its end time, and rounds its wait")
def test_timers_are_never_early(loop: asyncio.AbstractEventLoop) -> None:
    early: list[float] = []

    def check(when: float) -> None:
        now = loop.time()
        if now < when:
            early.append(when - now)

    delays = [0.0, 1e-7, 1e-6, 1e-5, 1e-4, 0.00049, 0.0005, 0.00051, 0.001, 0.0011, 0.00149, 0.0015, 0.002, 0.0101]
    for delay in delays * 5:
        when = loop.time() + delay
        loop.call_at(when, check, when)
        handle = loop.call_later(delay, lambda: None)
        assert handle.when() >= when
    loop.call_later(0.02, loop.stop)
    loop.run_forever()
    assert early == []


def test_each_timer_alone_wakes_the_loop(loop: asyncio.AbstractEventLoop) -> None:
    for delay in (0, 1e-9, 1e-6, 1e-4, 0.001):
        start = loop.time()
        loop.call_later(delay, loop.stop)
        loop.run_forever()
        assert loop.time() >= start


def test_when_and_repr(loop: asyncio.AbstractEventLoop) -> None:
    before = loop.time()
    handle = loop.call_later(100, print)
    assert before + 100 <= handle.when() <= loop.time() + 100
    assert loop.call_at(12345.5, print).when() == 12345.5
    assert "when=" in repr(handle)
    handle.cancel()
    assert handle.cancelled()
    assert "cancelled" in repr(handle)


def test_timer_handles_compare_by_deadline(loop: asyncio.AbstractEventLoop) -> None:
    now = loop.time()
    sooner, later = loop.call_at(now + 100, print), loop.call_at(now + 200, print)
    assert sooner < later
    assert later >= sooner
    assert sooner == sooner
    assert sooner != later
    assert len({sooner, later}) == 2
    assert sooner.__eq__(1) is NotImplemented


def test_cancelled_timers_do_not_fire(loop: asyncio.AbstractEventLoop) -> None:
    handles = [loop.call_later(0.001, pytest.fail, "cancelled, but fired") for _ in range(100)]
    for handle in handles:
        handle.cancel()
        handle.cancel()
    loop.call_later(0.003, loop.stop)
    loop.run_forever()


@pytest.mark.parametrize("delay_s", [0, 1, 1e9])
def test_a_cancelled_timer_keeps_its_context(loop: asyncio.AbstractEventLoop, delay_s: float) -> None:
    context = contextvars.copy_context()
    handle = loop.call_later(delay_s, print, context=context)
    handle.cancel()
    loop.run_until_complete(asyncio.sleep(0.001))
    get_context = getattr(handle, "get_context", None)  # Python 3.12
    if get_context is not None:
        assert get_context() is context
    assert not handle._scheduled  # type: ignore[attr-defined]


def test_a_cancelled_timer_that_refers_to_itself_is_collected(loop: asyncio.AbstractEventLoop) -> None:
    variable: contextvars.ContextVar[object] = contextvars.ContextVar("variable")
    context = contextvars.Context()
    handle = loop.call_later(1000, print, context=context)
    context.run(variable.set, handle)
    gone = weakref.ref(handle)
    handle.cancel()
    loop.run_until_complete(asyncio.sleep(0.001))
    loop.close()
    del handle, context
    gc.collect()
    assert gone() is None


def test_a_timer_cancels_one_that_is_due_too(loop: asyncio.AbstractEventLoop) -> None:
    handles: list[asyncio.TimerHandle] = []
    when = loop.time()
    loop.call_at(when - 2, lambda: handles[0].cancel())  # noqa: PLW0108 - filled below
    handles.append(loop.call_at(when - 1, pytest.fail, "cancelled by the timer before, but fired"))
    loop.call_at(when, loop.stop)
    loop.run_forever()


def test_a_handle_can_be_cancelled_after_it_fired(loop: asyncio.AbstractEventLoop) -> None:
    handle = loop.call_later(0, loop.stop)
    loop.run_forever()
    handle.cancel()
    assert handle.cancelled()
    loop.run_until_complete(asyncio.sleep(0))


def test_timers_outlive_the_loop(loop: asyncio.AbstractEventLoop) -> None:
    handle = loop.call_later(1000, print)
    loop.close()
    handle.cancel()
    assert handle.cancelled()


def test_many_cancelled_timers_hold_no_callbacks(loop: asyncio.AbstractEventLoop) -> None:
    class Callback:
        count = 0

        def __init__(self) -> None:
            Callback.count += 1

        def __del__(self) -> None:
            Callback.count -= 1

        def __call__(self) -> None: ...

    for _ in range(20):
        handles = [loop.call_later(1000, Callback()) for _ in range(1000)]
        for handle in handles:
            handle.cancel()
        handles.clear()
        loop.run_until_complete(asyncio.sleep(0))
    del handle
    gc.collect()
    assert Callback.count == 0


class Counted:
    """What a timer's context keeps alive."""

    count = 0
    most = 0

    def __init__(self) -> None:
        Counted.count += 1
        Counted.most = max(Counted.most, Counted.count)

    def __del__(self) -> None:
        Counted.count -= 1


counted: contextvars.ContextVar[Counted] = contextvars.ContextVar("counted")


def cancelled_timer(loop: asyncio.AbstractEventLoop, delay_s: float) -> None:
    context = contextvars.Context()
    context.run(counted.set, Counted())
    loop.call_later(delay_s, print, context=context).cancel()


@pytest.mark.parametrize("debug", [False, True])
def test_cancelled_timers_leave_when_nothing_is_ready(loop: asyncio.AbstractEventLoop, debug: bool) -> None:
    loop.set_debug(debug)
    kept = [loop.call_later(500 + n / 10, print) for n in range(1000)]
    for n in range(5000):
        cancelled_timer(loop, 100 + n * 7919 % 5000)
    loop.run_until_complete(asyncio.sleep(0.05))
    gc.collect()
    assert Counted.count <= 1100, "at most as many as are alive, and a few"
    if isinstance(loop, oneloop.Loop):
        assert loop.statistics().timers_pending == 1000
    for handle in kept:
        handle.cancel()
    loop.run_until_complete(asyncio.sleep(0.05))
    assert Counted.count <= 110
    loop.close()
    gc.collect()
    assert Counted.count == 0


@pytest.mark.oneloop_only("asyncio looks through all its timers once a tick")
@pytest.mark.parametrize("debug", [False, True])
def test_a_cancelled_timer_is_freed_at_once(loop: asyncio.AbstractEventLoop, debug: bool) -> None:
    """In one tick, so that nothing but `cancel()` can have freed them."""
    loop.set_debug(debug)
    Counted.most = 0

    def flood() -> None:
        for n in range(20_000):
            cancelled_timer(loop, n * 7919 % 1000 + 10)

    loop.call_soon(flood)
    loop.call_soon(loop.stop)
    loop.run_forever()
    gc.collect()
    assert Counted.most <= 2
    loop.close()
    gc.collect()
    assert Counted.count == 0


def test_a_timer_set_by_a_timer_fires(loop: asyncio.AbstractEventLoop) -> None:
    def again(left: int) -> None:
        if left:
            loop.call_later(0, again, left - 1)
        else:
            loop.stop()

    loop.call_later(0, again, 200)
    loop.run_forever()


def test_zero_delay_timers_do_not_starve_io(loop: asyncio.AbstractEventLoop) -> None:
    import socket

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)

        timers: list[asyncio.TimerHandle] = []

        def again() -> None:
            timers[:] = [loop.call_later(0, again)]

        again()
        loop.add_reader(ours, loop.stop)
        theirs.send(b"x")
        loop.run_forever()
        loop.remove_reader(ours)
        timers[0].cancel()


@pytest.mark.parametrize("delay", [None, "1", object()])
def test_what_is_not_a_delay(loop: asyncio.AbstractEventLoop, delay: Any) -> None:
    with pytest.raises(TypeError):
        loop.call_later(delay, print)


@pytest.mark.parametrize("when", [None])
def test_what_is_not_a_time(loop: asyncio.AbstractEventLoop, when: Any) -> None:
    with pytest.raises(TypeError, match="when cannot be None"):
        loop.call_at(when, print)


@pytest.mark.parametrize("delay", [1, 1.0, True, 10**6, 1e12])
def test_what_is_a_delay(loop: asyncio.AbstractEventLoop, delay: Any) -> None:
    handle = loop.call_later(delay, pytest.fail, "fired")
    assert handle.when() > loop.time()
    loop.run_until_complete(asyncio.sleep(0))
    handle.cancel()


def test_an_infinite_delay_never_fires(loop: asyncio.AbstractEventLoop) -> None:
    handle = loop.call_later(math.inf, pytest.fail, "fired")
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    handle.cancel()


@pytest.mark.parametrize("delay", [-1, -1e9, -0.0, -math.inf])
def test_past_deadlines_are_due_at_once(loop: asyncio.AbstractEventLoop, delay: float) -> None:
    loop.call_later(delay, loop.stop)
    loop.run_forever()


def test_time_is_monotonic(loop: asyncio.AbstractEventLoop) -> None:
    import time

    before = time.monotonic()
    assert before <= loop.time() <= time.monotonic()


def test_sleep_returns_its_result(loop: asyncio.AbstractEventLoop) -> None:
    assert loop.run_until_complete(asyncio.sleep(0.001, "done")) == "done"
    assert loop.run_until_complete(asyncio.sleep(-1, "done")) == "done"


def test_timeouts_cancel_what_they_bound(loop: asyncio.AbstractEventLoop) -> None:
    async def wait() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await loop.create_future()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.create_future(), 0.001)

    loop.run_until_complete(wait())
