"""Groups and pools: members, room, join and kill, and the results of mapped functions."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Iterator
from typing import Any

import greenlet
import pytest

from oneloop import green
from oneloop.green.bridge import run_green
from oneloop.green.event import Event
from oneloop.green.exceptions import BlockingSwitchOutError
from oneloop.green.pool import Group, Pool, PoolFull

MAKERS = [Group, lambda: Pool(2), Pool]


@pytest.fixture(params=MAKERS, ids=["group", "pool-of-2", "pool"])
def group(request: pytest.FixtureRequest) -> Group:
    make: Callable[[], Group] = request.param
    return make()


def forever() -> None:
    Event().wait(1000)


def square(number: int) -> int:
    green.sleep(0)
    return number * number


def fail(number: int) -> int:
    if number == 1:
        raise ValueError(number)
    return number


def settle() -> None:
    for _ in range(5):
        green.sleep(0)


# -- members of a group --------------------------------------------------------------------------------


def test_green_threads_leave_when_they_have_ended(group: Group) -> None:
    one = group.spawn(square, 3)
    assert (one in group, len(group), list(group)) == (True, 1, [one])
    assert group.join()
    assert (one in group, len(group), bool(group)) == (False, 0, False)
    assert one.value == 9


def test_a_group_begins_with_green_threads() -> None:
    ones = [green.spawn(square, n) for n in range(3)]
    group = Group(ones)
    assert set(group) == set(ones)
    assert group.join()
    with pytest.raises(TypeError):
        Group([], [])


def test_one_that_is_discarded_runs_on(group: Group) -> None:
    one = group.spawn(square, 2)
    group.discard(one)
    group.discard(one)
    assert one not in group
    assert group.join()
    assert one.get() == 4


def test_one_that_has_ended_does_not_stay(group: Group) -> None:
    one = green.spawn(square, 2)
    one.join()
    group.add(one)
    assert group.join()
    assert len(group) == 0


def test_a_raw_greenlet_stays_until_it_is_discarded() -> None:
    group = Group()
    raw = greenlet.greenlet(lambda: None)
    group.add(raw)
    assert raw in group
    group.discard(raw)
    assert group.join()


def test_greenlet_class() -> None:
    class Special(green.Greenlet):
        pass

    class SpecialGroup(Group):
        greenlet_class = Special

    for group in (SpecialGroup(), Pool(1, Special)):
        assert type(group.spawn(square, 1)) is Special
        assert group.join()


def test_start_takes_in_what_was_not_started(group: Group) -> None:
    one = green.Greenlet(square, 4)
    group.start(one)
    assert one in group
    assert one.get() == 16


# -- join and kill -------------------------------------------------------------------------------------


def test_join_tells_whether_the_group_was_empty(group: Group) -> None:
    assert group.join(timeout=0)
    group.spawn(forever)
    assert group.join(timeout=0.001) is False
    group.kill()
    assert group.join(timeout=0)


def test_join_raises_what_one_has_raised(group: Group) -> None:
    group.spawn(fail, 1)
    with pytest.raises(ValueError, match="1"):
        group.join(raise_error=True)
    group.spawn(fail, 1)
    assert group.join()


@pytest.mark.parametrize("method", ["join", "kill"])
def test_a_timeout_leaves_the_wait(group: Group, method: str) -> None:
    group.spawn(stubborn)
    green.sleep(0)
    with pytest.raises(green.Timeout):
        with green.Timeout(0.001):
            getattr(group, method)()
    group.kill()


def stubborn() -> None:
    """Ends only after the second kill."""
    try:
        forever()
    except green.GreenletExit:
        green.sleep(0.05)


def test_a_killed_joiner_leaves_the_group_alone(group: Group) -> None:
    one = group.spawn(forever)
    joiner = green.spawn(group.join)
    green.sleep(0)
    joiner.kill()
    assert isinstance(joiner.value, green.GreenletExit)
    assert one in group
    group.kill()


def test_kill_ends_all_also_those_that_have_not_begun(group: Group) -> None:
    ones = [group.spawn(forever) for _ in range(2)]
    group.kill()
    assert len(group) == 0
    assert all(isinstance(one.value, green.GreenletExit) for one in ones)
    assert group.spawn(square, 2).get() == 4


def test_kill_gives_up_silently_when_the_time_is_up(group: Group) -> None:
    one = group.spawn(stubborn)
    green.sleep(0)
    group.kill(timeout=0)
    assert one in group
    assert group.join()


def test_kill_takes_those_that_come_meanwhile() -> None:
    group = Group()

    def heir() -> None:
        try:
            forever()
        finally:
            group.spawn(forever)

    group.spawn(heir)
    green.sleep(0)
    group.kill()
    assert len(group) == 0


def test_kill_with_an_exception_and_without_waiting(group: Group) -> None:
    one = group.spawn(forever)
    green.sleep(0)
    group.kill(KeyError("mine"), block=False)
    assert one in group
    assert group.join()
    assert isinstance(one.exception, KeyError)


def test_killone(group: Group) -> None:
    one, other = group.spawn(forever), group.spawn(forever)
    green.sleep(0)
    group.killone(one)
    assert one.dead
    assert list(group) == [other]
    stranger = green.spawn(square, 2)
    group.killone(stranger)
    assert stranger.get() == 4
    group.killone(other, block=False)
    assert group.join()


def test_a_member_that_kills_its_group_ends_too(group: Group) -> None:
    other = group.spawn(forever)
    mine = group.spawn(group.kill)
    assert group.join()
    assert isinstance(other.value, green.GreenletExit)
    assert isinstance(mine.value, green.GreenletExit)


# -- room ----------------------------------------------------------------------------------------------


def test_a_group_has_always_room() -> None:
    group = Group()
    assert group.full() is False
    assert group.wait_available() is None


def test_room_of_a_pool() -> None:
    pool = Pool(2)
    assert (pool.free_count(), pool.full(), pool.wait_available()) == (2, False, 2)
    one = pool.spawn(forever)
    pool.spawn(forever)
    assert (pool.free_count(), pool.full(), pool.wait_available(timeout=0.001)) == (0, True, 0)
    pool.killone(one)
    assert pool.wait_available() == 1
    pool.kill()
    assert pool.free_count() == 2
    assert (Pool().free_count(), Pool().full(), Pool().wait_available()) == (1, False, 1)


def test_the_size_is_not_negative() -> None:
    with pytest.raises(ValueError, match="size must not be negative: -1"):
        Pool(-1)


def test_spawn_waits_for_room() -> None:
    pool = Pool(1)
    running: list[int] = []
    most = 0

    def work(number: int) -> int:
        nonlocal most
        running.append(number)
        most = max(most, len(running))
        green.sleep(0)
        running.remove(number)
        return number

    ones = [pool.spawn(work, n) for n in range(5)]
    assert pool.join()
    assert [one.value for one in ones] == list(range(5))
    assert most == 1


def test_a_full_pool_may_be_asked_not_to_wait() -> None:
    pool = Pool(1)
    pool.spawn(forever)
    one = green.Greenlet(square, 2)
    with pytest.raises(PoolFull) as raised:
        pool.add(one, blocking=False)
    assert isinstance(raised.value, queue.Full)
    with pytest.raises(PoolFull):
        pool.start(one, timeout=0.001)
    assert one not in pool
    pool.kill()
    pool.start(one)
    assert one.get() == 4
    assert pool.free_count() == 1


def test_a_pool_of_none_never_has_room() -> None:
    with pytest.raises(green.Timeout):
        with green.Timeout(0.001):
            Pool(0).spawn(square, 1)


def test_who_is_killed_while_it_waits_takes_no_room() -> None:
    pool = Pool(1)
    one = pool.spawn(forever)
    waiting = green.spawn(pool.spawn, forever)
    green.sleep(0)
    # The place was given to the waiting green thread before it is killed.
    one.kill(block=False)
    waiting.kill()
    assert pool.join()
    assert pool.free_count() == 1


def test_room_is_given_back_once() -> None:
    pool = Pool(2)
    one = green.Greenlet(square, 2)
    pool.add(one)
    pool.add(one)
    assert pool.free_count() == 1
    pool.discard(one)
    pool.discard(one)
    one.start()
    one.join()
    settle()
    assert pool.free_count() == 2


# -- calls ---------------------------------------------------------------------------------------------


def test_apply(group: Group) -> None:
    assert group.apply(square, (3,)) == 9
    assert group.apply(int, ("11",), {"base": 2}) == 3
    with pytest.raises(ValueError, match="1"):
        group.apply(fail, (1,))


def test_apply_by_a_member_calls_right_there() -> None:
    pool = Pool(1)
    assert pool.spawn(lambda: (pool.apply(square, (3,)), pool.map(square, [1, 2]))).get() == (9, [1, 4])


def test_apply_async_never_waits() -> None:
    pool = Pool(1)
    one = pool.spawn(forever)
    got: list[int] = []
    later = pool.apply_async(square, (2,), callback=got.append)
    assert later not in pool
    one.kill()
    assert later.get() == 4
    at_once = pool.apply_async(square, (3,), callback=got.append)
    assert at_once in pool
    assert at_once.get() == 9
    settle()
    assert got == [4, 9]


def test_the_callback_is_not_called_for_a_failure(group: Group) -> None:
    got: list[int] = []
    with pytest.raises(ValueError, match="1"):
        group.apply_async(fail, (1,), callback=got.append).get()
    with pytest.raises(ValueError, match="1"):
        group.apply_cb(fail, (1,), callback=got.append)
    settle()
    assert got == []


def test_callbacks(group: Group) -> None:
    got: list[Any] = []
    assert group.apply_cb(square, (2,), callback=got.append) == 4
    assert group.map_cb(square, [1, 2], got.append) == [1, 4]
    assert group.map_async(square, [3], got.append).get() == [9]
    settle()
    assert got == [4, [1, 4], [9]] or got == [[1, 4], 4, [9]]


# -- maps ----------------------------------------------------------------------------------------------


def test_map_keeps_the_order(group: Group) -> None:
    def late(number: int) -> int:
        green.sleep(0.002 * (3 - number))
        return number

    assert group.map(late, range(3)) == [0, 1, 2]
    assert list(group.imap(late, range(3))) == [0, 1, 2]
    assert sorted(group.imap_unordered(late, range(3))) == [0, 1, 2]


def test_map_raises_what_the_first_has_raised(group: Group) -> None:
    with pytest.raises(ValueError, match="1"):
        group.map(fail, [0, 1, 2])


def test_imap_takes_several_iterables(group: Group) -> None:
    assert list(group.imap(pow, [2, 3], [3, 2, 1])) == [8, 9]
    assert list(group.imap(square, [])) == []
    with pytest.raises(TypeError):
        group.imap(square, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        group.imap(square, [1], size=3)


def test_unordered_results_come_as_they_are_ready() -> None:
    gates = [Event(), Event()]

    def gated(number: int) -> int:
        gates[number].wait()
        return number

    results = Group().imap_unordered(gated, [0, 1])
    gates[1].set()
    assert next(results) == 1
    gates[0].set()
    assert next(results) == 0
    assert list(results) == []


@pytest.mark.parametrize("method", ["imap", "imap_unordered"])
def test_the_iteration_goes_on_after_an_exception(group: Group, method: str) -> None:
    results = getattr(group, method)(fail, [0, 1, 2])
    assert next(results) == 0
    with pytest.raises(ValueError, match="1"):
        next(results)
    assert next(results) == 2
    # gevent would block at the second call.
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(results)


@pytest.mark.parametrize("method", ["imap", "imap_unordered"])
def test_an_exception_of_the_items_comes_last(group: Group, method: str) -> None:
    def items() -> Iterator[int]:
        yield 2
        yield 3
        raise KeyError("items")

    results = getattr(group, method)(square, items())
    assert sorted([next(results), next(results)]) == [4, 9]
    with pytest.raises(KeyError):
        next(results)
    with pytest.raises(StopIteration):
        next(results)


@pytest.mark.parametrize("method", ["imap", "imap_unordered"])
def test_stop_iteration_of_a_function_does_not_end_the_iteration(method: str) -> None:
    def stop(_: int) -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        next(getattr(Group(), method)(stop, [1]))


@pytest.mark.parametrize("method", ["imap", "imap_unordered"])
def test_maxsize_bounds_what_is_not_read(group: Group, method: str) -> None:
    started: list[int] = []

    def work(number: int) -> int:
        started.append(number)
        return number

    results = getattr(group, method)(work, range(10), maxsize=2)
    settle()
    assert started == [0, 1]
    assert next(results) == 0
    settle()
    assert started == [0, 1, 2]
    assert list(results) == list(range(1, 10))


@pytest.mark.parametrize("method", ["imap", "imap_unordered"])
@pytest.mark.parametrize("items", [2, 10], ids=["all-started", "more-to-start"])
def test_a_killed_imap_leaves_nothing_running(method: str, items: int) -> None:
    pool = Pool(2)
    ended: list[int] = []

    def work(number: int) -> None:
        try:
            forever()
        finally:
            ended.append(number)

    results = getattr(pool, method)(work, range(items))
    settle()
    reader = green.spawn(list, results)
    settle()
    results.kill()
    assert sorted(ended) == [0, 1]
    assert reader.get() == []
    assert pool.join()
    assert pool.free_count() == 2
    results.kill()
    assert list(results) == []


@pytest.mark.parametrize("method", ["imap", "imap_unordered"])
def test_an_imap_is_killed_before_it_begins(method: str) -> None:
    results = getattr(Group(), method)(square, [1])
    results.kill()
    assert list(results) == []


@pytest.mark.parametrize("method", ["imap", "imap_unordered"])
def test_an_imap_is_killed_with_an_exception(method: str) -> None:
    group = Group()
    results = getattr(group, method)(forever_with, [1, 2], maxsize=1)
    settle()
    results.kill(KeyError("mine"))
    assert len(group) == 0
    with pytest.raises(KeyError):
        next(results)
    with pytest.raises(StopIteration):
        next(results)


def forever_with(_: int) -> None:
    forever()


def test_a_green_thread_thrown_into_kills_its_calls() -> None:
    group = Group()
    results = group.imap(forever_with, [1, 2], maxsize=1)
    settle()
    green.get_hub().throw_soon(results, green.GreenletExit())
    assert list(results) == []
    assert group.join()


def test_a_call_that_kills_its_imap_goes_on() -> None:
    group = Group()
    done: list[int] = []

    def work(number: int) -> None:
        green.sleep(0)
        results.kill()
        green.sleep(0)
        done.append(number)

    results = group.imap(work, [7])
    assert list(results) == []
    assert group.join()
    assert done == [7]


@pytest.mark.parametrize("method", ["imap", "imap_unordered"])
def test_a_reader_that_is_thrown_out_loses_nothing(method: str) -> None:
    gate = Event()

    def gated(number: int) -> int:
        gate.wait()
        return number

    results = getattr(Group(), method)(gated, [1, 2])
    with pytest.raises(green.Timeout):
        with green.Timeout(0.001):
            next(results)
    killed = green.spawn(next, results)
    other = green.spawn(next, results)
    settle()
    killed.kill(block=False)
    gate.set()
    assert sorted([other.get(), next(results)]) == [1, 2]
    assert list(results) == []


def test_a_killed_call_gives_its_exit() -> None:
    group = Group()
    results = group.imap(forever_with, [1])
    settle()
    group.kill()
    assert isinstance(next(results), green.GreenletExit)


# -- in coroutines -------------------------------------------------------------------------------------


async def test_in_a_coroutine_what_would_block_is_an_error() -> None:
    pool = Pool(1)
    one = pool.spawn(forever)
    # It has begun: to kill it takes time.
    await asyncio.sleep(0)
    results = Group().imap(square, [3])
    waits: list[Callable[[], object]] = [
        pool.join,
        pool.kill,
        pool.wait_available,
        lambda: pool.spawn(square, 1),
        lambda: pool.map(square, [1]),
        lambda: pool.apply(square, (1,)),
        lambda: next(results),
    ]
    for wait in waits:
        with pytest.raises(BlockingSwitchOutError):
            wait()
    with pytest.raises(PoolFull):
        pool.add(green.Greenlet(square, 1), blocking=False)
    pool.kill(block=False)
    await one_ended(one)
    await asyncio.sleep(0)
    assert pool.wait_available() == 1
    assert await pool.spawn(square, 3) == 9
    assert await run_green(list, results) == [9]


async def one_ended(one: green.Greenlet) -> None:
    with pytest.raises(BaseException):  # noqa: B017, PT011 - CancelledError: it has ended with GreenletExit
        await one
