"""asyncio after monkey patching: which loops it creates, which is current, and whom its handles keep apart."""

from __future__ import annotations

import asyncio
import sys

import pytest

from oneloop import green
from oneloop.green import facade
from oneloop.green.facade import FacadeLoop
from tests.green.patched import patched


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


@pytest.mark.skipif(sys.version_info < (3, 14), reason="before Python 3.14 a cancellation does not wait")
def test_a_callback_that_blocks_is_cancelled_once_it_has_ended() -> None:
    """By another green thread, a coroutine of another loop, and another OS thread; itself it may cancel at once."""
    out = patched("""
        import _thread, asyncio, threading, time
        from oneloop.green import monkey

        start_os_thread = monkey.get_original("_thread", "start_new_thread")

        def by_green_thread(cancel):
            threading.Thread(target=cancel).start()

        def by_coroutine(cancel):
            async def call():
                cancel()

            threading.Thread(target=lambda: asyncio.run(call())).start()

        def by_os_thread(cancel):
            start_os_thread(cancel, ())

        def by_itself(cancel):
            pass

        for start in (by_green_thread, by_coroutine, by_os_thread, by_itself):
            for make in (asyncio.new_event_loop, asyncio.SelectorEventLoop):
                loop, told = make(), []

                def callback():
                    told.append("begins")
                    if start is by_itself:
                        handle.cancel()
                        told.append("cancelled")
                        loop.call_soon(loop.stop)
                    else:
                        start(cancel)
                    time.sleep(0.05)
                    told.append("ends")

                def cancel():
                    handle.cancel()
                    told.append("cancelled")
                    loop.call_soon_threadsafe(loop.stop)

                handle = loop.call_soon_threadsafe(callback)
                loop.run_forever()
                loop.close()
                print(*told)
    """)
    assert out == "begins ends cancelled\n" * 6 + "begins cancelled ends\n" * 2
