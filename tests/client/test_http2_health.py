"""HTTP/2 in the client: connections that may not work any more, and what they leave behind."""

from __future__ import annotations

import asyncio
import struct
import threading
import tracemalloc
from typing import Any

import pytest

from oneloop.http import AsyncClient, Limits, PoolTimeout, Timeout, TotalTimeout
from tests.client.http2_server import (
    ACK,
    DATA,
    PING,
    PRIOR,
    WINDOW,
    Http2Peer,
    Http2Server,
    echo,
    frame,
)

# Longer than a server may be silent, while a request waits that is given up then.
SILENCE_S = 1.05
FAR = Timeout(30, pool=30)


async def give_up_in_silence(client: AsyncClient, url: str, reached: threading.Event) -> None:
    """Have a request answered, send another one, and cancel it when the server has been silent for long."""
    assert (await client.get(url)).text == "0"
    task = asyncio.create_task(client.get(url))
    await asyncio.to_thread(reached.wait)
    await asyncio.sleep(SILENCE_S)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_silent_server_is_asked_for_a_sign_of_life() -> None:
    """Further requests take another connection until it responds, and this one again then."""
    reached, asked, go = threading.Event(), threading.Event(), threading.Event()

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        if peer.number == 0:
            stream, _ = peer.request()
            peer.answer(stream, b"0")
            peer.request()
            reached.set()
            ping = peer.next(PING)
            asked.set()
            assert go.wait(60)
            peer.send(frame(PING, ACK, 0, ping.payload))
        while True:
            stream, _ = peer.request()
            peer.answer(stream, str(peer.number).encode())

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR, timeout=FAR) as client:
            await give_up_in_silence(client, server.url, reached)
            assert (await client.get(server.url)).text == "1"
            await asyncio.to_thread(asked.wait)
            assert client.statistics()["idle"] == 1
            go.set()
            while client.statistics()["idle"] != 2:
                await asyncio.sleep(0.002)
            assert (await client.get(server.url)).text == "0"
            assert server.connections == 2


async def test_a_server_that_gives_none() -> None:
    """Its connection is closed, and its place free."""
    reached, left = threading.Event(), threading.Event()

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.answer(stream, str(peer.number).encode())
        if peer.number:
            peer.wait_for_end()
            return
        peer.request()
        reached.set()
        peer.wait_for_end()
        left.set()

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR, timeout=FAR, limits=Limits(max_connections=1)) as client:
            await give_up_in_silence(client, server.url, reached)
            assert (await client.get(server.url)).text == "1"
            assert left.wait(60)


async def test_the_total_time_counts_as_silence_too() -> None:
    """Without a read timeout as well, a dead connection gets no further request."""

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.answer(stream, str(peer.number).encode())
        peer.wait_for_end()

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR, timeout=FAR) as client:
            assert (await client.get(server.url)).text == "0"
            with pytest.raises(TotalTimeout):
                await client.get(server.url, timeout=Timeout(None, total=0.2))
            assert (await client.get(server.url)).text == "1"


async def test_all_requests_on_a_kept_connection_that_was_closed() -> None:
    """The server closes it as they come: none of them was looked at, and each is sent again."""

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        first = True
        while True:
            stream, _ = peer.request()
            if first or peer.number:
                first = False
                peer.answer(stream, b"well")
                continue
            for _ in range(2):
                peer.request()
            return

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR, timeout=FAR) as client:
            assert (await client.get(server.url)).text == "well"
            responses = await asyncio.gather(*(client.get(server.url) for _ in range(3)))
            assert [response.text for response in responses] == ["well"] * 3
            assert client.statistics()["repeated"] == 3


async def test_a_goaway_closes_an_idle_connection() -> None:
    """The server waits for that, maybe for ever."""
    ended = threading.Event()

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.answer(stream, b"well")
        peer.goaway(stream)
        peer.wait_for_end()
        ended.set()

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR, timeout=FAR, limits=Limits(keepalive_expiry=None)) as client:
            assert (await client.get(server.url)).text == "well"
            await asyncio.to_thread(ended.wait)
            while client.statistics()["open"]:
                await asyncio.sleep(0.002)


async def test_a_server_that_reads_nothing_keeps_no_place() -> None:
    """What it does not read cannot be sent before the connection is closed."""
    full, done = threading.Event(), threading.Event()

    def serve(peer: Http2Peer) -> None:
        peer.greet((WINDOW, (1 << 31) - 1))
        peer.give(0, (1 << 31) - 65536)
        stream, _ = peer.request()
        if peer.number:
            peer.answer(stream, b"well")
            peer.wait_for_end()
            return
        full.set()
        done.wait(60)

    with Http2Server(serve) as server:
        try:
            async with AsyncClient(**PRIOR, timeout=FAR, limits=Limits(max_connections=1)) as client:
                task = asyncio.create_task(client.post(server.url, content=bytes(1 << 24)))
                await asyncio.to_thread(full.wait)
                # The settings, which open the window, have arrived, and the socket is full.
                await asyncio.sleep(0.1)
                task.cancel()
                await asyncio.wait([task])
                assert (await client.get(server.url)).text == "well"
                assert client.statistics()["open"] == 1
        finally:
            done.set()


async def test_a_body_in_tiny_frames_costs_no_memory() -> None:
    """Half a megabyte, the whole window, in frames of two bytes."""
    sent = threading.Event()

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.head(stream)
        for _ in range(256):
            peer.send(frame(DATA, 0, stream, b"ab") * 1000)
        sent.set()
        peer.data(stream, b"", ends=True)
        peer.wait_for_end()

    tracemalloc.start()
    try:
        with Http2Server(serve) as server:
            async with AsyncClient(**PRIOR, timeout=FAR) as client, client.stream("GET", server.url) as response:
                await asyncio.to_thread(sent.wait)
                body = await response.aread()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert body == b"ab" * 256_000
    assert peak < 6_000_000, peak


async def test_padding_is_given_back() -> None:
    """A body of little data and much padding does not use up the windows."""
    windows: dict[int, int] = {}

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        # What the client's settings and its first WINDOW_UPDATE allow; both come before the request.
        windows.update({0: 16 << 20, stream: 512 << 10})
        peer.head(stream)
        padded = frame(DATA, 8, stream, b"\xc8a" + bytes(200))
        for _ in range(5000):
            while min(windows.values()) < len(padded):
                got = peer.frame()
                if got.kind == 8:
                    windows[got.stream] += struct.unpack(">I", got.payload)[0]
            peer.send(padded)
            for stream_or_all in windows:
                windows[stream_or_all] -= len(padded) - 9
        peer.data(stream, b"", ends=True)
        peer.wait_for_end()

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR, timeout=FAR) as client:
            assert (await client.get(server.url)).content == b"a" * 5000


async def test_settings_that_never_come() -> None:
    """A connection carries one request until then; others wait for their turn, and say so."""

    def serve(peer: Http2Peer) -> None:
        assert peer.exactly(24)
        peer.wait_for_end()

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR, timeout=Timeout(30, pool=0.1), limits=Limits(max_connections=1)) as client:
            first = asyncio.create_task(client.get(server.url))
            outcome: Any = (await asyncio.gather(client.get(server.url), return_exceptions=True))[0]
            assert isinstance(outcome, PoolTimeout), outcome
            first.cancel()
            await asyncio.wait([first])


async def test_a_busy_connection_yields_its_place() -> None:
    """Where the pool has no other: another origin's turn comes, as on HTTP/1.1, however many requests follow."""

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        held: list[int] = []
        while True:
            stream, _ = peer.request()
            held.append(stream)
            # There are always some under way.
            if len(held) > 2:
                peer.answer(held.pop(0), b"busy")

    with Http2Server(serve) as server, Http2Server(echo) as other:
        async with AsyncClient(**PRIOR, timeout=FAR, limits=Limits(max_connections=1)) as client:
            tasks = [asyncio.create_task(client.get(server.url)) for _ in range(4)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            waiting = asyncio.create_task(client.get(f"{other.url}/turn"))
            later: list[asyncio.Task[Any]] = []
            while not waiting.done() and len(later) < 200:
                later.append(asyncio.create_task(client.get(server.url)))
                for task in tasks:
                    task.cancel()
                await asyncio.sleep(0.01)
            assert (await waiting).text == "/turn"
            for task in later:
                task.cancel()
            await asyncio.wait(later)


async def test_a_long_response_does_not_hold_up_its_origin() -> None:
    """It yields for a moment only: its connection would not become free."""
    answered = threading.Event()

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.head(stream)
        while True:
            stream, _ = peer.request()
            peer.answer(stream, b"well")
            answered.set()

    with Http2Server(serve) as server, Http2Server(echo) as other:
        async with AsyncClient(**PRIOR, timeout=FAR, limits=Limits(max_connections=1)) as client:
            async with client.stream("GET", server.url):
                waiting = asyncio.create_task(client.get(f"{other.url}/turn"))
                await asyncio.sleep(0)
                assert [(await client.get(server.url)).text for _ in range(3)] == ["well"] * 3
                assert answered.is_set()
                assert not waiting.done()
            assert (await waiting).text == "/turn"


async def test_a_quiet_stream_that_is_closed_is_no_silence() -> None:
    """Nobody has waited for more of it."""

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.head(stream)
        stream, _ = peer.request()
        peer.answer(stream, b"well")

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR, timeout=FAR) as client:
            async with client.stream("GET", server.url):
                await asyncio.sleep(SILENCE_S)
            assert (await client.get(server.url)).text == "well"
            assert server.connections == 1
