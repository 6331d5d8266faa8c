"""WebSockets. The sources are in `records/websocket.toml`."""

from __future__ import annotations

import asyncio

import pytest

from tests.http.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    Frame,
    close,
    deflated,
    frame,
    handshake,
    inflated,
    opened,
)
from tests.http.site import Echo, Receive, Scope, Send, serving


@pytest.fixture
def loop_name() -> str:
    """The server is oneloop's own: there is no stock variant."""
    return "oneloop"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})


@pytest.mark.parametrize("value", [b"notupgrade", b"upgraded, close", b"x-upgrade"])
async def test_a_connection_field_that_only_contains_the_word(value: bytes) -> None:
    heard = Echo()
    async with serving(heard) as site:
        asked = handshake().replace(b"Connection: Upgrade", b"Connection: " + value)
        assert (await site.ask(asked)).status == 200
    assert heard.heard[0].scope["type"] == "http"


@pytest.mark.parametrize("is_compressed", [False, True])
async def test_control_frames_between_the_frames_of_a_message(is_compressed: bool) -> None:
    message = deflated(b"hello") if is_compressed else b"hello"
    rsv = 4 if is_compressed else 0
    fields = [b"Sec-WebSocket-Extensions: permessage-deflate"] if is_compressed else []
    async with serving(echo) as site:
        socket = await opened(site, *fields)
        # Before the first message, between its frames, and again with the next one.
        for _ in range(2):
            await socket.send(frame(PING, b"1") + frame(TEXT, message[:2], final=False, rsv=rsv))
            await socket.send(frame(PING, b"2") + frame(CONTINUATION, message[2:]))
            assert await socket.frame() == Frame(PONG, b"1")
            assert await socket.frame() == Frame(PONG, b"2")
            got = await socket.frame()
            assert got.opcode == TEXT
            assert (inflated(got.payload) if got.rsv else got.payload) == b"hello"
        await socket.send(close(1000))
        assert await socket.closing() == (1000, "")


async def test_a_denial_has_the_fields_of_the_application() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        fields = [(b"content-type", b"text/x-mine"), (b"content-length", b"6")]
        await send({"type": "websocket.http.response.start", "status": 403, "headers": fields})
        await send({"type": "websocket.http.response.body", "body": b"denied"})

    async with serving(app) as site:
        answer = await site.ask(handshake())
    assert answer.body == b"denied"
    assert answer.values(b"content-type") == [b"text/x-mine"]
    assert answer.values(b"content-length") == [b"6"]


@pytest.mark.parametrize("size", [1000, 60_000, 1 << 20])
async def test_a_message_before_the_close_arrives(size: int) -> None:
    """Although the peer, which has not read it, sends on, and answers the close."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "bytes": b"a" * size})
        await send({"type": "websocket.close", "code": 4000})

    async with serving(app) as site:
        socket = await opened(site)
        for _ in range(10):
            await asyncio.sleep(0)
        await socket.send(frame(TEXT, b"more") + close(4000))
        assert await socket.frame() == Frame(BINARY, b"a" * size)
        assert await socket.closing() == (4000, "")


async def test_a_send_that_waits_for_a_peer_that_vanishes() -> None:
    """It waits while the peer does not read, and raises OSError then."""
    errors: list[BaseException] = []
    sent = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await receive()
        await send({"type": "websocket.accept"})
        try:
            for _ in range(1 << 10):
                await send({"type": "websocket.send", "bytes": bytes(1 << 16)})
                sent += 1 << 16
        except OSError as exc:
            errors.append(exc)

    async with serving(app) as site:
        wire = await site.connect()
        assert (await wire.ask(handshake())).status == 101
        before = -1
        while before != sent or not sent:
            before = sent
            for _ in range(100):
                await asyncio.sleep(0)
        assert sent < 1 << 25
        wire.reset()
        await site.until_empty()
    assert len(errors) == 1


async def test_subprotocols_of_several_fields() -> None:
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await receive()
        await send({"type": "websocket.accept", "subprotocol": "c"})

    async with serving(app) as site:
        socket = await opened(site, b"Sec-WebSocket-Protocol: a, b", b"Sec-WebSocket-Protocol:c")
        assert socket.answer.values(b"sec-websocket-protocol") == [b"c"]
        assert (await socket.frame()).opcode == CLOSE
    assert scopes[0]["subprotocols"] == ["a", "b", "c"]


async def test_a_handshake_has_each_field_once() -> None:
    async with serving(echo) as site:
        socket = await opened(site)
        names = [name.lower() for name, _ in socket.answer.fields]
        assert b"date" in names
        assert len(set(names)) == len(names)
        await socket.send(close(1000))
        await socket.closing()
