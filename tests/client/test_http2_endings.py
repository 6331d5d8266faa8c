"""HTTP/2 in the client: how streams and connections end: timeouts, cancellation, refusals, GOAWAY."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import oneloop.tls
from oneloop.http import (
    AsyncClient,
    Client,
    Limits,
    ReadError,
    ReadTimeout,
    RemoteProtocolError,
    Timeout,
    WriteTimeout,
)
from tests.certificates import client_context, server_context
from tests.client.conftest import MakeCaller
from tests.client.http2_server import (
    CANCEL,
    DATA,
    INTERNAL,
    MOST_STREAMS,
    PRIOR,
    REFUSED,
    RST_STREAM,
    SETTINGS,
    WINDOW,
    Http2Peer,
    Http2Server,
    echo,
    frame,
)
from tests.client.servers import RawServer


def silent(peer: Http2Peer) -> None:
    """Response only what asks for it."""
    peer.greet()
    while True:
        stream, fields = peer.request()
        if fields[":path"] == "/answer":
            peer.answer(stream, str(peer.number).encode())


async def test_a_read_timeout_ends_its_stream_only() -> None:
    with Http2Server(silent) as server:
        async with AsyncClient(**PRIOR) as client:
            assert (await client.get(f"{server.url}/answer")).text == "0"
            is_over = asyncio.Event()

            async def others() -> set[str]:
                seen = set()
                while not is_over.is_set():
                    seen.add((await client.get(f"{server.url}/answer")).text)
                    await asyncio.sleep(0.02)
                return seen

            with_others = asyncio.create_task(others())
            with pytest.raises(ReadTimeout):
                await client.get(f"{server.url}/never", timeout=Timeout(60, read=2.0))
            is_over.set()
            assert await with_others == {"0"}
            assert server.connections == 1


async def test_a_connection_that_is_silent_gets_no_further_request() -> None:
    """It may be dead, and nobody has said so."""
    with Http2Server(silent) as server:
        async with AsyncClient(**PRIOR) as client:
            with pytest.raises(ReadTimeout):
                await client.get(f"{server.url}/never", timeout=Timeout(60, read=0.1))
            assert (await client.get(f"{server.url}/answer")).text == "1"


async def test_a_write_timeout() -> None:
    def serve(peer: Http2Peer) -> None:
        peer.greet((WINDOW, 100))
        stream, _ = peer.request()
        peer.answer(stream)
        while True:
            peer.request()

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR, timeout=Timeout(60, write=0.1)) as client:
            await client.get(server.url)
            with pytest.raises(WriteTimeout):
                await client.post(server.url, content=bytes(1000))


async def test_cancellation_resets_its_stream_only() -> None:
    codes = []
    reached = threading.Event()

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        first, _ = peer.request()
        second, _ = peer.request()
        reached.set()
        reset = peer.next(RST_STREAM)
        assert reset.stream == first
        codes.append(struct.unpack(">I", reset.payload)[0])
        peer.answer(second, b"alive")
        third, _ = peer.request()
        peer.answer(third, b"too")

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            first = asyncio.create_task(client.get(server.url))
            second = asyncio.create_task(client.get(server.url))
            await asyncio.to_thread(reached.wait)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert (await second).text == "alive"
            assert (await client.get(server.url)).text == "too"
            assert client.statistics()["opened"] == 1
    assert codes == [CANCEL]


def test_cancelled_by_every_caller(make_caller: MakeCaller) -> None:
    reached = threading.Event()
    codes = []

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        if peer.number == 0:
            peer.request()
            reached.set()
            codes.append(struct.unpack(">I", peer.next(RST_STREAM).payload)[0])
        stream, _ = peer.request()
        peer.answer(stream, b"alive")

    with Http2Server(serve) as server:
        caller = make_caller(**PRIOR)
        caller.cancel_when(reached, "get", server.url)
        # On the same connection, unless this machine was so busy that the server seemed to be silent.
        assert caller.get(server.url).text == "alive"
    assert codes == [CANCEL]


async def test_a_response_that_is_closed_early() -> None:
    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.head(stream)
        peer.data(stream, b"begin")
        assert peer.next(RST_STREAM).stream == stream
        # What was on its way.
        peer.data(stream, b"more")
        stream, _ = peer.request()
        peer.answer(stream, b"next")

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            async with client.stream("GET", server.url) as response:
                assert await anext(response.aiter_bytes()) == b"begin"
            assert (await client.get(server.url)).text == "next"


# -- refusals and ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_refused_request_is_sent_again(method: str) -> None:
    """The server has not looked at it: any method may be repeated."""

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.reset_stream(stream, REFUSED)
        stream, _ = peer.request()
        peer.answer(stream, b"second")

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            content = b"body" if method == "POST" else None
            assert (await client.request(method, server.url, content=content)).text == "second"
            assert client.statistics()["repeated"] == 1


async def test_what_is_always_refused_fails() -> None:
    def serve(peer: Http2Peer) -> None:
        peer.greet()
        while True:
            stream, _ = peer.request()
            peer.reset_stream(stream, REFUSED)

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            with pytest.raises(RemoteProtocolError, match="REFUSED_STREAM"):
                await client.get(server.url)
            assert client.statistics()["repeated"] == 3


async def test_a_refused_body_that_was_begun_is_not_sent_again() -> None:
    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.next(DATA)
        peer.reset_stream(stream, REFUSED)
        peer.wait_for_end()

    async def body() -> AsyncIterator[bytes]:
        while True:
            yield b"part"
            await asyncio.sleep(0.01)

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            with pytest.raises(RemoteProtocolError, match="REFUSED_STREAM"):
                await client.post(server.url, content=body())


async def test_streams_above_the_last_one_of_a_goaway_are_sent_again() -> None:
    def serve(peer: Http2Peer) -> None:
        peer.greet()
        first, _ = peer.request()
        peer.answer(first, b"warm")
        streams = [peer.request()[0] for _ in range(3)]
        if peer.number == 0:
            peer.goaway(streams[0])
            peer.answer(streams[0], b"0")
            assert peer.wait_for_end() is not None
            return
        for stream in streams:
            peer.answer(stream, b"1")

    def second(peer: Http2Peer) -> None:
        if peer.number == 0:
            serve(peer)
            return
        echo(peer)

    with Http2Server(second) as server:
        async with AsyncClient(**PRIOR) as client:
            await client.get(server.url)
            responses = await asyncio.gather(*(client.post(f"{server.url}/{n}") for n in range(3)))
            assert [response.text for response in responses] == ["0", "/1", "/2"]
            assert (client.statistics()["repeated"], server.connections) == (2, 2)


@pytest.mark.parametrize("limits", [Limits(), Limits(max_connections=1)])
async def test_requests_are_sent_again_in_their_order(limits: Limits) -> None:
    """Behind them comes one that has not been sent yet."""
    paths: list[str] = []

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        if peer.number == 0:
            peer.answer(peer.request()[0], b"warm")
            for _ in range(3):
                peer.request()
            return
        for _ in range(4):
            stream, head = peer.request()
            paths.append(head[":path"])
            peer.answer(stream, b"")
        assert peer.wait_for_end() is not None

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR, limits=limits) as client:
            await client.get(server.url)
            requests = [asyncio.ensure_future(client.get(f"{server.url}/{n}")) for n in range(3)]
            while client.statistics()["repeated"] < 3:
                await asyncio.sleep(0)
            await asyncio.gather(*requests, client.get(f"{server.url}/3"))
            assert (paths, server.connections) == (["/0", "/1", "/2", "/3"], 2)


async def test_a_goaway_while_nothing_runs() -> None:
    said = threading.Event()

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.answer(stream, str(peer.number).encode())
        if peer.number == 0:
            peer.goaway(stream)
            peer.wait_delivered()
            said.set()
        peer.wait_for_end()

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            assert (await client.get(server.url)).text == "0"
            said.wait()  # the loop sees nothing of it
            assert (await client.post(server.url)).text == "1"
            assert client.statistics()["repeated"] == 0


@pytest.mark.parametrize("why", ["the server goes away", "it is not kept"])
def test_the_server_sees_the_end_behind_the_last_response(why: str) -> None:
    """The client is plain code, which runs no loop afterwards."""
    is_gone = threading.Event()

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        if why == "the server goes away":
            peer.goaway(stream)
        peer.answer(stream, b"last")
        peer.wait_for_end()
        is_gone.set()

    limits = Limits(max_keepalive_connections=None if why == "the server goes away" else 0)
    with Http2Server(serve) as server, Client(**PRIOR, limits=limits) as client:
        assert client.get(server.url).content == b"last"
        assert is_gone.wait(60)
        assert client.statistics()["open"] == 0


def test_a_connection_that_the_server_has_closed(make_caller: MakeCaller) -> None:
    closed = [threading.Event(), threading.Event()]

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.answer(stream, str(peer.number).encode())
        peer.end()
        closed[peer.number].set()
        peer.wait_for_end()

    with Http2Server(serve) as server:
        caller = make_caller(**PRIOR)
        assert caller.post(server.url).text == "0"
        closed[0].wait()
        assert caller.post(server.url).text == "1"


@pytest.mark.parametrize("how", ["end", "reset"])
async def test_all_streams_fail_with_their_connection(how: str) -> None:
    def serve(peer: Http2Peer) -> None:
        peer.greet()
        for _ in range(3):
            stream, _ = peer.request()
        peer.head(stream)
        if how == "reset":
            peer.reset()

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            done = await asyncio.gather(*(client.get(server.url) for _ in range(3)), return_exceptions=True)
            kind = RemoteProtocolError if how == "end" else ReadError
            assert [type(error) for error in done] == [kind] * 3
            assert len({id(error) for error in done}) == 3
            assert client.statistics()["open"] == 0


async def test_a_stream_that_the_server_resets() -> None:
    def serve(peer: Http2Peer) -> None:
        peer.greet()
        first, _ = peer.request()
        peer.reset_stream(first, INTERNAL)
        second, _ = peer.request()
        peer.head(second)
        peer.data(second, b"part")
        peer.reset_stream(second, CANCEL)
        third, _ = peer.request()
        peer.answer(third, b"alive")

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            with pytest.raises(RemoteProtocolError, match="INTERNAL_ERROR"):
                await client.get(server.url)
            with pytest.raises(RemoteProtocolError, match="CANCEL"):
                await client.get(server.url)
            assert (await client.get(server.url)).text == "alive"


async def test_idle_connections_expire() -> None:
    ended = threading.Event()

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.answer(stream)
        # The client says goodbye.
        peer.next(7)
        assert peer.wait_for_end() == b""
        ended.set()

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR, limits=Limits(keepalive_expiry=0.05)) as client:
            await client.get(server.url)
            await asyncio.to_thread(ended.wait)
            assert client.statistics()["open"] == 0


async def test_the_client_is_closed_with_streams_under_way() -> None:
    reached = threading.Event()

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        for _ in range(2):
            peer.request()
        reached.set()
        peer.wait_for_end()

    with Http2Server(serve) as server:
        client = AsyncClient(**PRIOR)
        tasks = [asyncio.create_task(client.get(server.url)) for _ in range(2)]
        await asyncio.to_thread(reached.wait)
        await client.aclose()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(error).__name__ for error in done] == ["CloseError"] * 2


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_loop_that_ends_with_streams_under_way() -> None:
    reached = threading.Event()

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        peer.request()
        reached.set()
        peer.wait_for_end()

    with Http2Server(serve) as server:
        client = AsyncClient(**PRIOR)

        async def main() -> None:
            task = asyncio.create_task(client.get(server.url))
            await asyncio.to_thread(reached.wait)
            assert not task.done()

        oneloop.run(main())


def test_a_server_of_http1_does_not_speak_it() -> None:
    async def main() -> None:
        async with AsyncClient(**PRIOR) as client:
            with pytest.raises(RemoteProtocolError):
                await client.get(server.url)

    def serve(peer: Any) -> None:
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        peer.wait_for_end()

    with RawServer(serve) as server:
        oneloop.run(main())


def test_a_refused_connection_fails_all_that_wait() -> None:
    async def main() -> list[Any]:
        async with AsyncClient(**PRIOR) as client:
            url = "http://127.0.0.1:1"
            return await asyncio.gather(*(client.get(url) for _ in range(5)), return_exceptions=True)

    assert [type(error).__name__ for error in oneloop.run(main())] == ["ConnectError"] * 5


# -- ways to the server --------------------------------------------------------------------------


@pytest.mark.parametrize("is_secure", [False, True], ids=["http", "https"])
async def test_nothing_begins_on_a_connection_that_has_failed(
    is_secure: bool,
) -> None:
    """A write fails, and what had arrived before is still read. Another one begins in each of the next ticks."""
    is_gone = threading.Event()
    others: list[asyncio.Future[Any]] = []

    def serve(peer: Http2Peer) -> None:
        if peer.number:
            echo(peer)
            return
        peer.greet((MOST_STREAMS, 1))
        stream, _ = peer.request()
        peer.next(DATA, stream)
        peer.answer(stream, b"first")
        # More than one stream from here on.
        peer.send(frame(SETTINGS, 0, 0, struct.pack(">HI", MOST_STREAMS, 100)))
        peer.wait_delivered()
        peer.reset()
        is_gone.set()

    def ask(left: int) -> None:
        others.append(asyncio.ensure_future(client.post(f"{server.url}/{left}", content=b"x")))
        if left:
            loop.call_soon(ask, left - 1)

    async def parts() -> AsyncIterator[bytes]:
        yield b"a"
        waits.set()
        await asyncio.sleep(0)
        # The loop sees nothing of it before it writes again.
        assert is_gone.wait(60)
        loop.call_soon(ask, 5)
        yield b"b"

    loop = asyncio.get_running_loop()
    waits = asyncio.Event()
    settings = {"http2": True, "verify": client_context()} if is_secure else PRIOR
    with Http2Server(serve, server_context() if is_secure else None) as server:
        async with AsyncClient(**settings, limits=Limits(max_connections=1), timeout=60) as client:
            first = asyncio.ensure_future(client.post(server.url, content=parts()))
            await waits.wait()
            second = asyncio.ensure_future(client.post(server.url + "/second", content=b"x"))
            assert [(await first).text, (await second).text] == ["first", "/second"]
            assert [(await other).text for other in others] == [f"/{left}" for left in (5, 4, 3, 2, 1, 0)]
