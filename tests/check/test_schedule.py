"""Which URL is checked when: limits of each host, of the rate, pauses that servers ask for. In virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from oneloop import testing

pytest.importorskip("pycares")

from oneloop.check import Options, Target
from oneloop.check.schedule import IDLE_WINDOWS, KEPT_HOSTS, Hold, Job, Schedule, host_of


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = testing.new_event_loop()
    try:
        loop.run_until_complete(work())
    finally:
        loop.close()


def target(number: int, host: str = "a") -> Target:
    return Target(number, f"http://{host}/{number}")


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def taken(schedule: Schedule) -> Job:
    job = await schedule.take()
    assert job is not None
    return job


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://a/b", "a"),
        ("http://A:80/b", "a:80"),
        ("http://user:p@w@a/b", "a"),
        ("https://[::1]:8/b", "[::1]:8"),
        ("http://[::1/b", "[::1"),
        ("nothing", ""),
    ],
)
def test_the_host_of_a_url(url: str, host: str) -> None:
    assert host_of(url) == host


def test_a_host_has_so_many_at_once() -> None:
    async def work() -> None:
        schedule = Schedule(Options(per_host=2), {})
        for number in range(5):
            await schedule.add(target(number))
        first, second = await taken(schedule), await taken(schedule)
        third = asyncio.create_task(taken(schedule))
        await asyncio.sleep(100)
        assert not third.done()
        schedule.done(second)
        assert [job.target.number for job in (first, second, await third)] == [0, 1, 2]

    run(work)


def test_hosts_take_turns() -> None:
    async def work() -> None:
        schedule = Schedule(Options(per_host=10), {})
        for number, host in enumerate("aaabbbccc"):
            await schedule.add(target(number, host))
        hosts = [(await taken(schedule)).host.name for _ in range(9)]
        assert hosts == list("abcabcabc")

    run(work)


def test_a_host_has_a_delay() -> None:
    async def work() -> None:
        schedule = Schedule(Options(per_host_delay_s=3), {})
        for number in range(3):
            await schedule.add(target(number))
        begun_s = []
        for _ in range(3):
            job = await taken(schedule)
            begun_s.append(now_s())
            schedule.done(job)
        assert [round(b - begun_s[0]) for b in begun_s] == [0, 3, 6]

    run(work)


def test_the_rate_holds_for_all_and_makes_up_for_nothing() -> None:
    async def work() -> None:
        schedule = Schedule(Options(rate=2, per_host=100), {})
        began_s = now_s()
        for number in range(6):
            await schedule.add(target(number, f"h{number}"))
        for number in range(4):
            await taken(schedule)
            assert now_s() - began_s >= number / 2
        assert now_s() - began_s >= 1.5
        await asyncio.sleep(100)
        begun_s = []
        for _ in range(2):
            await taken(schedule)
            begun_s.append(now_s())
        assert begun_s[1] - begun_s[0] == pytest.approx(0.5)

    run(work)


def test_after_a_pause_the_rate_is_what_it_was() -> None:
    async def work() -> None:
        schedule = Schedule(Options(rate=2), {})
        await schedule.add(target(0))
        await taken(schedule)
        await asyncio.sleep(100)
        began_s = now_s()
        for number in range(6):
            await schedule.add(target(number, f"h{number}"))
            await taken(schedule)
        # None is made up for.
        assert now_s() - began_s == pytest.approx(2.5)

    run(work)


def test_a_late_request_does_not_move_the_next() -> None:
    async def work() -> None:
        schedule = Schedule(Options(rate=10), {})
        for number in range(3):
            await schedule.add(target(number))
        await taken(schedule)
        began_s = now_s()
        await asyncio.sleep(0.15)
        await taken(schedule)
        await taken(schedule)
        assert now_s() - began_s == pytest.approx(0.2)

    run(work)


def test_slow_answers_do_not_slow_the_rate() -> None:
    """Whoever takes a job hands on to the next who waits."""

    async def work() -> None:
        schedule = Schedule(Options(rate=2), {})
        takers = [asyncio.create_task(taken(schedule)) for _ in range(4)]
        await asyncio.sleep(0)
        for number in range(4):
            await schedule.add(target(number, f"h{number}"))
        began_s = now_s()
        async with asyncio.timeout(100):
            await asyncio.gather(*takers)
        assert now_s() - began_s <= 2

    run(work)


def test_a_host_that_is_held_leaves_others_alone() -> None:
    async def work() -> None:
        schedule = Schedule(Options(), {})
        await schedule.add(target(1, "a"))
        job = await taken(schedule)
        schedule.hold(job.host, 50)
        schedule.hold(job.host, 10)
        await schedule.add(target(2, "a"))
        await schedule.add(target(3, "b"))
        assert (await taken(schedule)).target.number == 3
        began_s = now_s()
        assert (await taken(schedule)).target.number == 2
        assert 49 <= now_s() - began_s <= 51

    run(work)


def test_a_hold_that_comes_while_others_are_due() -> None:
    async def work() -> None:
        schedule = Schedule(Options(), {})
        await schedule.add(target(1))
        await schedule.add(target(2))
        job = await taken(schedule)
        schedule.hold(job.host, 50)
        began_s = now_s()
        assert (await taken(schedule)).target.number == 2
        assert now_s() - began_s >= 49

    run(work)


def test_a_host_that_wants_a_longer_pause_than_allowed_is_refused() -> None:
    async def work() -> None:
        schedule = Schedule(Options(retry_after_s=60, per_host_delay_s=5, rate=1), {})
        for number in range(4):
            await schedule.add(target(number))
        job = await taken(schedule)
        assert schedule.refused_s(job.host) == 0
        schedule.hold(job.host, 30)
        schedule.hold(job.host, 61)
        began_s = now_s()
        await asyncio.sleep(30)
        refused = [await taken(schedule) for _ in range(2)]
        # No request is sent, so neither the delay nor the rate counts.
        assert now_s() - began_s < 31
        assert [round(schedule.refused_s(job.host)) for job in refused] == [31, 31]
        assert [(host, round(held.refused_s)) for host, held in schedule.holds().items()] == [("a", 31)]
        await asyncio.sleep(40)
        assert schedule.refused_s(job.host) == 0
        assert (await taken(schedule)).target.number == 3
        assert schedule.holds()["a"] == pytest.approx((5, 0), abs=0.01)

    run(work)


def test_a_refusal_goes_on_elsewhere() -> None:
    async def work() -> None:
        schedule = Schedule(Options(retry_after_s=60), {"a": Hold(0, 61.5)})
        await schedule.add(target(1))
        job = await taken(schedule)
        assert 61 < schedule.refused_s(job.host) < 62

    run(work)


def test_hosts_that_are_held_use_up_no_rate() -> None:
    async def work() -> None:
        schedule = Schedule(Options(rate=0.1), {})
        await schedule.add(target(1, "a"))
        schedule.hold(schedule._hosts["a"], 50)
        taker = asyncio.create_task(taken(schedule))
        await asyncio.sleep(1)
        await schedule.add(target(2, "b"))
        assert (await taker).host.name == "b"
        assert now_s() < 2

    run(work)


def test_workers_that_are_idle_let_more_be_read() -> None:
    """Behind a long run of one slow host there are others."""

    async def work() -> None:
        schedule = Schedule(Options(concurrency=10, per_host=1), {})
        window = schedule._window

        async def feed() -> None:
            for number in range(3 * window):
                await schedule.add(target(number))
            await schedule.add(target(-1, "other"))

        feeder = asyncio.create_task(feed())
        first = await taken(schedule)
        await asyncio.sleep(1)
        assert schedule._pending == window, "nobody is idle"
        assert (await taken(schedule)).host.name == "other"
        await feeder
        schedule.done(first)
        assert (await taken(schedule)).host.name == "a"

    run(work)


def test_so_much_is_read_at_most() -> None:
    async def work() -> None:
        schedule = Schedule(Options(concurrency=10, per_host=1), {})

        async def feed() -> None:
            for number in range(10**9):
                await schedule.add(target(number))

        feeder = asyncio.create_task(feed())
        idle = [asyncio.create_task(taken(schedule)) for _ in range(3)]
        while schedule._pending < IDLE_WINDOWS * schedule._window:
            await asyncio.sleep(1)
        await asyncio.sleep(10)
        assert schedule._pending == IDLE_WINDOWS * schedule._window
        for task in (feeder, *idle):
            task.cancel()
        await asyncio.gather(feeder, *idle, return_exceptions=True)

    run(work)


def test_holds_go_on_elsewhere() -> None:
    async def work() -> None:
        schedule = Schedule(Options(), {})
        await schedule.add(target(1))
        schedule.hold((await taken(schedule)).host, 50)
        await asyncio.sleep(20)
        (held,) = schedule.holds().items()
        assert held[0] == "a"
        assert 29 <= held[1].wait_s <= 31
        other = Schedule(Options(), dict([held]))
        await other.add(target(2))
        began_s = now_s()
        await taken(other)
        assert now_s() - began_s >= 29

    run(work)


def test_what_waits_waits_elsewhere_and_what_is_refused_is_refused() -> None:
    """However long it still is: a host's delay may be longer than `retry_after_s`, the rest of a refusal shorter."""

    async def work() -> None:
        options = Options(retry_after_s=1, per_host_delay_s=5)
        schedule = Schedule(options, {})
        for host in "ab":
            await schedule.add(target(1, host))
            job = await taken(schedule)
        schedule.hold(job.host, 2)
        await asyncio.sleep(1.5)
        other = Schedule(options, schedule.holds())
        for host in "ab":
            await other.add(target(2, host))
        job = await taken(other)
        assert (job.host.name, round(other.refused_s(job.host), 1)) == ("b", 0.5)
        job = await taken(other)
        assert (job.host.name, other.refused_s(job.host)) == ("a", 0)

    run(work)


def test_a_job_comes_back() -> None:
    async def work() -> None:
        schedule = Schedule(Options(concurrency=1), {})
        await schedule.add(target(1))
        schedule.close()
        job = await taken(schedule)
        assert job.attempts == 1
        others = [asyncio.create_task(schedule.take()) for _ in range(3)]
        began_s = now_s()
        schedule.again(job, 7)
        again = await taken_of(others)
        assert again is job
        assert again.attempts == 2
        assert 7 <= now_s() - began_s <= 8
        schedule.done(job)
        assert await schedule.take() is None
        assert (await asyncio.gather(*others)).count(None) == 2

    async def taken_of(takers: list[asyncio.Task[Job | None]]) -> Job:
        done, _ = await asyncio.wait(takers, return_when=asyncio.FIRST_COMPLETED)
        (taker,) = done
        job = taker.result()
        assert job is not None
        # The others hear of the end.
        return job

    run(work)


def test_the_end_without_any() -> None:
    async def work() -> None:
        schedule = Schedule(Options(), {})
        takers = [asyncio.create_task(schedule.take()) for _ in range(3)]
        await asyncio.sleep(0)
        schedule.close()
        assert await asyncio.gather(*takers) == [None] * 3

    run(work)


def test_no_more_is_read_than_is_needed() -> None:
    async def work() -> None:
        schedule = Schedule(Options(concurrency=1), {})
        added = 0

        async def add() -> None:
            nonlocal added
            while added < 5000:
                await schedule.add(target(added))
                added += 1

        adding = asyncio.create_task(add())
        await asyncio.sleep(1)
        assert added == 1000
        for _ in range(10):
            schedule.done(await taken(schedule))
        await asyncio.sleep(1)
        assert added == 1010
        adding.cancel()

    run(work)


def test_a_taker_that_is_cancelled_loses_no_job() -> None:
    async def work() -> None:
        schedule = Schedule(Options(), {})
        first, second = (asyncio.create_task(schedule.take()) for _ in range(2))
        await asyncio.sleep(0)
        await schedule.add(target(1))
        # Woken already.
        first.cancel()
        job = await second
        assert job is not None
        assert job.target.number == 1

    run(work)


def test_hosts_are_forgotten_but_none_that_is_needed() -> None:
    async def work() -> None:
        schedule = Schedule(Options(), {})
        await schedule.add(target(0, "resting"))
        resting = await taken(schedule)
        schedule.again(resting, 10_000)
        await schedule.add(target(0, "held"))
        held = await taken(schedule)
        schedule.hold(held.host, 10_000)
        schedule.done(held)
        await schedule.add(target(0, "busy"))
        await taken(schedule)
        for number in range(3 * KEPT_HOSTS):
            await schedule.add(target(number, f"h{number}"))
            schedule.done(await taken(schedule))
        assert len(schedule._hosts) <= 2 * KEPT_HOSTS + 3
        assert {"resting", "held", "busy"} <= set(schedule._hosts)
        assert schedule._hosts["resting"] is resting.host

    run(work)


def test_stop_leaves_what_was_not_begun() -> None:
    async def work() -> None:
        schedule = Schedule(Options(per_host=1), {})
        for number, host in enumerate(["a", "a", "b", "c", "c"]):
            await schedule.add(target(number, host))
        schedule.close()
        first, second, third = [await taken(schedule) for _ in range(3)]
        assert [job.target.number for job in (first, second, third)] == [0, 2, 3]
        schedule.hold(third.host, 1000)
        schedule.again(first, 5)
        schedule.done(second)
        schedule.stop()
        await schedule.add(target(9, "d"))
        assert sorted(left.number for left in schedule.rest) == [1, 4, 9]
        # What was begun with is tried again, whatever came meanwhile.
        assert await schedule.take() is first
        schedule.done(first)
        last = asyncio.create_task(schedule.take())
        await asyncio.sleep(10)
        assert not last.done()
        schedule.done(third)
        assert await last is None
        assert list(schedule.holds()) == ["c"]

    run(work)


def test_what_comes_sooner_is_not_kept_waiting() -> None:
    async def work() -> None:
        schedule = Schedule(Options(), {"held": Hold(50, 0)})
        await schedule.add(target(1, "held"))
        await schedule.add(target(2, "b"))
        job = await taken(schedule)
        began_s = now_s()
        schedule.again(job, 5)
        assert await taken(schedule) is job
        assert 5 <= now_s() - began_s <= 6

    run(work)


def test_a_host_is_forgotten_after_its_retries() -> None:
    async def work() -> None:
        schedule = Schedule(Options(), {})
        for number in range(4 * KEPT_HOSTS):
            await schedule.add(target(number, f"h{number}"))
            schedule.again(await taken(schedule), 0)
            schedule.done(await taken(schedule))
        assert len(schedule._hosts) <= 2 * KEPT_HOSTS

    run(work)


def test_pauses_end_in_their_order_after_a_stop() -> None:
    """Hosts that have nothing to do any more leave the order; the others stay in theirs."""

    async def work() -> None:
        schedule = Schedule(Options(), {"x": Hold(1, 0), "y": Hold(2, 0)})
        for number, host in enumerate("abcde"):
            await schedule.add(target(number, host))
        a, b, c, d, e = [await taken(schedule) for _ in range(5)]
        await schedule.add(target(5, "x"))
        schedule.again(a, 5)
        await schedule.add(target(6, "y"))
        for job, delay_s in ((b, 6), (c, 7), (d, 3), (e, 4)):
            schedule.again(job, delay_s)
        schedule.stop()
        assert [(await taken(schedule)) for _ in range(5)] == [d, e, a, b, c]

    run(work)


def test_a_stop_wakes_who_adds() -> None:
    async def work() -> None:
        schedule = Schedule(Options(concurrency=1), {})
        for number in range(1000):
            await schedule.add(target(number))
        adding = asyncio.create_task(schedule.add(target(1000)))
        await asyncio.sleep(0)
        assert not adding.done()
        schedule.stop()
        await adding
        await schedule.add(target(1001))
        assert sorted(left.number for left in schedule.rest) == list(range(1002))

    run(work)


def test_a_taker_that_was_just_cancelled_is_not_woken() -> None:
    async def work() -> None:
        schedule = Schedule(Options(), {})
        first, second = [asyncio.create_task(schedule.take()) for _ in range(2)]
        await asyncio.sleep(0)
        first.cancel()
        # Without a turn of the loop: it has not heard of it yet.
        await schedule.add(target(1))
        job = await second
        assert job is not None
        assert job.target.number == 1

    run(work)


def test_a_hold_that_is_over_is_none() -> None:
    async def work() -> None:
        schedule = Schedule(Options(), {"a": Hold(5, 5), "b": Hold(20, 0)})
        await asyncio.sleep(10)
        assert schedule.holds() == {"b": (10, 0)}

    run(work)
