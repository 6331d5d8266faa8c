"""Random bytes and mutated requests: no exception, no panic, bounded memory, and a connection that waits or closes.

`ONELOOP_HTTP_STREAMS` says how many streams, 10 000 without it; ten million take some hours.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from typing import Any

import pytest

from oneloop import _native
from tests.conftest import settle
from tests.http import rules
from tests.http.frames import BINARY, CLOSE, CONTINUATION, PING, TEXT, deflated, frame, handshake
from tests.http.site import GET, Echo, Receive, Scope, Send, body_of, reply

STREAMS = int(os.environ.get("ONELOOP_HTTP_STREAMS", "10000"))
SEED = int(os.environ.get("ONELOOP_HTTP_SEED", "12"))


class Transport(asyncio.Transport):
    """Takes everything; knows what asyncio's do."""

    def __init__(self, protocol: Any) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.protocol = protocol
        self.written = bytearray()
        self.is_paused = self.has_ended = self.has_closed = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self.has_closed:
            assert not self.has_ended
            self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_ended = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.has_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        if not self.has_closed:
            self.has_closed = True
            self.protocol.connection_lost(None)

    abort = close


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Every path is another behaviour."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({**message, "type": "websocket.send"})
        return
    kind = len(scope["path"]) % 4
    if kind == 0:
        await asyncio.sleep(0)
    if kind == 1:
        await reply(send, b"early")
        return
    try:
        body = await body_of(receive)
    except ConnectionError:
        return
    if kind == 2:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await asyncio.sleep(0)
        await send({"type": "http.response.body"})
    else:
        await reply(send, body)


VALID = [rule.sent for rule in rules.ACCEPTED]
INVALID = [rule.sent for rule in rules.REFUSED if len(rule.sent) < 1000]
SOCKETS = [
    handshake(b"Sec-WebSocket-Extensions: permessage-deflate")
    + frame(TEXT, b"abc")
    + frame(TEXT, b"ab", final=False)
    + frame(PING, b"p")
    + frame(CONTINUATION, "\u20ac".encode())
    + frame(BINARY, deflated(bytes(3000)), rsv=4)
    + frame(BINARY, bytes(200))
    + frame(CLOSE, b"\x03\xe8bye"),
]
PIECES = [
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b";", b",", b"0\r\n\r\n", b"\r\n\r\n", b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"HTTP/1.1", b"Host: b\r\n", b"\xff", b"f" * 16,
    b"Expect: 100-continue\r\n", b"Upgrade: websocket\r\n", GET,
]  # fmt: skip


def stream(dice: random.Random) -> bytes:
    """One stream of a client: noise, or requests that were damaged."""
    kind = dice.random()
    if kind < 0.15:
        return dice.randbytes(dice.randrange(1, 200))
    if kind < 0.25:
        return bytes(dice.choices(b"GET /HTP1.0\r\n:abc \t0;%", k=dice.randrange(1, 120)))
    source = SOCKETS if kind < 0.4 else INVALID if kind < 0.55 else VALID
    data = bytearray(b"".join(dice.choices(source, k=dice.randrange(1, 4))))
    for _ in range(dice.randrange(0, 5)):
        at = dice.randrange(len(data) + 1)
        deed = dice.randrange(5)
        if deed == 0 and at < len(data):
            data[at] = dice.randrange(256)
        elif deed == 1:
            data[at:at] = dice.choice(PIECES)
        elif deed == 2:
            del data[at : at + dice.randrange(1, 20)]
        elif deed == 3:
            data[at:at] = data[at : at + dice.randrange(1, 40)]
        elif at < len(data):
            data[at] ^= 1 << dice.randrange(8)
    return bytes(data)


def pieces(dice: random.Random, data: bytes) -> list[bytes]:
    """The stream as it may be received."""
    kind = dice.random()
    if kind < 0.5:
        return [data]
    if kind < 0.6:
        return [data[at : at + 1] for at in range(len(data))]
    cuts = sorted(dice.randrange(len(data) + 1) for _ in range(dice.randrange(1, 5)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


async def serve_stream(http: _native.HttpServer, dice: random.Random, data: bytes) -> None:
    connection = http()
    transport = Transport(connection)
    connection.connection_made(transport)
    try:
        for piece in pieces(dice, data):
            if piece and not transport.has_closed:
                connection.data_received(piece)
                if dice.random() < 0.3:
                    await asyncio.sleep(0)
        await settle(3)
        if dice.random() < 0.3 and not transport.has_closed and not connection.eof_received():
            transport.close()
        # Whatever was answered is a response, and no failure of the application's.
        assert not transport.written or transport.written.startswith(b"HTTP/1.1 "), transport.written
        assert len(transport.written) < 1 << 20
        assert b"HTTP/1.1 500" not in transport.written
    finally:
        if not transport.has_closed:
            transport.close()


@pytest.mark.time_limit(120 + STREAMS / 500)
def test_random_streams(loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture) -> None:
    dice = random.Random(SEED)
    http = _native.HttpServer(loop, app, max_body_bytes=1 << 20, ws_max_size=1 << 20, http="1")

    async def work() -> None:
        for number in range(STREAMS):
            data = stream(dice)
            try:
                await serve_stream(http, dice, data)
            except BaseException:
                print(f"stream {number}: {data!r}")
                raise
        while http.requests:
            await asyncio.sleep(0)

    loop.run_until_complete(work())
    assert http.connections == 0
    assert http.requests == 0
    # Refusals are told; nothing is an error.
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_an_endless_stream_is_bounded() -> None:
    """Whatever is sent without an end is refused, or held back, before it is long."""
    starts = [
        b"", b"\r\n", b"GET /", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX: ", GET[:-2],
        rules.CHUNKED, rules.CHUNKED + b"0\r\nX: ", rules.CHUNKED + b"1;", GET, handshake(), handshake() + b"\x82\xff",
    ]  # fmt: skip
    fills = [b"\r\n", b"a", b"\0", b"1\r\na\r\n", b"X: y\r\n", GET, frame(PING, b"a"), frame(TEXT, b"a", final=False)]

    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.get_running_loop().create_future()

    loop = asyncio.get_running_loop()
    for start in starts:
        for fill in fills:
            http = _native.HttpServer(loop, silent, http="1")
            connection = http()
            transport = Transport(connection)
            connection.connection_made(transport)
            connection.data_received(start + fill)
            for _ in range(200):
                if transport.has_closed or transport.is_paused or transport.has_ended:
                    break
                connection.data_received(fill * (8192 // len(fill)))
            else:
                # Empty lines before a request are dropped; a body without a limit is the application's to take.
                raise AssertionError((start, fill))
            assert len(transport.written) < 1 << 16
            transport.close()
            http.abort()
            while http.requests:
                await asyncio.sleep(0)


async def test_messages_are_what_was_sent() -> None:
    """However a valid stream is cut, the application is told the same."""
    dice = random.Random(SEED)
    loop = asyncio.get_running_loop()
    for sent in VALID:
        bodies: set[bytes] = set()
        for _ in range(5):
            echo = Echo()
            http = _native.HttpServer(loop, echo, http="1")
            connection = http()
            transport = Transport(connection)
            connection.connection_made(transport)
            for piece in pieces(dice, sent):
                if piece:
                    connection.data_received(piece)
            while http.requests:
                await asyncio.sleep(0)
            (heard,) = echo.heard
            assert heard.body is not None
            bodies.add(heard.body)
            transport.close()
        assert len(bodies) == 1
