"""asyncio after monkey patching: which loops it creates, and which loop is current."""

from __future__ import annotations

import asyncio

from oneloop import green
from oneloop.green import facade
from oneloop.green.facade import FacadeLoop


async def number_of_tasks() -> int:
    await asyncio.sleep(0.001)
    return len(asyncio.all_tasks())


def test_uninstalled_everything_is_as_before() -> None:
    before = (asyncio.events.get_running_loop, getattr(asyncio, "EventLoop", None))
    facade.install()
    facade.install()
    loop = asyncio.new_event_loop()
    assert isinstance(loop, FacadeLoop)
    loop.close()
    facade.uninstall()
    facade.uninstall()
    assert (asyncio.events.get_running_loop, getattr(asyncio, "EventLoop", None)) == before
    loop = asyncio.new_event_loop()
    assert not isinstance(loop, FacadeLoop)
    loop.close()


def test_the_current_loop_is_the_greenlets_own(installed: None) -> None:
    def works() -> int:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        green.sleep(0)
        assert asyncio.get_event_loop() is loop
        try:
            return loop.run_until_complete(number_of_tasks())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    threads = [green.spawn(works) for _ in range(10)]
    assert [thread.get() for thread in threads] == [1] * 10


def test_the_main_greenlet_lets_others_go_on(installed: None) -> None:
    seen: list[int] = []

    def works() -> None:
        for number in range(5):
            green.sleep(0)
            seen.append(number)

    async def main() -> None:
        green.spawn(works)
        while len(seen) < 5:
            await asyncio.sleep(0.001)

    asyncio.run(main())
    assert seen == list(range(5))
