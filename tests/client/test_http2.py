"""HTTP/2 in the client: when it is spoken, many requests on a connection, bodies and flow control."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import trustme

import oneloop.tls
from oneloop.http import (
    AsyncClient,
    Client,
    HttpxTransport,
    Limits,
    PoolTimeout,
    Response,
    Timeout,
    WebSocketUpgradeError,
)
from tests.certificates import client_context
from tests.client.conftest import MakeCaller
from tests.client.http2_server import (
    CANCEL,
    DATA,
    MOST_STREAMS,
    PRIOR,
    RST_STREAM,
    SETTINGS,
    WINDOW,
    Http2Peer,
    Http2Server,
    TlsInMemory,
    echo,
    frame,
)
from tests.client.phases import pipe
from tests.client.servers import Peer, RawServer, secured
from tests.client.servers import echo as echo_http1


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture(params=["rustls", "openssl"])
def trusting(request: pytest.FixtureRequest, authority: trustme.CA, tmp_path: Any) -> Any:
    """What a client verifies with."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path) if request.param == "rustls" else ssl.create_default_context(cafile=path)


# -- which protocol ------------------------------------------------------------------------------


def test_it_is_agreed_in_the_handshake(make_caller: MakeCaller, server_context: ssl.SSLContext, trusting: Any) -> None:
    with Http2Server(echo, server_context) as server:
        caller = make_caller(http2=True, verify=trusting)
        responses = [caller.get(f"{server.url}/{number}") for number in range(3)]
        assert [response.text for response in responses] == ["/0", "/1", "/2"]
        assert {response.http_version for response in responses} == {"HTTP/2"}
        assert responses[0].reason_phrase == "OK"
        assert caller.statistics()["opened"] == 1
        caller.close()


def test_a_transport_agrees_it_too(server_context: ssl.SSLContext, trusting: Any) -> None:
    """Also with a context that its constructor has made, because of a file."""
    httpx = pytest.importorskip("httpx")
    with Http2Server(echo, server_context) as server:
        with httpx.Client(transport=HttpxTransport(verify=trusting, http2=True)) as client:
            assert client.get(f"{server.url}/x").http_version == "HTTP/2"


def test_a_server_that_knows_http1_only(make_caller: MakeCaller, server_context: ssl.SSLContext, trusting: Any) -> None:
    def serve(peer: Http2Peer) -> None:
        assert isinstance(peer.sock, ssl.SSLSocket)
        assert peer.sock.selected_alpn_protocol() == "http/1.1"
        while head := super(Http2Peer, peer).head():
            super(Http2Peer, peer).answer(head.split(b" ")[1])

    with Http2Server(serve, server_context) as server:
        server_context.set_alpn_protocols = lambda _: ssl.SSLContext.set_alpn_protocols(server_context, ["http/1.1"])  # type: ignore[method-assign, assignment]
        caller = make_caller(http2=True, verify=trusting)
        assert [caller.get(f"{server.url}/{number}").http_version for number in range(2)] == ["HTTP/1.1"] * 2
        caller.close()


async def test_a_turn_ends_in_time_while_others_come() -> None:
    """The server knows HTTP/1.1 only, and each request needs a connection of its own."""

    def serve(peer: Peer) -> None:
        peer.head()
        time.sleep(0.3)
        peer.answer(b"ok", "200 OK", "Connection: close")

    timeout = Timeout(60, pool=0.5)
    with secured(serve) as server:
        async with AsyncClient(
            http2=True, verify=client_context(), limits=Limits(max_connections=1), timeout=timeout
        ) as client:
            requests = [client.get(server.url) for _ in range(6)]
            results = await asyncio.gather(*requests, return_exceptions=True)
    assert isinstance(results[0], Response)
    assert [type(result) for result in results[2:]] == [PoolTimeout] * 4


def test_it_is_not_asked_for_without_the_argument(
    make_caller: MakeCaller, server_context: ssl.SSLContext, trusting: Any
) -> None:
    def serve(peer: Http2Peer) -> None:
        super(Http2Peer, peer).head()
        super(Http2Peer, peer).answer()

    with Http2Server(serve, server_context) as server:
        caller = make_caller(verify=trusting)
        assert caller.get(server.url).http_version == "HTTP/1.1"
        caller.close()


def test_prior_knowledge(make_caller: MakeCaller) -> None:
    with Http2Server(echo) as server:
        response = make_caller(**PRIOR).get(f"{server.url}/a?b")
        assert (response.http_version, response.text) == ("HTTP/2", "/a?b")


def test_without_tls_it_needs_prior_knowledge(make_caller: MakeCaller) -> None:
    with RawServer(echo_http1) as server:
        assert make_caller(http2=True).get(server.url).http_version == "HTTP/1.1"


def test_one_of_both_must_be_spoken() -> None:
    with pytest.raises(ValueError, match="cannot both be False"):
        AsyncClient(http1=False)


def test_a_context_of_its_own_offers_what_it_was_made_for(server_context: ssl.SSLContext, trusting: Any) -> None:
    """One of rustls cannot be changed."""
    if isinstance(trusting, ssl.SSLContext):
        context: Any = trusting
    else:
        context = oneloop.tls.client_context(ca=trusting, alpn=["h2"])

    async def main() -> str:
        async with AsyncClient(http2=True, verify=context) as client:
            return (await client.get(server.url)).http_version

    with Http2Server(echo, server_context) as server:
        assert oneloop.run(main()) == "HTTP/2"


# -- requests ------------------------------------------------------------------------------------


async def test_the_head_of_a_request() -> None:
    got: list[dict[str, str]] = []

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, fields = peer.request()
        got.append(fields)
        peer.answer(stream)

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            fields = {"X-Name": "value", "Connection": "keep-alive", "TE": "gzip", "Host": "other:80", "Upgrade": "x"}
            # The upgrade of HTTP/1.1 asks for a connection of HTTP/1.1.
            del fields["Upgrade"]
            await client.get(f"{server.url}/path?query", headers=fields)
    (fields,) = got
    assert list(fields)[:4] == [":method", ":authority", ":scheme", ":path"]
    assert [fields[name] for name in list(fields)[:4]] == ["GET", "other:80", "http", "/path?query"]
    assert fields["x-name"] == "value"
    assert not {"connection", "host", "te", "transfer-encoding"} & set(fields)


@pytest.mark.parametrize("kind", ["bytes", "later", "length", "empty", "nothing"])
def test_bodies(make_caller: MakeCaller, kind: str) -> None:
    body = b"0123456789abcdef" * 20_000 if kind not in ("empty", "nothing") else b""
    got: list[tuple[dict[str, str], bytes]] = []

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, fields = peer.request()
        got.append((fields, peer.body(stream) if kind != "nothing" else b""))
        peer.answer(stream, b"taken")

    def parts() -> Iterator[bytes]:
        yield body[:7]
        yield b""
        yield body[7:]

    async def aparts() -> AsyncIterator[bytes]:
        for part in parts():
            yield part

    with Http2Server(serve) as server:
        caller = make_caller(**PRIOR)
        content: Any = body
        if kind in ("later", "length", "empty"):
            content = aparts() if caller.kind == "coroutine" else parts()
        fields = {"Content-Length": str(len(body))} if kind == "length" else {}
        if kind == "nothing":
            assert caller.post(server.url).text == "taken"
        else:
            assert caller.post(server.url, content=content, headers=fields).text == "taken"
    ((fields, taken),) = got
    assert taken == body
    assert "transfer-encoding" not in fields
    if kind in ("bytes", "length"):
        assert fields["content-length"] == str(len(body))


async def test_many_on_one_connection() -> None:
    with Http2Server(echo) as server:
        async with AsyncClient(**PRIOR) as client:
            responses = await asyncio.gather(*(client.get(f"{server.url}/{number}") for number in range(50)))
            assert [response.text for response in responses] == [f"/{number}" for number in range(50)]
            assert client.statistics()["opened"] == server.connections == 1


def both_at_once(peer: Http2Peer) -> None:
    """Allow two streams, and response when both are there."""
    peer.greet((MOST_STREAMS, 2))
    while True:
        first, _ = peer.request()
        second, _ = peer.request()
        for stream in (second, first):
            peer.answer(stream, str(peer.number).encode())


async def test_more_than_the_server_allows_take_another_connection() -> None:
    with Http2Server(both_at_once) as server:
        async with AsyncClient(**PRIOR) as client:
            responses = await asyncio.gather(*(client.get(server.url) for _ in range(4)))
            assert sorted(response.text for response in responses) == ["0", "0", "1", "1"]


async def test_more_than_the_server_allows_wait_where_no_connection_may_be_opened() -> None:
    with Http2Server(both_at_once) as server:
        async with AsyncClient(**PRIOR, limits=Limits(max_connections=1)) as client:
            responses = await asyncio.gather(*(client.get(server.url) for _ in range(6)))
            assert [response.text for response in responses] == ["0"] * 6
            assert client.statistics()["open"] == 1


async def test_the_response_comes_before_the_body_is_sent() -> None:
    reset = []

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.answer(stream, b"no", 403)
        reset.append(struct.unpack(">I", peer.next(RST_STREAM).payload)[0])
        # The connection goes on.
        stream, _ = peer.request()
        peer.answer(stream, b"yes")

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0)

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            assert (await client.post(server.url, content=endless())).status_code == 403
            assert (await client.get(server.url)).text == "yes"
    assert reset == [CANCEL]


async def test_informational_responses_and_trailers() -> None:
    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.head(stream, 103, ("link", "</a>"))
        peer.head(stream, 200, ("a", "b"))
        peer.data(stream, b"body")
        peer.send(
            b"\0\0"
            + bytes([len(block := peer.block(("grpc-status", "0")))])
            + b"\x01\x05"
            + struct.pack(">I", stream)
            + block
        )

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            response = await client.get(server.url)
            assert (response.text, dict(response.headers)) == ("body", {"a": "b"})


# -- flow control --------------------------------------------------------------------------------


async def test_a_response_that_nobody_reads_delays_no_other() -> None:
    held = threading.Event()
    sent: list[int] = []

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        first, _ = peer.request()
        peer.head(first)
        # As much as its window allows, without a look at the connection's.
        for _ in range(32):
            peer.data(first, bytes(16 * 1024))
        held.set()
        while len(sent) < 200:
            stream, _ = peer.request()
            peer.answer(stream, bytes(16 * 1024))
            sent.append(stream)
        peer.next(8, first)
        peer.data(first, b"end", ends=True)

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client, client.stream("GET", server.url) as unread:
            await asyncio.to_thread(held.wait)
            for _ in range(200):
                assert len((await client.get(server.url)).content) == 16 * 1024
            assert (await unread.aread())[-3:] == b"end"
            assert server.connections == 1


async def test_the_window_opens_as_the_program_reads() -> None:
    """A stream gets no more than its window until the program takes some of it."""

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.head(stream)
        window = 0
        total = 0
        settings = 512 * 1024
        while total < 4_000_000:
            if window + settings <= total:
                window += struct.unpack(">I", peer.next(8, stream).payload)[0]
                continue
            peer.data(stream, bytes(min(16_000, window + settings - total)))
            total += min(16_000, window + settings - total)
        peer.data(stream, b"", ends=True)

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client, client.stream("GET", server.url) as response:
            exchange = response._exchange
            total = 0
            async for piece in response.aiter_bytes():
                total += len(piece)
                assert len(piece) <= 512 * 1024
                await asyncio.sleep(0)
            assert total >= 4_000_000
            assert exchange.is_done


async def test_a_body_waits_for_the_servers_window() -> None:
    go = threading.Event()
    parts: list[int] = []

    def serve(peer: Http2Peer) -> None:
        peer.greet((WINDOW, 1000))
        # The window of the first one is that of the RFC, until the settings have arrived.
        stream, _ = peer.request()
        peer.answer(stream)
        stream, _ = peer.request()
        assert len(peer.next(DATA, stream).payload) == 1000
        go.wait(60)
        count = len(parts)
        peer.give(stream, 10_000_000)
        peer.give(0, 10_000_000)
        length, ends = 1000, False
        while not ends:
            got = peer.next(DATA, stream)
            length, ends = length + len(got.payload), got.ends
        peer.answer(stream, f"{count < 40} {length}".encode())

    async def body() -> AsyncIterator[bytes]:
        for _ in range(50):
            parts.append(1)
            yield bytes(16_384)

    async def let_go() -> None:
        while len(parts) < 4:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        go.set()

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            await client.get(server.url)
            response, _ = await asyncio.gather(client.post(server.url, content=body()), let_go())
            assert response.text == f"True {50 * 16_384}"


# -- times and cancellation ----------------------------------------------------------------------


def test_through_a_proxy(make_caller: MakeCaller, server_context: ssl.SSLContext, trusting: Any) -> None:
    """In a tunnel, HTTP/2 is agreed with the server."""

    def proxy(peer: Peer) -> None:
        head = peer.head()
        assert head.startswith(b"CONNECT localhost:")
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        pipe(peer, server.port)

    with Http2Server(echo, server_context) as server, RawServer(proxy) as between:
        caller = make_caller(http2=True, verify=trusting, proxy=between.url)
        responses = [caller.get(f"{server.url}/{number}") for number in range(2)]
        assert [(response.http_version, response.text) for response in responses] == [
            ("HTTP/2", "/0"),
            ("HTTP/2", "/1"),
        ]
        assert between.connections == 1
        caller.close()


@pytest.mark.parametrize("way", ["direct", "proxy", "socket options"])
def test_settings_that_come_with_the_end_of_the_handshake(
    way: str, server_context: ssl.SSLContext, trusting: Any
) -> None:
    """Up to TLS 1.2 the server sends last, and what it says next may be in the same segment."""
    server_context.maximum_version = ssl.TLSVersion.TLSv1_2
    server_context.set_alpn_protocols(["h2"])

    def serve(peer: Peer) -> None:
        if peer.number == 0 and way == "proxy":
            assert peer.head().startswith(b"CONNECT ")
            peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        inside: Any = TlsInMemory(peer.sock, server_context)
        inside.shake_hands()
        inside.tls.write(frame(SETTINGS))
        inside.flush()
        ours = Http2Peer(inside, peer.number)
        ours.begin()
        while True:
            stream, fields = ours.request()
            ours.answer(stream, fields[":path"].encode())

    with RawServer(serve) as server:
        url = f"https://localhost:{server.port}"
        if way == "socket options":
            httpcore = pytest.importorskip("oneloop.compat.httpcore")
            context = trusting if isinstance(trusting, ssl.SSLContext) else ssl.create_default_context(cafile=trusting)
            options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
            with httpcore.ConnectionPool(http2=True, ssl_context=context, socket_options=options) as pool:
                assert [pool.request("GET", f"{url}/{number}").content for number in range(2)] == [b"/0", b"/1"]
        else:
            proxy = server.url if way == "proxy" else None
            with Client(http2=True, verify=trusting, proxy=proxy, trust_env=False) as client:
                assert [client.get(f"{url}/{number}").text for number in range(2)] == ["/0", "/1"]
        assert server.connections == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_connections_of_its_own() -> None:
    with Http2Server(echo) as server, Client(**PRIOR) as client:
        assert client.get(f"{server.url}/a").text == "/a"
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(0 if client.get(f"{server.url}/b").text == "/b" else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert client.get(f"{server.url}/c").text == "/c"
        assert client.statistics()["opened"] == 1
        assert server.connections == 2


async def test_a_websocket_begins_in_http1(server_context: ssl.SSLContext, trusting: Any) -> None:
    """Its connection does not offer HTTP/2."""

    def serve(peer: Http2Peer) -> None:
        assert isinstance(peer.sock, ssl.SSLSocket)
        chosen.append(peer.sock.selected_alpn_protocol())
        if chosen[-1] == "h2":
            echo(peer)
        assert b"upgrade: websocket" in super(Http2Peer, peer).head().lower()
        super(Http2Peer, peer).answer(status="404 Not Found")

    chosen: list[str | None] = []
    with Http2Server(serve, server_context) as server:
        async with AsyncClient(http2=True, verify=trusting) as client:
            assert (await client.get(server.url)).http_version == "HTTP/2"
            with pytest.raises(WebSocketUpgradeError):
                async with client.websocket(server.url):
                    pass
            assert (await client.get(server.url)).http_version == "HTTP/2"
    assert chosen == ["h2", "http/1.1"]
