"""Queues, semaphores and events that coroutines and green threads share: kills and cancellation lose nothing."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green.event import Event
from oneloop.green.lock import BoundedSemaphore, Semaphore
from oneloop.green.queue import Channel, Empty, Full, JoinableQueue, LifoQueue, PriorityQueue, Queue, SimpleQueue
from tests.conftest import settle

ITEMS = 10_000
STEPS = 12

Make = Callable[[], Any]
Run = Callable[[Coroutine[Any, Any, Any]], Any]
QUEUES: list[Any] = [
    pytest.param(Queue, id="endless"),
    pytest.param(lambda: Queue(1), id="one"),
    pytest.param(lambda: Queue(7), id="seven"),
    pytest.param(SimpleQueue, id="simple"),
    pytest.param(Channel, id="channel"),
    pytest.param(lambda: LifoQueue(3), id="lifo"),
    pytest.param(lambda: PriorityQueue(3), id="priority"),
    pytest.param(lambda: JoinableQueue(3), id="joinable"),
]


def run_on_facade(main: Coroutine[Any, Any, Any]) -> Any:
    return green.spawn(green.run, main).get()


@pytest.fixture(params=[oneloop.run, run_on_facade], ids=["loop", "facade"])
def run(request: pytest.FixtureRequest) -> Run:
    chosen: Run = request.param
    return chosen


class Traffic:
    """Records the traffic of a queue: items whose `put` has returned, and items that came out."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self.put = Counter[int]()
        self.got = Counter[int]()

    def putter(self, is_green: bool, numbers: Iterable[int]) -> Any:
        """A green thread or a task that puts the numbers."""
        return green.spawn(self._puts, numbers) if is_green else asyncio.ensure_future(self._puts_awaiting(numbers))

    def getter(self, is_green: bool, count: int = sys.maxsize, **timeout: float) -> Any:
        """A green thread or a task that gets `count` items, or until the timeout."""
        if is_green:
            return green.spawn(self._gets, count, **timeout)
        return asyncio.ensure_future(self._gets_awaiting(count, **timeout))

    def _puts(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.queue.put(number)
            self.put[number] += 1

    async def _puts_awaiting(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            await self.queue.put(number)
            self.put[number] += 1

    def _gets(self, count: int, **timeout: float) -> None:
        with contextlib.suppress(Empty):
            for _ in range(count):
                self.got[self.queue.get(**timeout)] += 1

    async def _gets_awaiting(self, count: int, **timeout: float) -> None:
        with contextlib.suppress(Empty):
            for _ in range(count):
                self.got[await self.queue.get(**timeout)] += 1


class Room:
    """Counts who is inside of a semaphore."""

    def __init__(self, semaphore: Semaphore) -> None:
        self.semaphore = semaphore
        self.inside = self.most = 0

    def visitor(self, is_green: bool) -> Any:
        """A green thread or a task that enters and leaves several times."""
        return green.spawn(self._visits) if is_green else asyncio.ensure_future(self._visits_awaiting())

    @contextlib.contextmanager
    def _visit(self) -> Iterator[None]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            yield
        finally:
            self.inside -= 1

    def _visits(self) -> None:
        for _ in range(5):
            with self.semaphore, self._visit():
                green.sleep(0)

    async def _visits_awaiting(self) -> None:
        for _ in range(5):
            async with self.semaphore:
                with self._visit():
                    await asyncio.sleep(0)


async def end(*victims: Any) -> None:
    """Cancel tasks, kill green threads, and wait for them."""
    for victim in victims:
        if isinstance(victim, asyncio.Task):
            victim.cancel()
        else:
            victim.kill(block=False)
    for victim in victims:
        with contextlib.suppress(asyncio.CancelledError):
            await victim


async def at_each_step(at: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    for step in range(STEPS):
        await at(step)


# -- items -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [QUEUES[1], QUEUES[4]])
def test_items_alternate(make: Make, run: Run) -> None:
    """Items go from a coroutine to a green thread, and back to a coroutine."""

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
def test_all_items_arrive(make: Make, run: Run) -> None:
    async def main() -> None:
        traffic = Traffic(make())
        count = ITEMS // 20
        putters = [traffic.putter(number % 2 == 0, range(number * count, (number + 1) * count)) for number in range(4)]
        getters = [traffic.getter(number % 2 == 0, count) for number in range(4)]
        await asyncio.gather(*putters, *getters)
        assert traffic.got == Counter(range(4 * count))

    run(main())


def test_both_get_their_share(run: Run) -> None:
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
        # A loop runs a few ticks before it lets others run.
        assert min(got.values()) > 250, got

    run(main())


# -- kills and cancellation at each step -------------------------------------------------------------


@pytest.mark.parametrize("is_green", [True, False], ids=["green", "coroutine"])
@pytest.mark.parametrize("make", QUEUES)
def test_an_ended_getter_loses_nothing(make: Make, is_green: bool, run: Run) -> None:
    async def at(step: int) -> None:
        traffic = Traffic(make())
        victims = [traffic.getter(is_green) for _ in range(2)]
        putting = traffic.putter(False, range(20))
        await settle(step)
        await end(*victims)
        last = traffic.getter(not is_green)
        await putting
        while sum(traffic.got.values()) < 20:
            await asyncio.sleep(0)
        await end(last)
        assert traffic.got == traffic.put == Counter(range(20))

    run(at_each_step(at))


@pytest.mark.parametrize("is_green", [True, False], ids=["green", "coroutine"])
@pytest.mark.parametrize("make", QUEUES)
def test_an_ended_putter_loses_nothing(make: Make, is_green: bool, run: Run) -> None:
    """Each item whose `put` has returned arrives once. The item of a killed `put` does not arrive.

    Exception: a channel, whose getter may have received the item at that moment.
    """

    async def at(step: int) -> None:
        traffic = Traffic(make())
        victims = [traffic.putter(is_green, range(first, first + 10)) for first in (0, 100)]
        other = traffic.putter(is_green, range(200, 210))
        getting = traffic.getter(False)
        await settle(step)
        await end(*victims)
        await other
        await settle(5)
        await end(getting)
        late = traffic.got - traffic.put
        assert traffic.got == traffic.put + late
        assert not late or isinstance(traffic.queue, Channel)
        assert len(late) <= len(victims)
        assert set(range(200, 210)) <= set(traffic.got)

    run(at_each_step(at))


@pytest.mark.parametrize("is_green", [True, False], ids=["green", "coroutine"])
def test_out_of_time_in_the_moment_of_the_item(is_green: bool, run: Run) -> None:
    async def at(step: int) -> None:
        traffic = Traffic(Queue())
        victims = [traffic.getter(is_green, 1, timeout=0.0001) for _ in range(5)]
        await settle(step)
        for number in range(3):
            traffic.queue.put_nowait(number)
        await asyncio.sleep(0.0001)
        for number in range(3, 5):
            traffic.queue.put_nowait(number)
        await asyncio.gather(*victims)
        left = [traffic.queue.get_nowait() for _ in range(traffic.queue.qsize())]
        assert traffic.got + Counter(left) == Counter(range(5))

    run(at_each_step(at))


@pytest.mark.parametrize("is_green", [True, False], ids=["green", "coroutine"])
def test_out_of_time_with_no_room(is_green: bool, run: Run) -> None:
    async def main() -> None:
        queue = Queue[int](1, items=[0])

        def blocking() -> None:
            with pytest.raises(Full):
                queue.put(1, timeout=0.001)

        async def awaiting() -> None:
            with pytest.raises(Full):
                await queue.put(1, timeout=0.001)

        await (green.spawn(blocking) if is_green else awaiting())
        assert queue.get_nowait() == 0
        assert queue.empty()
        queue.put_nowait(2)

    run(main())


def test_room_is_passed_on() -> None:
    """A putter was woken for free room, but gave its item directly to a getter: the room goes to the next putter."""
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
def test_an_ended_waiter_keeps_no_semaphore(kind: type[Semaphore], is_green: bool, run: Run) -> None:
    async def at(step: int) -> None:
        room = Room(kind(2))
        victims = [room.visitor(is_green) for _ in range(4)]
        others = [room.visitor(not is_green) for _ in range(4)]
        await settle(step)
        await end(*victims)
        await asyncio.gather(*others)
        assert room.semaphore.counter == 2
        assert room.inside == 0
        assert room.most <= 2

    run(at_each_step(at))


def test_an_event_wakes_all_that_are_left(run: Run) -> None:
    async def at(step: int) -> None:
        event, woken = Event(), Counter[str]()

        def blocking() -> None:
            event.wait()
            woken["green"] += 1

        async def awaiting() -> None:
            await event.wait()
            woken["coroutine"] += 1

        waiting = [green.spawn(blocking) if n % 2 else asyncio.ensure_future(awaiting()) for n in range(12)]
        await settle(step)
        await end(*waiting[:4])
        event.set()
        await asyncio.gather(*waiting[4:])
        assert woken == {"green": 4, "coroutine": 4}

    run(at_each_step(at))
