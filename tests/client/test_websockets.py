"""WebSockets of the client against oneloop's server, and against servers that break the rules."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import oneloop
from oneloop.http import AsyncClient, Client, WebSocketDisconnect, WebSocketUpgradeError, serve
from tests.client.callers import Caller
from tests.client.servers import Peer, RawServer
from tests.conftest import cancelled
from tests.ports import free_port

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


async def echo_app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "websocket":
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})
        return
    await receive()
    if scope["path"] == "/denied":
        await send({"type": "websocket.close"})
        return
    await send({"type": "websocket.accept", "subprotocol": (scope["subprotocols"] or [None])[-1]})
    while (message := await receive())["type"] == "websocket.receive":
        text = message.get("text")
        if text == "close":
            await send({"type": "websocket.close", "code": 4001, "reason": "asked to"})
            return
        await send({"type": "websocket.send", "text": text, "bytes": message.get("bytes")})


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    port = free_port()
    task = asyncio.ensure_future(serve(echo_app, port=port, lifespan="off", access_log=False, log_level="error"))
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            break
        except OSError:
            await asyncio.sleep(0.01)
    try:
        yield f"ws://127.0.0.1:{port}"
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_messages() -> None:
    async with serving() as url, AsyncClient() as client:
        async with client.websocket(url + "/x", subprotocols=["one", "two"]) as socket:
            assert socket.response.status_code == 101
            assert socket.subprotocol == "two"
            for data in ("text ä\0", "", b"bytes", b"", os.urandom(300_000), "long " * 100_000, bytearray(b"x")):
                await socket.send(data)
                assert await socket.receive() == data
            await socket.send_json({"a": [1, None]})
            assert await socket.receive_json() == {"a": [1, None]}
            await socket.ping(b"payload")
            await socket.send("after the ping")
            assert await socket.receive() == "after the ping"
            with pytest.raises(TypeError):
                await socket.send(1)
            with pytest.raises(ValueError, match="125 bytes"):
                await socket.ping(bytes(126))
        assert socket.close_code == 1000
        while client.statistics()["open"]:
            await asyncio.sleep(0.001)
        with pytest.raises(WebSocketDisconnect):
            await socket.send("late")
        with pytest.raises(WebSocketDisconnect):
            await socket.receive()


async def test_the_server_closes() -> None:
    async with serving() as url, AsyncClient() as client, client.websocket(url) as socket:
        await socket.send("close")
        with pytest.raises(WebSocketDisconnect, match="4001 asked to") as caught:
            await socket.receive()
        assert (caught.value.code, caught.value.reason) == (4001, "asked to")
        assert socket.close_code == 4001


async def test_green_threads_and_plain_code() -> None:
    def talk(url: str) -> list[Any]:
        with Client() as client, client.websocket(url) as socket:
            for number in range(3):
                socket.send(f"message {number}")
            first = [socket.receive() for _ in range(3)]
            socket.send_json(1)
            assert socket.receive_json() == 1
            socket.send(b"last")
            for message in socket:
                first.append(message)
                socket.close()
            return first

    async with serving() as url:
        expected = ["message 0", "message 1", "message 2", b"last"]
        loop: Any = asyncio.get_running_loop()
        assert await loop.run_green(talk, url) == expected
        assert await asyncio.to_thread(talk, url) == expected


async def test_refused() -> None:
    async with serving() as url, AsyncClient() as client:
        with pytest.raises(WebSocketUpgradeError, match="403") as caught:
            async with client.websocket(url + "/denied"):
                pass
        assert caught.value.response.status_code == 403
        assert client.statistics()["idle"] == client.statistics()["open"]


def accept_of(head: bytes) -> bytes:
    key = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")).split(b": ")[1]
    return base64.b64encode(hashlib.sha1(key + GUID).digest())


def upgrade(peer: Peer, *fields: str) -> None:
    head = peer.head()
    lines = "".join(f"{field}\r\n" for field in fields)
    peer.send(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        + accept_of(head) + f"\r\n{lines}\r\n".encode()
    )  # fmt: skip


def client_frame(peer: Peer) -> tuple[int, bytes]:
    """Read one short frame of a client."""
    first, second = peer.exactly(2)
    assert second & 0x80, "a client's frames are masked"
    mask = peer.exactly(4)
    data = peer.exactly(second & 0x7F)
    return first & 0x0F, bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


SWITCH = "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
RIGHT = SWITCH + "Sec-WebSocket-Accept: {accept}\r\n"
DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate"


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", "200"),
        ("HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n", "another protocol"),
        ("HTTP/1.1 101 X\r\nUpgrade: websocket\r\n", "Connection"),
        (SWITCH, "Accept"),
        (SWITCH + "Sec-WebSocket-Accept: x\r\n", "Accept"),
        (RIGHT + "Sec-WebSocket-Protocol: other\r\n", "subprotocol"),
        (RIGHT + "Sec-WebSocket-Extensions: x-other\r\n", "extension"),
        (RIGHT + DEFLATE + "; server_max_window_bits=7\r\n", "extension"),
        (RIGHT + DEFLATE + ", permessage-deflate\r\n", "extension"),
        (RIGHT + DEFLATE + "; unknown\r\n", "extension"),
    ],
)
def test_invalid_handshakes(caller: Caller, answer: str, match: str) -> None:
    def serve_one(peer: Peer) -> None:
        head = peer.head()
        peer.send(answer.format(accept=accept_of(head).decode()).encode() + b"\r\n")
        peer.wait_for_end()

    async def opened(url: str) -> None:
        async with caller.client.websocket(url):
            raise AssertionError("it was accepted")

    def opened_here(url: str) -> None:
        with caller.client.websocket(url):
            raise AssertionError("it was accepted")

    with RawServer(serve_one) as server:
        url = f"ws://127.0.0.1:{server.port}/"
        with pytest.raises(WebSocketUpgradeError, match=match):
            caller._run(lambda: opened(url) if caller.kind == "coroutine" else opened_here(url))
        if not answer.startswith("HTTP/1.1 200"):
            assert caller.statistics()["idle"] == 0


FAILURES = [
    (b"\x83\x00", 1002),  # a reserved opcode
    (b"\x81\x80abcd", 1002),  # a masked frame
    (b"\x81\x02\xff\xff", 1007),  # no UTF-8
    (b"\xc1\x01x", 1002),  # compressed, which was not agreed
    (b"\x82\x7f" + struct.pack(">Q", 1 << 40), 1009),  # too long
    (b"\x88\x02\x03\xed", 1002),  # code 1005
]


@pytest.mark.parametrize(("frame", "code"), FAILURES)
async def test_a_server_that_breaks_the_rules(frame: bytes, code: int) -> None:
    got: list[tuple[int, bytes]] = []

    def serve_one(peer: Peer) -> None:
        upgrade(peer)
        peer.send(b"\x81\x01a" + frame + b"\x81\x01b")
        got.append(client_frame(peer))
        peer.wait_for_end()

    with RawServer(serve_one) as server:
        async with AsyncClient() as client, client.websocket(server.url, compress=False) as socket:
            assert await socket.receive() == "a"
            with pytest.raises(WebSocketDisconnect) as caught:
                await socket.receive()
            assert caught.value.code == code
    assert got == [(8, struct.pack(">H", code))] or got[0][1][:2] == struct.pack(">H", code)


async def test_the_end_without_a_close_frame() -> None:
    def serve_one(peer: Peer) -> None:
        upgrade(peer)
        peer.send(b"\x81\x01a\x81\x05cut")

    with RawServer(serve_one) as server:
        async with AsyncClient() as client, client.websocket(server.url) as socket:
            assert await socket.receive() == "a"
            with pytest.raises(WebSocketDisconnect) as caught:
                async for _ in socket:
                    pass
            assert caught.value.code == 1006


async def test_pings_are_answered_and_a_silent_server_is_noticed() -> None:
    got: list[tuple[int, bytes]] = []

    def serve_one(peer: Peer) -> None:
        upgrade(peer)
        peer.send(b"\x89\x02hi\x81\x01a")
        while not got or got[-1][0] != 9:
            got.append(client_frame(peer))
        peer.wait_for_end()

    with RawServer(serve_one) as server:
        async with AsyncClient() as client, client.websocket(server.url, heartbeat=0.5) as socket:
            assert await socket.receive() == "a"
            with pytest.raises(WebSocketDisconnect, match="after a ping"):
                await socket.receive()
    assert got == [(10, b"hi"), (9, b"")]


async def test_a_cancelled_wait_loses_no_message() -> None:
    async with serving() as url, AsyncClient() as client, client.websocket(url) as socket:
        for number in range(20):
            await cancelled(socket.receive(), 1)
            await socket.send(str(number))
            assert await socket.receive() == str(number)


async def test_a_body_of_the_block_that_fails() -> None:
    async with serving() as url, AsyncClient() as client:
        with pytest.raises(LookupError):
            async with client.websocket(url) as socket:
                raise LookupError
        assert socket.close_code == 1011
        task = asyncio.ensure_future(forever(client, url))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])
        while client.statistics()["open"]:
            await asyncio.sleep(0.001)


async def forever(client: AsyncClient, url: str) -> None:
    async with client.websocket(url) as socket:
        await socket.receive()


async def test_messages_above_the_limit() -> None:
    async with serving() as url, AsyncClient() as client:
        async with client.websocket(url, max_message_bytes=1000) as socket:
            await socket.send("x" * 1000)
            assert len(await socket.receive()) == 1000
            await socket.send("x" * 1001)
            with pytest.raises(WebSocketDisconnect) as caught:
                await socket.receive()
            assert caught.value.code == 1009


def test_the_total_timeout_is_that_of_the_handshake() -> None:
    async def main() -> None:
        async with serving() as url, AsyncClient(timeout=oneloop.http.Timeout(60.0, total=2.0)) as client:
            async with client.websocket(url) as socket:
                await asyncio.sleep(2.2)
                await socket.send("x")
                assert await socket.receive() == "x"

    oneloop.run(main())
