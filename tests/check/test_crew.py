"""A crew and its consumer: whoever waits for room gets it."""

from __future__ import annotations

import asyncio

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
