"""Queues, semaphores and events that coroutines and green threads use at once: hostile company, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green.event import Event
from oneloop.green.lock import BoundedSemaphore, Semaphore
from oneloop.green.queue import Channel, Empty, Full, JoinableQueue, LifoQueue, PriorityQueue, Queue, SimpleQueue

ITEMS = 10_000
STEPS = 12

Make = Callable[[], Any]
QUEUES: list[Any] = [
    pytest.param(lambda: Queue(), id="endless"),
    pytest.param(lambda: Queue(1), id="one"),
    pytest.param(lambda: Queue(7), id="seven"),
    pytest.param(lambda: SimpleQueue(), id="simple"),
    pytest.param(lambda: Channel(), id="channel"),
    pytest.param(lambda: LifoQueue(3), id="lifo"),
    pytest.param(lambda: PriorityQueue(3), id="priority"),
    pytest.param(lambda: JoinableQueue(3), id="joinable"),
]


def run_on_facade(main: Coroutine[Any, Any, Any]) -> Any:
    return green.spawn(green.run, main).get()


@pytest.fixture(params=[oneloop.run, run_on_facade], ids=["loop", "facade"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    chosen: Callable[[Coroutine[Any, Any, Any]], Any] = request.param
    return chosen


def spawned(is_green: bool, blocking: Callable[[], object], awaiting: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """A green thread, or a task."""
    return green.spawn(blocking) if is_green else asyncio.ensure_future(awaiting())


def end(one: Any) -> None:
    if isinstance(one, asyncio.Task):
        one.cancel()
    else:
        one.kill(block=False)


async def ended(one: Any) -> None:
    try:
        await one
    except asyncio.CancelledError:
        return


def is_over(one: Any) -> bool:
    over: bool = one.done() if isinstance(one, asyncio.Task) else one.ready()
    return over


# -- items -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [QUEUES[1], QUEUES[4]])
def test_items_alternate(make: Make, run: Any) -> None:
    """There and back: from a coroutine to a green thread, and on to a coroutine."""

    async def main() -> None:
        there, back = make(), make()

        def passes_on() -> None:
            for _ in range(ITEMS // 2):
                back.put(there.get())

        passing = green.spawn(passes_on)
        for number in range(ITEMS // 2):
            await there.put(number)
            assert await back.get() == number
        await passing

    run(main())


@pytest.mark.parametrize("make", QUEUES)
def test_all_items_arrive(make: Make, run: Any) -> None:
    async def main() -> None:
        queue, got = make(), Counter[int]()
        count = ITEMS // 20

        def puts(number: int) -> Any:
            def blocking() -> None:
                for step in range(count):
                    queue.put(number * count + step)

            async def awaiting() -> None:
                for step in range(count):
                    await queue.put(number * count + step)

            return spawned(number % 2 == 0, blocking, awaiting)

        def gets(number: int) -> Any:
            def blocking() -> None:
                for _ in range(count):
                    got[queue.get()] += 1

            async def awaiting() -> None:
                for _ in range(count):
                    got[await queue.get()] += 1

            return spawned(number % 2 == 0, blocking, awaiting)

        await asyncio.gather(*(puts(number) for number in range(4)), *(gets(number) for number in range(4)))
        assert got == Counter(range(4 * count))

    run(main())


def test_both_get_their_share(run: Any) -> None:
    async def main() -> None:
        queue, got = Queue[int](1), Counter[str]()

        def gets() -> None:
            while queue.get() >= 0:
                got["green"] += 1

        async def awaits() -> None:
            while await queue.get() >= 0:
                got["coroutine"] += 1

        getting = [green.spawn(gets), asyncio.ensure_future(awaits())]
        for number in range(2000):
            await queue.put(number)
        for _ in getting:
            await queue.put(-1)
        await asyncio.gather(*getting)
        assert got["green"] + got["coroutine"] == 2000
        assert min(got.values()) > 600, got

    run(main())


# -- ended at each step ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_green", [True, False], ids=["green", "coroutine"])
@pytest.mark.parametrize("make", QUEUES)
def test_an_ended_getter_loses_nothing(make: Make, is_green: bool, run: Any) -> None:
    async def main() -> None:
        for step in range(STEPS):
            queue, got, put = make(), Counter[int](), Counter[int]()

            def blocking(queue: Any = queue, got: Counter[int] = got) -> None:
                while True:
                    got[queue.get()] += 1

            async def awaiting(queue: Any = queue, got: Counter[int] = got) -> None:
                while True:
                    got[await queue.get()] += 1

            async def puts(queue: Any = queue, put: Counter[int] = put) -> None:
                for number in range(20):
                    await queue.put(number)
                    put[number] += 1

            victims = [spawned(is_green, blocking, awaiting) for _ in range(2)]
            putting = asyncio.ensure_future(puts())
            for _ in range(step):
                await asyncio.sleep(0)
            for victim in victims:
                end(victim)
            for victim in victims:
                await ended(victim)
            last = spawned(not is_green, blocking, awaiting)
            await putting
            while sum(got.values()) < 20:
                await asyncio.sleep(0)
            end(last)
            await ended(last)
            assert got == put == Counter(range(20))

    run(main())


@pytest.mark.parametrize("is_green", [True, False], ids=["green", "coroutine"])
@pytest.mark.parametrize("make", QUEUES)
def test_an_ended_putter_loses_nothing(make: Make, is_green: bool, run: Any) -> None:
    """What it has been told was put arrives once. What it was ended with does not, save through a channel, whose getter
    may have had it in that moment.
    """

    async def main() -> None:
        for step in range(STEPS):
            queue, got, put = make(), Counter[int](), Counter[int]()

            def blocking(first: int, queue: Any = queue, put: Counter[int] = put) -> None:
                for number in range(first, first + 10):
                    queue.put(number)
                    put[number] += 1

            async def awaiting(first: int, queue: Any = queue, put: Counter[int] = put) -> None:
                for number in range(first, first + 10):
                    await queue.put(number)
                    put[number] += 1

            async def gets(queue: Any = queue, got: Counter[int] = got) -> None:
                while True:
                    got[await queue.get()] += 1

            victims = [
                spawned(is_green, lambda n=number: blocking(n * 100), lambda n=number: awaiting(n * 100))  # type: ignore[misc]
                for number in range(3)
            ]
            getting = asyncio.ensure_future(gets())
            for _ in range(step):
                await asyncio.sleep(0)
            for victim in victims[:2]:
                end(victim)
            await asyncio.gather(*(ended(victim) for victim in victims))
            for _ in range(5):
                await asyncio.sleep(0)
            end(getting)
            await ended(getting)
            late = got - put
            assert got == put + late
            assert not late or (isinstance(queue, Channel) and set(late.values()) == {1} and len(late) <= 2)
            assert set(range(200, 210)) <= set(got)

    run(main())


@pytest.mark.parametrize("is_green", [True, False], ids=["green", "coroutine"])
def test_out_of_time_in_the_moment_of_the_item(is_green: bool, run: Any) -> None:
    async def main() -> None:
        for step in range(STEPS):
            queue, got = Queue[int](), Counter[int]()

            def blocking(queue: Queue[int] = queue, got: Counter[int] = got) -> None:
                try:
                    got[queue.get(timeout=0.0001)] += 1
                except Empty:
                    return

            async def awaiting(queue: Queue[int] = queue, got: Counter[int] = got) -> None:
                try:
                    got[await queue.get(timeout=0.0001)] += 1
                except Empty:
                    return

            victims = [spawned(is_green, blocking, awaiting) for _ in range(5)]
            for _ in range(step):
                await asyncio.sleep(0)
            for number in range(5):
                queue.put_nowait(number)
                if number == 2:
                    await asyncio.sleep(0.0001)
            await asyncio.gather(*victims)
            while not queue.empty():
                got[queue.get_nowait()] += 1
            assert got == Counter(range(5))

    run(main())


@pytest.mark.parametrize("is_green", [True, False], ids=["green", "coroutine"])
def test_out_of_time_with_no_room(is_green: bool, run: Any) -> None:
    async def main() -> None:
        queue = Queue[int](1, items=[0])

        def blocking() -> None:
            with pytest.raises(Full):
                queue.put(1, timeout=0.001)

        async def awaiting() -> None:
            with pytest.raises(Full):
                await queue.put(1, timeout=0.001)

        await spawned(is_green, blocking, awaiting)
        assert queue.get_nowait() == 0
        assert queue.empty()
        queue.put_nowait(2)

    run(main())


def test_room_is_passed_on() -> None:
    """Who was woken for room, and gave his item to a getter, has left the room to the next one."""
    queue = Queue[int](1, items=[0])
    putting = [green.spawn(queue.put, number) for number in (1, 2)]
    green.sleep(0)
    getting = [green.spawn(queue.get) for _ in range(3)]
    with green.Timeout(20):
        green.joinall(putting + getting, raise_error=True)
    assert sorted(greenlet.get() for greenlet in getting) == [0, 1, 2]


# -- semaphores and events ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Semaphore, BoundedSemaphore])
@pytest.mark.parametrize("is_green", [True, False], ids=["green", "coroutine"])
def test_an_ended_waiter_keeps_no_semaphore(kind: type[Semaphore], is_green: bool, run: Any) -> None:
    async def main() -> None:
        for step in range(STEPS):
            semaphore, inside, most = kind(2), 0, 0

            def enter() -> None:
                nonlocal inside, most
                inside += 1
                most = max(most, inside)

            def leave() -> None:
                nonlocal inside
                inside -= 1

            def blocking(semaphore: Semaphore = semaphore) -> None:
                for _ in range(5):
                    with semaphore:
                        enter()
                        try:
                            green.sleep(0)
                        finally:
                            leave()

            async def awaiting(semaphore: Semaphore = semaphore) -> None:
                for _ in range(5):
                    async with semaphore:
                        enter()
                        try:
                            await asyncio.sleep(0)
                        finally:
                            leave()

            victims = [spawned(is_green, blocking, awaiting) for _ in range(4)]
            others = [spawned(not is_green, blocking, awaiting) for _ in range(4)]
            for _ in range(step):
                await asyncio.sleep(0)
            for victim in victims:
                end(victim)
            await asyncio.gather(*(ended(one) for one in [*victims, *others]))
            assert semaphore.counter == 2
            assert inside == 0
            assert most <= 2

    run(main())


def test_an_event_wakes_all_that_are_left(run: Any) -> None:
    async def main() -> None:
        for step in range(STEPS):
            event, woken = Event(), Counter[str]()

            def blocking(event: Event = event, woken: Counter[str] = woken) -> None:
                event.wait()
                woken["green"] += 1

            async def awaiting(event: Event = event, woken: Counter[str] = woken) -> None:
                await event.wait()
                woken["coroutine"] += 1

            waiting = [spawned(number % 2 == 0, blocking, awaiting) for number in range(12)]
            for _ in range(step):
                await asyncio.sleep(0)
            for one in waiting[:4]:
                end(one)
            event.set()
            await asyncio.gather(*(ended(one) for one in waiting))
            assert woken["green"] >= 4
            assert woken["coroutine"] >= 4
            assert all(is_over(one) for one in waiting)

    run(main())
