"""The hub: who runs the loop, who may block, and what asyncio reports in green threads."""

from __future__ import annotations

import asyncio
import heapq
import threading
import time
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green.event import Event
from oneloop.green.exceptions import BlockingSwitchOutError, LoopExit
from oneloop.green.hub import Waiter, get_hub
from tests import programs
from tests.descriptors import open_descriptors, opened_since


def test_a_thread_has_one_hub() -> None:
    hub = get_hub()
    assert get_hub() is hub
    assert green.spawn(get_hub).get() is hub
    assert "idle" in repr(hub) or "running" in repr(hub)


def test_each_thread_has_its_own() -> None:
    found: list[Any] = []

    def run() -> None:
        hub = get_hub()
        green.joinall([green.spawn(green.sleep, 0.001) for _ in range(10)])
        found.append(hub)
        hub.destroy()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(hub) for hub in found} | {id(get_hub())}) == 4


def test_a_pause_that_was_killed_disturbs_no_later_one() -> None:
    """Its waiter is still among the ready ones when the next green thread pauses."""
    ran = list[str]()

    def pause(name: str) -> None:
        for _ in range(3):
            green.sleep(0)
            ran.append(name)

    threads = {name: green.spawn(pause, name) for name in "abcde"}
    green.sleep(0)
    threads["c"].kill(block=False)
    # It has not paused before, and needs a waiter.
    threads["f"] = green.spawn(pause, "f")
    green.joinall(list(threads.values()))
    # `c` was due already, and is killed in its second pause.
    assert "".join(ran) == "abcdeabdefabdeff"


def test_a_hub_that_was_destroyed_is_followed_by_another() -> None:
    first = get_hub()
    green.sleep(0.001)
    first.destroy()
    assert first.asyncio_loop.is_closed()
    green.sleep(0.001)
    assert get_hub() is not first


def test_a_hub_is_not_destroyed_from_within() -> None:
    def destroy() -> str:
        with pytest.raises(RuntimeError, match="requires the thread's main greenlet"):
            get_hub().destroy()
        return "refused"

    assert green.spawn(destroy).get() == "refused"


def test_nothing_left_to_wait_for() -> None:
    event = Event()

    def waits_for_the_event() -> None:
        event.wait()

    greenlet = green.spawn(waits_for_the_event)
    with pytest.raises(LoopExit, match="this operation would block forever") as told:
        greenlet.join()
    assert "waits_for_the_event" in str(told.value)
    assert "Greenlet.join()" in str(told.value)
    # The green thread can continue after LoopExit.
    event.set()
    greenlet.join()


def test_another_thread_may_wake() -> None:
    event = Event()
    thread = threading.Timer(0.05, event.set)
    thread.start()
    assert event.wait() is True
    thread.join()


def test_an_exception_of_a_callback_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    hub = get_hub()

    def broken() -> None:
        raise LookupError("in a raw greenlet")

    green.spawn_raw(broken)
    green.sleep(0.001)
    assert "in a raw greenlet" in capsys.readouterr().err
    assert get_hub() is hub


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_raised_in_the_main_greenlet(kind: type[BaseException]) -> None:
    def ends() -> None:
        raise kind

    greenlet = green.spawn(ends)
    with pytest.raises(kind):
        green.sleep(10)
    assert isinstance(greenlet.exception, kind)


def test_no_loop_runs_for_green_threads() -> None:
    def look() -> tuple[Any, Any]:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        green.sleep(0)
        return asyncio._get_running_loop(), asyncio.all_tasks(get_hub().asyncio_loop)

    running, tasks = green.spawn(look).get()
    assert (running, tasks) == (None, set())

    async def main() -> None:
        loop = asyncio.get_running_loop()
        running, _ = await loop.run_green(look)  # type: ignore[attr-defined]
        assert running is None
        assert asyncio.get_running_loop() is loop
        assert asyncio.current_task() is not None

    oneloop.run(main())


def test_the_refusal_names_the_call_alone_and_the_programs_line() -> None:
    async def main() -> None:
        with pytest.raises(BlockingSwitchOutError, match=r"^green\.sleep\(2\) would block"):
            _ = [green.spawn(len, ""), green.sleep(2)]  # type: ignore[func-returns-value]
        with pytest.raises(BlockingSwitchOutError, match=r"test_hub\.py:[0-9]+, in main"):
            # The blocking call itself is in the standard library.
            heapq.nsmallest(1, [2], key=green.sleep)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="joinall"):
            green.wait()

    oneloop.run(main())


@pytest.mark.parametrize("how", ["coroutine", "callback"])
def test_blocking_the_loop_itself_is_refused(how: str) -> None:
    def waits_in_vain() -> None:
        with pytest.raises(BlockingSwitchOutError) as told:
            green.sleep(1)
        assert "green.sleep(1) would block the event loop itself" in str(told.value)
        assert "in waits_in_vain" in str(told.value)
        assert "run_green" in str(told.value)
        with pytest.raises(BlockingSwitchOutError):
            Waiter(get_hub()).get()

    async def main() -> None:
        if how == "coroutine":
            waits_in_vain()
            return
        done = asyncio.get_running_loop().create_future()

        def callback() -> None:
            try:
                waits_in_vain()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        asyncio.get_running_loop().call_soon(callback)
        await done

    oneloop.run(main())


def test_coroutines_and_green_threads_have_turns() -> None:
    seen = []

    async def main() -> None:
        def green_steps() -> None:
            for number in range(3):
                seen.append(f"green{number}")
                green.sleep(0)

        async def steps() -> None:
            for number in range(3):
                seen.append(f"coroutine{number}")
                await asyncio.sleep(0)

        greenlet = green.spawn(green_steps)
        await asyncio.gather(greenlet, steps())

    oneloop.run(main())
    assert sorted(seen[:2]) == ["coroutine0", "green0"]
    assert sorted(seen[2:4]) == ["coroutine1", "green1"]


def test_green_threads_that_never_rest_leave_the_loop_its_ticks() -> None:
    async def main() -> None:
        def spins() -> int:
            count = 0
            while not is_over:
                green.sleep(0)
                count += 1
            return count

        is_over = False
        greenlets = [green.spawn(spins) for _ in range(2)]
        reader, writer = await asyncio.open_connection(*await _echo())
        for _ in range(100):
            writer.write(b"x")
            await reader.readexactly(1)
        is_over = True
        counts = await asyncio.gather(*greenlets)
        assert abs(counts[0] - counts[1]) <= 1
        writer.close()
        await writer.wait_closed()
        servers[0].close()
        await servers[0].wait_closed()

    async def _echo() -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(100):
                writer.write(data)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        servers.append(server)
        return server.sockets[0].getsockname()

    servers: list[Any] = []
    oneloop.run(main())


def test_waiter() -> None:
    hub = get_hub()
    waiter = Waiter(hub)
    assert waiter.wake(1) is True
    assert waiter.wake(2) is False
    assert waiter.get() == 1
    assert waiter.fail(LookupError()) is True
    with pytest.raises(LookupError):
        waiter.get()
    first = green.spawn(waiter.get)
    green.sleep(0)
    assert waiter.greenlet is first
    with pytest.raises(RuntimeError, match="another green thread is already waiting here"):
        waiter.get()
    first.kill()
    assert waiter.greenlet is None
    assert waiter.wake(3) is True
    assert waiter.get() == 3


SCRIPT = """
from oneloop import green
from oneloop.green.event import Event
def waits():
    try:
        green.sleep(100)
    finally:
        print("left")
parked = [green.spawn(waits) for _ in range(3)]
green.sleep(0.001)
print("end")
"""


def test_a_script_ends_while_green_threads_wait() -> None:
    """No error, no leak that the interpreter reports, and nothing of theirs runs, as in gevent."""
    assert programs.run_ok("oneloop", SCRIPT) == "end\n"


def test_a_thread_that_ends_takes_its_hub_along() -> None:
    ended: list[str] = []
    before = open_descriptors()

    def wait() -> None:
        try:
            green.sleep(100)
        finally:
            ended.append("killed")

    def run() -> None:
        green.spawn(wait)
        green.sleep(0.001)

    threads = [threading.Thread(target=run) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A thread counts as ended before its cleanup has finished.
    while len(ended) < 5 or opened_since(before):
        time.sleep(0.001)
