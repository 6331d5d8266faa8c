"""Which connection a request gets: kept ones, limits, queues, timeouts, cancellation, the end of the client."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import Any

import pytest

import oneloop
from oneloop.http import (
    AsyncClient,
    CloseError,
    ConnectError,
    Limits,
    PoolTimeout,
    RemoteProtocolError,
    Response,
    Timeout,
    TotalTimeout,
)
from tests.client.callers import Caller
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, echo, hold
from tests.conftest import settle

NEVER = 3600.0


def test_a_kept_connection_that_the_server_closes_is_not_used(caller: Caller) -> None:
    closed = threading.Event()

    def serve(peer: Peer) -> None:
        target = peer.head().split(b" ")[1]
        peer.answer(target)
        peer.end()
        closed.set()

    with RawServer(serve) as server:
        for number in range(5):
            # Not repeated, so it must not be sent into a connection that is closed.
            assert caller.post(f"{server.url}/{number}", content=b"").content == b"/%d" % number
            assert closed.wait(60)
            closed.clear()
        assert server.connections == 5
    assert caller.statistics()["repeated"] == 0


def test_a_request_is_sent_again_if_the_server_closed_as_it_came(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(b"first")
        if peer.number == 0:
            # The second request is in the socket, and is never read.
            peer.head()
            return
        while peer.head():
            peer.answer(b"again")

    with RawServer(serve) as server:
        assert caller.get(server.url).content == b"first"
        assert caller.get(server.url).content in (b"first", b"again")
        assert caller.statistics()["repeated"] == 1


def test_a_post_is_not_sent_again(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(b"first")
        peer.head()

    with RawServer(serve) as server:
        caller.get(server.url)
        with pytest.raises(RemoteProtocolError):
            caller.post(server.url)
        assert caller.statistics()["repeated"] == 0


def test_a_server_that_sends_slowly_is_in_time() -> None:
    """Each part has the whole time again. The clock is virtual: it jumps whenever nothing is ready."""
    loop = oneloop.Loop(virtual_time=True)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello":
            writer.write(bytes([byte]))
            await asyncio.sleep(1.5)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server, AsyncClient(timeout=Timeout(NEVER, read=2.0)) as client:
            port = server.sockets[0].getsockname()[1]
            response = await client.get(f"http://127.0.0.1:{port}")
            assert response.content == b"hello"
            assert response.elapsed.total_seconds() > 60
        # Before Python 3.12, a server's `wait_closed` does not wait for its connections.
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.1)

    loop.run_until_complete(main())
    loop.close()


def test_total_timeout(make_caller: MakeCaller) -> None:
    caller = make_caller(timeout=Timeout(NEVER, total=0.3))
    ends = threading.Event()

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not ends.wait(0.02):
            peer.send(b"1\r\nx\r\n")

    with RawServer(serve) as server:
        with pytest.raises(TotalTimeout):
            caller.get(server.url)
        ends.set()


async def pieces() -> Any:
    for _ in range(64):
        yield bytes(1 << 20)


def test_refused(caller: Caller) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectError) as caught:
        caller.get(f"http://127.0.0.1:{port}")
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    assert caller.statistics()["open"] == 0


def test_no_such_name(caller: Caller) -> None:
    with pytest.raises(ConnectError):
        caller.get("http://name.invalid")


async def test_limits_and_a_fair_queue() -> None:
    by_connection: list[list[int]] = []
    most = 0
    open_now = 0
    lock = threading.Lock()

    def serve(peer: Peer) -> None:
        nonlocal open_now, most
        numbers: list[int] = []
        by_connection.append(numbers)
        while head := peer.head():
            with lock:
                open_now += 1
                most = max(most, open_now)
            threading.Event().wait(0.002)
            with lock:
                open_now -= 1
            target = head.split(b" ")[1]
            numbers.append(int(target[1:]))
            peer.answer(target)

    with RawServer(serve) as server:
        async with AsyncClient(limits=Limits(max_connections=3), timeout=NEVER) as client:

            async def one(number: int) -> None:
                response = await client.get(f"{server.url}/{number}")
                assert response.text == f"/{number}"

            await asyncio.gather(*[one(number) for number in range(60)])
            assert server.connections == 3 == most
            # Whenever a connection becomes free, it gets the request that waits longest: no later one was before it.
            assert sorted(number for numbers in by_connection for number in numbers) == list(range(60))
            assert [sorted(numbers) for numbers in by_connection] == by_connection


async def test_pool_timeout_and_a_slot_that_becomes_free() -> None:
    answers = threading.Event()

    def serve(peer: Peer) -> None:
        while peer.head():
            answers.wait(30)
            peer.answer(b"late")

    with RawServer(serve) as server:
        async with AsyncClient(limits=Limits(max_connections=1), timeout=Timeout(NEVER, pool=0.05)) as client:
            first = asyncio.ensure_future(client.get(server.url))
            await asyncio.sleep(0.01)
            with pytest.raises(PoolTimeout):
                await client.get(server.url)
            waiting = asyncio.ensure_future(client.get(server.url, timeout=NEVER))
            await asyncio.sleep(0.01)
            answers.set()
            assert [(await first).content, (await waiting).content] == [b"late", b"late"]
            assert server.connections == 1


async def test_another_origin_gets_the_place_of_an_idle_connection() -> None:
    with RawServer(echo) as one, RawServer(echo) as two:
        async with AsyncClient(limits=Limits(max_connections=1), timeout=NEVER) as client:
            for server in (one, two, one, two):
                assert (await client.get(server.url + "/x")).content == b"/x"
            assert client.statistics()["open"] == 1
        assert (one.connections, two.connections) == (2, 2)


async def test_many_origins_share_few_connections() -> None:
    servers = [RawServer(echo) for _ in range(5)]
    for server in servers:
        server.__enter__()
    try:
        async with AsyncClient(limits=Limits(max_connections=2), timeout=NEVER) as client:
            responses = await asyncio.gather(
                *[client.get(f"{servers[number % 5].url}/{number}") for number in range(100)]
            )
            assert [response.text for response in responses] == [f"/{number}" for number in range(100)]
            assert client.statistics()["open"] <= 2
    finally:
        for server in servers:
            server.__exit__(None, None, None)


async def test_idle_connections_expire() -> None:
    with RawServer(echo) as server:
        async with AsyncClient(limits=Limits(keepalive_expiry=0.05)) as client:
            await client.get(server.url)
            assert client.statistics()["idle"] == 1
            while client.statistics()["open"]:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("limit", [None, 1])
async def test_cancelled_at_every_moment(limit: int | None) -> None:
    """Whenever a request is cancelled, its connection is not used again, and others go on."""
    with RawServer(echo) as server:
        async with AsyncClient(limits=Limits(max_connections=limit), timeout=NEVER) as client:
            for steps in range(40):
                task = asyncio.ensure_future(client.get(f"{server.url}/cancelled"))
                await settle(steps)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    assert (await task).content == b"/cancelled"
                assert (await client.get(f"{server.url}/{steps}")).text == f"/{steps}"
            # What was being opened is there, or gone.
            while client.statistics()["open"] != client.statistics()["idle"]:
                await asyncio.sleep(0.001)


async def test_cancelled_while_it_waits_for_a_connection() -> None:
    with RawServer(hold) as server:
        async with AsyncClient(limits=Limits(max_connections=1), timeout=NEVER) as client:
            holding = asyncio.ensure_future(client.get(server.url))
            await asyncio.sleep(0.05)
            waiting = [asyncio.ensure_future(client.get(server.url)) for _ in range(100)]
            await asyncio.sleep(0.01)
            for task in [*waiting, holding]:
                task.cancel()
            results = await asyncio.gather(*waiting, holding, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in results)
            while client.statistics()["open"]:
                await asyncio.sleep(0.001)


async def test_a_response_that_is_left_half_read_closes_its_connection() -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")

    with RawServer(serve) as server:
        async with AsyncClient() as client:
            async with client.stream("GET", server.url) as response:
                async for _ in response.aiter_bytes():
                    break
            while client.statistics()["open"]:
                await asyncio.sleep(0.001)


async def test_a_body_that_is_not_taken_stops_the_server() -> None:
    sent = 0

    def serve(peer: Peer) -> None:
        nonlocal sent
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        for _ in range(1000):
            peer.send(bytes(1_000_000))
            sent += 1

    with RawServer(serve) as server:
        async with AsyncClient(timeout=Timeout(NEVER, read=0.3)) as client:
            async with client.stream("GET", server.url) as response:
                pieces = response.aiter_bytes()
                await anext(pieces)
                # Longer than the read timeout, which is the server's, not the program's.
                await asyncio.sleep(0.6)
                assert sent < 100
                await anext(pieces)
                await pieces.aclose()  # type: ignore[attr-defined]


async def test_a_long_body_whose_reader_comes_late() -> None:
    """It is not read on until somebody wants it, and then whole."""

    def serve(peer: Peer) -> None:
        while peer.head():
            peer.answer(bytes(8_000_000))

    async def rest(_: Response) -> None:
        await asyncio.sleep(0.1)

    with RawServer(serve) as server:
        async with AsyncClient(event_hooks={"response": [rest]}) as client:
            for _ in range(2):
                assert len((await client.get(server.url)).content) == 8_000_000


async def test_the_client_is_closed_under_a_request() -> None:
    with RawServer(hold) as server:
        client = AsyncClient(timeout=NEVER, limits=Limits(max_connections=1))
        under_way = asyncio.ensure_future(client.get(server.url))
        await asyncio.sleep(0.05)
        waiting = asyncio.ensure_future(client.get(server.url))
        await asyncio.sleep(0.01)
        await client.aclose()
        results = await asyncio.gather(under_way, waiting, return_exceptions=True)
        assert [type(result) for result in results] == [CloseError, CloseError]
        with pytest.raises(RuntimeError, match="closed"):
            await client.get(server.url)


def test_a_loop_that_ends_with_requests_under_way() -> None:
    with RawServer(hold) as server:

        async def main() -> asyncio.Task[Any]:
            client = AsyncClient(timeout=NEVER)
            task = asyncio.ensure_future(client.get(server.url))
            await asyncio.sleep(0.05)
            return task

        task = oneloop.run(main())
        assert task.cancelled()


def test_one_client_on_one_loop_after_another() -> None:
    # A connection that is kept when its loop ends would warn, as any transport does.
    client = AsyncClient(limits=Limits(max_keepalive_connections=0))
    with RawServer(echo) as server:

        async def one(last: bool) -> bytes:
            content = (await client.get(server.url + "/x")).content
            if last:
                await client.aclose()
            return content

        assert oneloop.run(one(False)) == b"/x"
        assert oneloop.run(one(True)) == b"/x"
