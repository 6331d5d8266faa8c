"""Callbacks that keep each other ready do not keep the loop from its I/O, its timers and other threads."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable

import pytest

from tests import programs

# asyncio polls in every tick; oneloop at the latest after 64 of them.
ENOUGH = 1000


def run_chain(loop: asyncio.AbstractEventLoop, schedule: Callable[[Callable[[], None]], object]) -> int:
    """Have one callback schedule the next until the loop is stopped; how many there were, or `ENOUGH` times 10."""
    count = 0

    def link() -> None:
        nonlocal count
        count += 1
        if count < ENOUGH * 10:
            schedule(link)
        else:
            loop.stop()

    schedule(link)
    loop.run_forever()
    return count


@pytest.mark.parametrize("chain", ["call_soon", "call_later", "both"])
def test_a_reader_is_served_within_a_burst(loop: asyncio.AbstractEventLoop, chain: str) -> None:
    calls = 0

    def schedule(link: Callable[[], None]) -> None:
        nonlocal calls
        calls += 1
        if chain == "call_soon" or (chain == "both" and calls % 2):
            loop.call_soon(link)
        else:
            loop.call_later(0, link)

    read_end, write_end = os.pipe()
    loop.run_until_complete(asyncio.sleep(0))
    os.write(write_end, b"x")
    loop.add_reader(read_end, loop.stop)
    try:
        assert run_chain(loop, schedule) < ENOUGH
    finally:
        loop.remove_reader(read_end)
        os.close(read_end)
        os.close(write_end)
    # What is left of the chain ends here.
    loop.run_until_complete(asyncio.sleep(0))


def test_a_reader_that_becomes_ready_in_the_burst(loop: asyncio.AbstractEventLoop) -> None:
    read_end, write_end = os.pipe()
    served: list[int] = []
    count = 0

    def read() -> None:
        os.read(read_end, 1)
        served.append(count)
        if len(served) < 20:
            os.write(write_end, b"x")
        else:
            loop.stop()

    def schedule(link: Callable[[], None]) -> None:
        nonlocal count
        count += 1
        loop.call_soon(link)

    loop.add_reader(read_end, read)
    os.write(write_end, b"x")
    try:
        run_chain(loop, schedule)
        assert len(served) == 20
        assert max(later - sooner for sooner, later in itertools.pairwise(served)) < ENOUGH
    finally:
        loop.remove_reader(read_end)
        os.close(read_end)
        os.close(write_end)


def test_a_timer_is_served_within_a_burst(loop: asyncio.AbstractEventLoop) -> None:
    """Once its time has come, it runs within a few ticks."""
    due = loop.time() + 0.01
    late: list[int] = []
    count = 0

    def link() -> None:
        nonlocal count
        if loop.time() >= due:
            count += 1
        if count < ENOUGH * 10:
            loop.call_soon(link)
        else:
            loop.stop()

    def fire() -> None:
        late.append(count)
        loop.stop()

    loop.call_soon(link)
    loop.call_at(due, fire)
    loop.run_forever()
    assert late
    assert late[0] < ENOUGH


def test_another_thread_is_heard_within_a_burst(loop: asyncio.AbstractEventLoop) -> None:
    is_heard = False
    count = 0

    def hear() -> None:
        nonlocal is_heard
        is_heard = True
        loop.stop()

    def link() -> None:
        nonlocal count
        count += 1
        if count < ENOUGH * 1000:
            loop.call_soon(link)
        else:
            loop.stop()

    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(hear,))
    loop.call_soon(link)
    loop.call_soon(thread.start)
    loop.run_forever()
    thread.join()
    assert is_heard


def test_slow_callbacks_share_no_burst(loop: asyncio.AbstractEventLoop) -> None:
    """A burst lasts some 20 µs: after a callback that is longer, the kernel is asked."""
    read_end, write_end = os.pipe()
    loop.add_reader(read_end, loop.stop)
    links = 0
    written_at = 0

    def schedule(link: Callable[[], None]) -> None:
        nonlocal links, written_at
        links += 1
        if links > 5:
            time.sleep(0.001)
        if links == 10:
            written_at = links
            os.write(write_end, b"x")
        loop.call_soon(link)

    try:
        run_chain(loop, schedule)
        assert links - written_at <= 3
    finally:
        loop.remove_reader(read_end)
        os.close(read_end)
        os.close(write_end)
    loop.run_until_complete(asyncio.sleep(0))


def test_what_a_callback_sends_within_a_burst_is_looked_for_in_the_next_tick(loop: asyncio.AbstractEventLoop) -> None:
    """Both ends are on this loop: the reader is called as early as with asyncio."""
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
    transport, _ = loop.run_until_complete(loop.create_connection(asyncio.Protocol, sock=ours))
    loop.add_reader(theirs, loop.stop)
    links = 0
    sent_at = 0

    def schedule(link: Callable[[], None]) -> None:
        nonlocal links, sent_at
        links += 1
        if links == 5:
            sent_at = links
            transport.write(b"x")
        loop.call_soon(link)

    run_chain(loop, schedule)
    assert links - sent_at <= 2
    loop.remove_reader(theirs)
    theirs.close()
    transport.close()
    loop.run_until_complete(asyncio.sleep(0))


@pytest.mark.time_limit(180)
def test_the_memory_of_a_burst_is_given_back(loop_name: str) -> None:
    """Two million callbacks at once: some ticks later the process is not much larger than before them."""
    grown = programs.run_ok(
        loop_name,
        """
        def resident_mib():
            with open("/proc/self/statm") as statm:
                return int(statm.read().split()[1]) * 4096 / 2**20

        async def main():
            loop = asyncio.get_running_loop()
            before = resident_mib()
            for _ in range(2_000_000):
                loop.call_soon(int)
            for _ in range(100):
                await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            print(resident_mib() - before)

        loop = new_loop()
        loop.run_until_complete(main())
        loop.close()
        """,
        limit_s=100,
    )
    # asyncio: 18; the queue alone was 48.
    assert float(grown) < 32, grown
