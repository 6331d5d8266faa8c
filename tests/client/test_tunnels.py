"""What stands behind a response that ended HTTP: `network_stream`, and the tunnels of proxies."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.http import Client, PrivateAddress, ProxyError
from tests.certificates import client_context
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, hold, secured
from tests.client.test_websockets import client_frame, upgrade

SWITCHES = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
HIGH_BYTES = 256 * 1024
"""python/oneloop/http/client/tunnels.py: when this much was received and not read, reading is paused."""


@pytest.fixture
def httpcore() -> Any:
    """The facade, which needs the original."""
    pytest.importorskip("httpcore", reason="needs the package httpcore")
    from oneloop.compat import httpcore

    return httpcore


@contextmanager
def upgraded(httpcore: Any, server: RawServer) -> Iterator[Any]:
    """The stream behind a response of plain code."""
    with httpcore.ConnectionPool(ssl_context=client_context()) as pool:
        with pool.stream("GET", server.url, headers={"Upgrade": "x"}) as response:
            assert response.status == 101
            yield response.extensions["network_stream"]


def test_what_nobody_reads_stays_with_the_server(httpcore: Any) -> None:
    data = os.urandom(1 << 20) * 32

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(SWITCHES)
        assert peer.sock.recv(1) == b"?"
        peer.send(data)
        peer.end()

    with RawServer(serve) as server, upgraded(httpcore, server) as stream:
        stream.write(b"?")
        got = stream.read(1000)
        # The loop runs, and nobody reads.
        for _ in range(20):
            stream._run(asyncio.sleep(0.01))
        assert len(stream._tunnel._received) < 2 * HIGH_BYTES
        pieces = [got]
        while piece := stream.read(1 << 20):
            pieces.append(piece)
        assert b"".join(pieces) == data


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_stream_is_closed(httpcore: Any, is_taken: bool) -> None:
    ends: list[bytes] = []

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(SWITCHES + b"hello")
        ends.append(peer.wait_for_end())
        is_closed.set()

    async def main(url: str) -> None:
        async with httpcore.AsyncConnectionPool() as pool:
            async with pool.stream("GET", url, headers={"Upgrade": "x"}) as response:
                stream = response.extensions["network_stream"]
                if is_taken:
                    assert await stream.read(100) == b"hello"
                await stream.aclose()
                # Before the response is closed.
                assert await asyncio.to_thread(is_closed.wait, 60)

    is_closed = threading.Event()
    with RawServer(serve) as server:
        oneloop.run(main(server.url))
        is_closed.clear()
        with upgraded(httpcore, server) as stream:
            if is_taken:
                assert stream.read(100) == b"hello"
            stream.close()
            assert is_closed.wait(60)
    assert ends == [b"", b""]


@pytest.mark.parametrize("serving", [RawServer, secured])
def test_what_was_written_arrives_although_the_response_is_closed(httpcore: Any, serving: Any) -> None:
    """`write` returns when the kernel has it: the loop that could send the rest does not run any more."""
    may_read, is_over = threading.Event(), threading.Event()
    written, got = bytearray(), bytearray()

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(SWITCHES)
        assert may_read.wait(60)
        with suppress(OSError):
            while piece := peer.sock.recv(1 << 16):
                got.extend(piece)
        is_over.set()

    with serving(serve) as server:
        with upgraded(httpcore, server) as stream, pytest.raises(httpcore.WriteTimeout):
            while True:
                piece = os.urandom(16 * 1024)
                stream.write(piece, timeout=0.2)
                written += piece
        may_read.set()
        assert is_over.wait(60)
    is_there = got.startswith(written)
    assert is_there, f"{len(got)} of {len(written)} bytes"


async def test_closed_while_tls_begins(httpcore: Any) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(SWITCHES)
        if peer.sock.recv(1):
            asked.set()
            peer.wait_for_end()

    asked = threading.Event()
    with RawServer(serve) as server:
        async with httpcore.AsyncConnectionPool(max_connections=1) as pool:
            async with pool.stream("GET", server.url, headers={"Upgrade": "x"}) as response:
                stream = response.extensions["network_stream"]
                securing = asyncio.ensure_future(stream.start_tls(client_context(), "localhost"))
                await asyncio.to_thread(asked.wait, 60)
                await stream.aclose()
                with pytest.raises(httpcore.ConnectError):
                    await securing
            # Its place is free.
            async with pool.stream("GET", server.url, headers={"Upgrade": "x"}) as response:
                assert response.status == 101


def test_bytes_before_tls_are_refused(httpcore: Any) -> None:
    """Anybody on the way could have put them there."""

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(SWITCHES + b"early")
        peer.wait_for_end()

    with RawServer(serve) as server, upgraded(httpcore, server) as stream:
        with pytest.raises(httpcore.ConnectError, match="before TLS began"):
            stream.start_tls(client_context(), "localhost", 60)


def test_no_tls_behind_the_end_of_the_other_side(httpcore: Any) -> None:
    is_closed = threading.Event()

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(SWITCHES)
        peer.end()
        peer.wait_for_end()
        is_closed.set()

    with RawServer(serve) as server, upgraded(httpcore, server) as stream:
        assert stream.read(10) == b""
        with pytest.raises(httpcore.ConnectError, match="closed"):
            stream.start_tls(client_context(), "localhost", 60)
        # Before the program closes the response.
        assert is_closed.wait(60)


def test_a_proxy_says_nothing_behind_its_response(make_caller: MakeCaller) -> None:
    def serve(peer: Peer) -> None:
        assert peer.head().startswith(b"CONNECT localhost:1 ")
        peer.send(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake")
        peer.wait_for_end()

    with RawServer(serve) as proxy:
        caller = make_caller(proxy=proxy.url, verify=client_context(), timeout=60)
        with pytest.raises(ProxyError, match="more than its answer"):
            caller.get("https://localhost:1/")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_is_no_way_to_private_addresses(make_caller: MakeCaller, scheme: str) -> None:
    with RawServer(hold) as proxy:
        caller = make_caller(proxy=proxy.url, block_private=True, timeout=60)
        with pytest.raises(PrivateAddress):
            caller.get(f"{scheme}://127.0.0.1:1/")
        assert proxy.connections == 0


def run_green(function: Callable[[], None]) -> None:
    async def main() -> None:
        await asyncio.get_running_loop().run_green(function)  # type: ignore[attr-defined]

    oneloop.run(main())


def test_a_green_thread_gives_up_and_waits_again() -> None:
    def serve(peer: Peer) -> None:
        upgrade(peer)
        assert has_given_up.wait(60)
        peer.send(b"\x81\x02hi")
        assert client_frame(peer)[0] == 8
        peer.send(b"\x88\x02\x03\xe8")

    def main() -> None:
        with Client() as client, client.websocket(server.url) as websocket:
            for _ in range(2):
                with green.Timeout(0.02, False):
                    websocket.receive()
            has_given_up.set()
            with green.Timeout(60):
                assert websocket.receive() == "hi"

    has_given_up = threading.Event()
    with RawServer(serve) as server:
        run_green(main)


def test_two_green_threads_that_read_one_response() -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
        assert is_refused.wait(60)
        peer.send(b"body")

    def main() -> None:
        with Client(timeout=60) as client, client.stream("GET", server.url) as response:
            exchange = response._exchange
            caller = response._caller
            assert caller is not None

            async def piece() -> bytes:
                found: bytes = await exchange.piece()
                return found

            first = green.spawn(caller.run, piece())
            green.sleep(0)
            with pytest.raises(RuntimeError, match="already waiting"):
                caller.run(piece())
            is_refused.set()
            assert first.get(timeout=60) == b"body"

    is_refused = threading.Event()
    with RawServer(serve) as server:
        run_green(main)


@pytest.mark.parametrize("resets", [True, False])
def test_a_connection_that_has_failed_before_it_is_read(httpcore: Any, resets: bool) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(SWITCHES + b"abc")
        peer.wait_delivered()
        assert may_end.wait(60)
        (peer.reset if resets else peer.end)()
        is_over.set()

    async def main(url: str) -> None:
        async with httpcore.AsyncConnectionPool() as pool:
            async with pool.stream("GET", url, headers={"Upgrade": "x"}) as response:
                may_end.set()
                while not is_over.is_set():
                    await asyncio.sleep(0.001)
                # The loop sees the end.
                await asyncio.sleep(0.05)
                stream = response.extensions["network_stream"]
                assert await stream.read(10) == b"abc"
                if not resets:
                    assert await stream.read(10) == b""
                    return
                with pytest.raises(httpcore.ReadError):
                    await stream.read(10)

    may_end, is_over = threading.Event(), threading.Event()
    with RawServer(serve) as server:
        oneloop.run(main(server.url))
