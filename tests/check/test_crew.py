"""A crew and its consumer: whoever waits for room gets it."""

from __future__ import annotations

import asyncio

import pytest

from oneloop.check.crew import Crew


async def test_a_slow_consumer_makes_room(loop: asyncio.AbstractEventLoop) -> None:
    waited = 0

    async def work() -> None:
        nonlocal waited
        for number in range(100):
            crew.add(number)
            if len(crew.found) >= 10:
                waited += 1
                await crew.wait_for_room()

    async with asyncio.timeout(20), Crew[int]() as crew:
        crew.start(work())
        found = [number async for number in crew.all()]
    assert found == list(range(100))
    assert waited == 10


async def test_the_first_failure_is_told_behind_what_was_found(loop: asyncio.AbstractEventLoop) -> None:
    async def fail(number: int) -> None:
        crew.add(number)
        raise KeyError(number)

    found = []
    async with Crew[int]() as crew:
        crew.start(fail(1))
        crew.start(fail(2))
        with pytest.raises(KeyError, match="1"):
            async for number in crew.all():
                found.append(number)  # noqa: PERF401
    assert found == [1, 2]


async def test_its_tasks_have_ended_when_it_has(loop: asyncio.AbstractEventLoop) -> None:
    has_ended = False

    async def work() -> None:
        nonlocal has_ended
        try:
            await loop.create_future()
        finally:
            await asyncio.sleep(0)
            has_ended = True

    async with Crew[int]() as crew:
        crew.start(work())
        await asyncio.sleep(0)
    assert has_ended
