"""`oneloop.testing`: virtual time passes when nothing is ready, and at no other time."""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

import oneloop.testing
from tests.conftest import cancelled, settle

# Of asm-generic/socket.h; the module socket does not have them.
SO_ATTACH_FILTER = 26
SO_DETACH_FILTER = 27


def test_an_hour_takes_no_time() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(3600)
        return loop.time() - began

    began = time.monotonic()
    assert oneloop.testing.run(main()) == 3600
    assert time.monotonic() - began < 60


def test_clock_starts_at_zero_and_stands_still_while_callbacks_run() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        await settle(100)
        times.append(loop.time())
        return times

    assert oneloop.testing.run(main()) == [0, 0]


def test_timers_fire_in_order_and_exactly_at_their_deadlines() -> None:
    fired: list[tuple[float, str]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def note(name: str) -> Callable[[], None]:
            return lambda: fired.append((loop.time(), name))

        loop.call_later(30, note("c"))
        loop.call_later(10, note("a"))
        loop.call_at(20, note("b"))
        loop.call_later(10, note("a, later"))
        loop.call_later(15, note("cancelled")).cancel()
        await asyncio.sleep(86_400)

    oneloop.testing.run(main())
    assert fired == [(10, "a"), (10, "a, later"), (20, "b"), (30, "c")]


def test_timeout_fires_before_what_never_comes() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(7.5):
                await asyncio.Event().wait()
        except TimeoutError:
            return loop.time()
        raise AssertionError("the event was never set")

    assert oneloop.testing.run(main()) == 7.5


def test_sockets_work_and_come_before_timers() -> None:
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()
        served.set()

    async def main() -> float:
        path = f"\0oneloop-virtual-{os.getpid()}"
        server = await asyncio.start_unix_server(serve, path)
        async with server:
            reader, writer = await asyncio.open_unix_connection(path)
            for _ in range(100):
                async with asyncio.timeout(1):
                    writer.write(b"x" * 1000)
                    assert await reader.readexactly(1000) == b"x" * 1000
            writer.close()
            await writer.wait_closed()
            await served.wait()
        return asyncio.get_running_loop().time()

    assert oneloop.testing.run(main()) < 1


async def sender_and_peer() -> tuple[asyncio.StreamWriter, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        _, writer = await asyncio.open_connection(*server.getsockname())
        peer, _ = server.accept()
    peer.setblocking(False)
    return writer, peer


@contextmanager
def unreachable(sock: socket.socket) -> Iterator[None]:
    """The kernel drops every segment for this socket: a filter (socket(7)) whose one instruction is `ret 0`."""
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0), 8)
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(instruction)))
    try:
        yield
    finally:
        sock.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def test_clock_stands_still_while_a_segment_is_underway() -> None:
    """The kernel loses it, and sends it again."""

    async def main() -> tuple[bytes, float]:
        loop = asyncio.get_running_loop()
        writer, peer = await sender_and_peer()
        with peer:
            with unreachable(peer):
                writer.write(b"lost")
            async with asyncio.timeout(1):
                received = await loop.sock_recv(peer, 100)
            writer.transport.abort()
        return received, loop.time()

    assert oneloop.testing.run(main()) == (b"lost", 0)


def test_connections_with_the_same_ports_are_told_apart_by_their_addresses() -> None:
    """One has carried more than the other, on which a segment is lost."""

    async def connected(host: str, ports: tuple[int, int]) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        with socket.create_server((host, ports[0])) as server:
            client = socket.socket()
            client.bind((host, ports[1]))
            client.connect(server.getsockname())
            peer, _ = server.accept()
        return [await asyncio.open_connection(sock=end) for end in (client, peer)]

    async def main() -> tuple[bytes, float]:
        first = await connected("127.0.0.1", (0, 0))
        client, server = (end[1].get_extra_info("sockname")[1] for end in first)
        second = await connected("127.0.0.2", (server, client))
        second[0][1].write(b"carried")
        await second[1][0].readexactly(7)
        with unreachable(first[1][1].get_extra_info("socket")):
            first[0][1].write(b"lost")
        async with asyncio.timeout(1):
            received = await first[1][0].read(100)
        for _, writer in first + second:
            writer.close()
            await writer.wait_closed()
        return received, asyncio.get_running_loop().time()

    assert oneloop.testing.run(main()) == (b"lost", 0)


def test_clock_stands_still_while_the_news_of_room_is_underway() -> None:
    """The peer's buffer was full. The kernel loses what tells the sender that there is room again, and asks."""

    async def main() -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        writer, peer = await sender_and_peer()
        received = 0
        with peer:
            writer.write(bytes(20_000_000))
            with unreachable(writer.transport.get_extra_info("socket")), suppress(BlockingIOError):
                while True:
                    received += len(peer.recv(1 << 20))
            async with asyncio.timeout(1):
                while received < 20_000_000:
                    received += len(await loop.sock_recv(peer, 1 << 20))
            writer.transport.abort()
        return received, loop.time()

    assert oneloop.testing.run(main()) == (20_000_000, 0)


def test_clock_goes_on_when_what_is_underway_does_not_arrive() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        writer, peer = await sender_and_peer()
        with peer, unreachable(peer):
            writer.write(b"lost")
            waiting = loop.create_task(loop.sock_recv(peer, 100))
            for _ in range(1000):
                await asyncio.sleep(3600)
            assert not waiting.done()
            writer.transport.abort()
            await cancelled(waiting)

    began = time.monotonic()
    oneloop.testing.run(main())
    # Not a real wait before each of them.
    assert time.monotonic() - began < 100


def test_clock_stands_still_while_threads_work() -> None:
    async def main() -> tuple[str, float]:
        loop = asyncio.get_running_loop()

        def work() -> str:
            time.sleep(0.02)
            return "from the thread"

        async with asyncio.timeout(0.001):
            answers = await asyncio.gather(asyncio.to_thread(work), asyncio.to_thread(work))
        assert set(answers) == {"from the thread"}
        later = loop.time()
        await asyncio.sleep(10)
        return answers[0], later

    assert oneloop.testing.run(main()) == ("from the thread", 0)


def test_cancelled_job_does_not_hold_the_clock_for_ever() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        job = loop.run_in_executor(None, time.sleep, 0.01)
        job.cancel()
        await asyncio.sleep(5)
        return loop.time()

    assert oneloop.testing.run(main()) == 5


@pytest.mark.parametrize("uptime_s", [0, 1e5, 1e7, 1e9])
@pytest.mark.parametrize("delay_s", [1e-6, 1e-3, 1, 1e4])
def test_never_early_however_long_the_system_is_up(uptime_s: float, delay_s: float) -> None:
    """A float has few digits left for nanoseconds then; `loop.time() >= when` holds in every callback all the same."""
    numbers = random.Random(f"{uptime_s} {delay_s}")
    checked = 0

    async def main() -> None:
        nonlocal checked
        loop = asyncio.get_running_loop()
        await asyncio.sleep(uptime_s)
        assert loop.time() >= uptime_s

        def check(when: float) -> None:
            nonlocal checked
            assert loop.time() >= when
            checked += 1

        def check_handle(handles: list[asyncio.TimerHandle]) -> None:
            check(handles[0].when())

        for _ in range(1000):
            when = loop.time() + numbers.random() * delay_s
            loop.call_at(when, check, when)
            later: list[asyncio.TimerHandle] = []
            later.append(loop.call_later(numbers.random() * delay_s, check_handle, later))
            began = loop.time()
            delay = numbers.random() * delay_s
            await asyncio.sleep(delay)
            assert loop.time() >= began + delay
        await asyncio.sleep(2 * delay_s)

    oneloop.testing.run(main())
    assert checked == 2000


def test_factory_and_debug_mode() -> None:
    async def main() -> float:
        await asyncio.sleep(60)
        assert asyncio.get_running_loop().get_debug()
        return asyncio.get_running_loop().time()

    assert oneloop.testing.run(main(), debug=True) == 60
    with asyncio.Runner(loop_factory=oneloop.testing.new_event_loop, debug=True) as runner:
        assert runner.run(main()) == 60


def test_example_of_the_docstring() -> None:
    import doctest

    failed, tried = doctest.testmod(oneloop.testing)
    assert (failed, tried > 0) == (0, True)
