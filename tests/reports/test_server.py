"""HTTP servers. The sources are in `records/server.toml`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.http.frames import handshake
from tests.http.http2_peer import Peer
from tests.http.site import GET, Echo, Receive, Scope, Send, body_of, reply, serving

LAST = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
UPGRADE_H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"


@pytest.fixture
def loop_name() -> str:
    """The server is oneloop's own: there is no stock variant."""
    return "oneloop"


async def test_a_request_that_came_with_the_one_before() -> None:
    async with serving(Echo()) as site:
        wire = await site.connect()
        await wire.send(GET + LAST)
        assert [(await wire.answer()).status for _ in range(2)] == [200, 200]
        assert await wire.rest() == b""


async def test_a_last_response_says_so() -> None:
    async with serving(Echo()) as site:
        assert (await site.ask(LAST)).closes


async def test_a_connection_that_the_server_closes_is_counted_out() -> None:
    """Otherwise the stop of the server waits for it."""
    async with serving(Echo()) as site:
        for sent in (LAST, b"GET / HTTP/1.0\r\n\r\n", b"nonsense\r\n\r\n"):
            wire = await site.connect()
            await wire.ask(sent)
            assert await wire.rest() == b""
            await wire.close()
        await site.until_empty()


async def test_a_receive_that_is_cancelled() -> None:
    """It ends as cancelled, not with a disconnect that never was; the next one is as before."""
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        listening = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        listening.cancel()
        try:
            seen.append((await listening)["type"])
        except asyncio.CancelledError:
            seen.append("cancelled")
        await reply(send)
        seen.append((await receive())["type"])

    async with serving(app) as site:
        wire = await site.connect()
        assert (await wire.ask(LAST)).status == 200
        await site.until_empty()
    assert seen == ["cancelled", "http.disconnect"]


@pytest.mark.parametrize("cut", [b"0\r\n", b"0\r\n\r", b"0\r\nA: b\r\n", b"0", b""])
async def test_a_chunked_body_without_its_end(cut: bytes) -> None:
    told: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            told.append(message["type"])
            if message["type"] == "http.disconnect":
                return
            assert message["more_body"]

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n" + cut)
        wire.end()
        assert b"HTTP/1.1 2" not in await wire.rest()
        await site.until_empty()
    assert told[-1] == "http.disconnect"


@pytest.mark.parametrize(
    "framed", [b"Content-Length: 4\r\n\r\nbody", b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("is_pipelined", [True, False])
async def test_a_body_with_an_upgrade_that_is_not_offered(framed: bytes, is_pipelined: bool) -> None:
    async with serving(Echo()) as site:
        wire = await site.connect()
        await wire.send(b"POST / HTTP/1.1\r\nHost: a\r\n" + UPGRADE_H2C + framed + (LAST if is_pipelined else b""))
        assert (await wire.answer()).body == b"body"
        if not is_pipelined:
            await wire.send(LAST)
        assert (await wire.answer()).status == 200


@pytest.mark.parametrize("wrong", [(b": 13", b": 99"), (b"Sec-WebSocket-Key: ", b"Sec-WebSocket-Key: x"), (b"", b"")])
async def test_a_request_behind_a_refused_websocket(wrong: tuple[bytes, bytes]) -> None:
    """It is answered, or the response before it says that it will not be."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
        else:
            await reply(send, b"last")

    async with serving(app) as site:
        wire = await site.connect()
        answer = await wire.ask(handshake().replace(*wrong, 1) + LAST)
        assert answer.status in (400, 403, 426)
        if answer.closes:
            assert await wire.rest() == b""
        else:
            assert (await wire.answer()).body == b"last"


async def test_a_target_that_comes_in_pieces_has_a_limit() -> None:
    async with serving(Echo()) as site:
        wire = await site.connect()
        await wire.send(b"GET /")
        sent = 0
        while sent < 1 << 20 and not wire.reader.at_eof() and not wire.reader._buffer:  # type: ignore[attr-defined]
            wire.writer.write(b"a" * 1000)
            sent += 1000
            await asyncio.sleep(0)
        assert (await wire.answer()).status == 414
        assert sent < 1 << 20


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\nA: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\n",
        b"GET /?#part HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /#part HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_heads_that_are_refused(head: bytes) -> None:
    """Lines that end in a bare LF; a fragment, or a host and port, as target; two Hosts, or none."""
    echo = Echo()
    async with serving(echo) as site:
        assert (await site.ask(head)).status == 400
    assert not echo.heard


async def test_what_an_application_is_told_of_a_target() -> None:
    """Of a target with scheme and host: its path alone. Of a value: nothing of the white space around it."""
    echo = Echo()
    async with serving(echo) as site:
        await site.ask(b"GET http://a/b%20c?d=e HTTP/1.1\r\nHost: a\r\nA: b\t \r\nC:  \t d e \t\r\n\r\n")
    scope = echo.heard[0].scope
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/b c", b"/b%20c", b"d=e")
    assert dict(scope["headers"]) == {b"host": b"a", b"a": b"b", b"c": b"d e"}


async def test_a_stream_to_a_client_that_does_not_read() -> None:
    """`send()` waits; when the client has gone, it does no longer."""
    sent = 0
    ended = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200})
        try:
            for _ in range(1 << 10):
                await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})
                sent += 1 << 16
        finally:
            ended.set()

    async with serving(app) as site:
        wire = await site.connect(limit=1)
        await wire.send(GET)
        before = -1
        while before != sent or not sent:
            before = sent
            for _ in range(100):
                await asyncio.sleep(0)
        assert sent < 1 << 25
        assert not ended.is_set()
        wire.reset()
        await ended.wait()


async def test_a_stream_of_http2_that_is_reset() -> None:
    """Also where the application waits for nothing but that."""
    told: asyncio.Queue[Any] = asyncio.Queue()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        await told.put("begun")
        await told.put((await receive())["type"])

    async with serving(app) as site:
        peer = await asyncio.to_thread(Peer, site.port)
        number = await asyncio.to_thread(peer.ask, "/")
        assert await told.get() == "begun"
        peer.h2.reset_stream(number, 8)
        await asyncio.to_thread(peer.flush)
        assert await told.get() == "http.disconnect"
        peer.sock.close()
