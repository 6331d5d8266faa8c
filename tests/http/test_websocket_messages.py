"""An open WebSocket: messages, closing of either side, limits, pings, back-pressure, and what goes wrong."""

from __future__ import annotations

import asyncio
import os

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
from tests.http.site import App, Message, Receive, Scope, Send, serving

DEFLATE = b"Sec-WebSocket-Extensions: permessage-deflate"


class Echo:
    """Echoes messages, and keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[Message] = []
        self.has_ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert await receive() == {"type": "websocket.connect"}
        await send({"type": "websocket.accept"})
        while True:
            message = await receive()
            self.told.append(message)
            if message["type"] == "websocket.disconnect":
                self.has_ended.set()
                return
            await send({**message, "type": "websocket.send"})


async def accepted(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})


async def test_messages() -> None:
    echo = Echo()
    async with serving(echo) as site:
        socket = await opened(site)
        for opcode, payload in ((TEXT, "\u20ac".encode()), (BINARY, b"\xff\0"), (TEXT, b""), (BINARY, b"a" * 70_000)):
            await socket.send(frame(opcode, payload))
            assert await socket.frame() == Frame(opcode, payload)
        await socket.send(close(1000))
        assert await socket.closing() == (1000, "")
    assert echo.told[0] == {"type": "websocket.receive", "text": "\u20ac"}
    assert echo.told[1] == {"type": "websocket.receive", "bytes": b"\xff\0"}


async def test_bytewise() -> None:
    echo = Echo()
    async with serving(echo) as site:
        wire = await site.connect()
        sent = (
            handshake()
            + frame(TEXT, b"ab", final=False)
            + frame(PING, b"p")
            + frame(CONTINUATION, b"c")
            + close(4001, "x")
        )
        await wire.send_bytewise(sent)
        await wire.answer()
        assert (await wire.rest()) == b"\x8a\x01p\x81\x03abc\x88\x02\x0f\xa1"
    assert echo.told == [
        {"type": "websocket.receive", "text": "abc"},
        {"type": "websocket.disconnect", "code": 4001, "reason": "x"},
    ]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(TEXT, b"a", mask=None), 1002),
        (frame(TEXT, b"a", rsv=1), 1002),
        (frame(TEXT, b"a", rsv=4), 1002),
        (frame(3), 1002),
        (frame(11), 1002),
        (frame(CONTINUATION, b"a"), 1002),
        (frame(TEXT, b"a", final=False) + frame(TEXT, b"a"), 1002),
        (frame(PING, b"a", final=False), 1002),
        (frame(PING, b"a" * 126), 1002),
        (frame(CLOSE, b"a"), 1002),
        (close(999), 1002),
        (close(1005), 1002),
        (close(1006), 1002),
        (close(1015), 1002),
        (close(5000), 1002),
        (b"\x81\xfe\x00\x05" + bytes(9), 1002),
        (b"\x81\xff" + (5).to_bytes(8, "big") + bytes(9), 1002),
        (b"\x81\xff" + b"\xff" * 8 + bytes(9), 1002),
        (frame(TEXT, b"\xff"), 1007),
        (frame(TEXT, b"\xc3", final=False) + frame(CONTINUATION, b"\x28"), 1007),
        (frame(TEXT, "\u20ac".encode()[:2]), 1007),
        (frame(TEXT, b"\xed\xa0\x80"), 1007),
        (frame(CLOSE, b"\x03\xe8\xff"), 1007),
        (frame(BINARY, bytes(1001)), 1009),
        (frame(BINARY, bytes(600), final=False) + frame(CONTINUATION, bytes(600)), 1009),
        (b"\x82\xff" + (1 << 40).to_bytes(8, "big") + bytes(4), 1009),
    ],
)
async def test_what_a_peer_must_not_send(sent: bytes, code: int) -> None:
    echo = Echo()
    async with serving(echo, ws_max_size=1000) as site:
        socket = await opened(site)
        await socket.send(sent + frame(TEXT, b"after"))
        assert (await socket.closing())[0] == code
        await echo.has_ended.wait()
    # A failure of this side's: no close frame of the peer's came.
    assert [message["type"] for message in echo.told] == ["websocket.disconnect"]
    assert echo.told[0]["code"] == 1006


@pytest.mark.parametrize(
    ("sent", "code", "reason"),
    [
        (close(1000), 1000, ""),
        (close(1001, "gone"), 1001, "gone"),
        (close(3000), 3000, ""),
        (close(4999, "\u20ac"), 4999, "\u20ac"),
        (frame(CLOSE), 1005, ""),
    ],
)
async def test_the_peers_close(sent: bytes, code: int, reason: str) -> None:
    echo = Echo()
    async with serving(echo) as site:
        socket = await opened(site)
        await socket.send(sent)
        got = await socket.frame()
        assert got == Frame(CLOSE, b"" if code == 1005 else code.to_bytes(2, "big"))
        assert await socket.wire.rest() == b""
        await echo.has_ended.wait()
    assert echo.told == [{"type": "websocket.disconnect", "code": code, "reason": reason}]


@pytest.mark.parametrize("way", ["end", "reset", "middle"])
async def test_a_peer_that_vanishes(way: str) -> None:
    echo = Echo()
    async with serving(echo) as site:
        socket = await opened(site)
        if way == "middle":
            await socket.send(frame(TEXT, b"abc")[:-1])
        if way == "reset":
            socket.wire.reset()
        else:
            socket.wire.end()
        await echo.has_ended.wait()
    assert echo.told == [{"type": "websocket.disconnect", "code": 1006, "reason": ""}]


@pytest.mark.parametrize(
    ("message", "code", "reason"),
    [
        ({}, 1000, ""),
        ({"code": 4000, "reason": "why \u20ac"}, 4000, "why \u20ac"),
        ({"code": 1001, "reason": None}, 1001, ""),
        ({"code": None}, 1000, ""),
        ({"reason": "\u20ac" * 42}, 1000, "\u20ac" * 41),
    ],
)
async def test_the_applications_close(message: Message, code: int, reason: str) -> None:
    told: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await accepted(receive, send)
        await send({"type": "websocket.close", **message})
        told.append(await receive())

    async with serving(app) as site:
        socket = await opened(site)
        # What comes between the two close frames is not told.
        await socket.send(frame(TEXT, b"late"))
        got = await socket.frame()
        assert got == Frame(CLOSE, code.to_bytes(2, "big") + reason.encode())
        await socket.send(close(code))
        assert await socket.wire.rest() == b""
        await site.until_idle()
    assert [m["code"] for m in told if m["type"] == "websocket.disconnect"] == [code]


@pytest.mark.parametrize("message", [{"code": 999}, {"code": 1005}, {"code": 70000}, {"code": "x"}])
async def test_a_close_that_cannot_be_sent(message: Message, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await accepted(receive, send)
        await send({"type": "websocket.close", **message})

    async with serving(app) as site:
        socket = await opened(site)
        got = await socket.frame()
        assert got.opcode == CLOSE
        assert int.from_bytes(got.payload[:2], "big") == 1011
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "message",
    [
        {"type": "websocket.accept"},
        {"type": "websocket.send"},
        {"type": "websocket.send", "text": b"bytes"},
        {"type": "websocket.send", "bytes": "text"},
        {"type": "websocket.send", "text": None, "bytes": None},
        {"type": "websocket.send", "text": "\ud800"},
        {"type": "http.response.body", "body": b""},
        {"type": "websocket.http.response.start", "status": 200},
        {},
        None,
    ],
)
async def test_messages_that_cannot_be_sent(message: Message, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await accepted(receive, send)
        await send(message)

    async with serving(app) as site:
        socket = await opened(site)
        got = await socket.frame()
        assert got == Frame(CLOSE, (1011).to_bytes(2, "big"))
    assert len(caplog.records) == 1


async def test_sends_after_a_close(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await accepted(receive, send)
        await send({"type": "websocket.close"})
        for message in ({"type": "websocket.send", "text": "a"}, {"type": "websocket.accept"}):
            with pytest.raises((RuntimeError, OSError)):
                await send(message)

    async with serving(app) as site:
        socket = await opened(site)
        assert (await socket.frame()).opcode == CLOSE
        await socket.send(close(1000))
        assert await socket.wire.rest() == b""
    assert not caplog.records


async def test_sends_to_a_peer_that_has_left(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await accepted(receive, send)
        assert (await receive())["code"] == 1006
        assert (await receive())["code"] == 1006
        await send({"type": "websocket.send", "text": "a"})

    async with serving(app) as site:
        socket = await opened(site)
        socket.wire.reset()
        await site.until_empty()
    assert not caplog.records


@pytest.mark.parametrize(("way", "code"), [("raises", 1011), ("returns", 1000)])
async def test_the_applications_end(way: str, code: int, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await accepted(receive, send)
        await receive()
        if way == "raises":
            raise ValueError("secret")

    async with serving(app) as site:
        socket = await opened(site)
        await socket.send(frame(TEXT, b"a"))
        got = await socket.frame()
        assert got == Frame(CLOSE, code.to_bytes(2, "big"))
        await socket.send(close(code))
        assert await socket.wire.rest() == b""
    assert len(caplog.records) == (way == "raises")


async def test_the_servers_end() -> None:
    echo = Echo()
    goes_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/late":
            await goes_on.wait()
        await echo(scope, receive, send)

    async with serving(app) as site:
        socket = await opened(site)
        late = await site.connect()
        await late.send(handshake(path=b"/late"))
        while site.http.requests < 2:
            await asyncio.sleep(0)
        site.http.shut_down()
        assert (await socket.frame()).payload == (1012).to_bytes(2, "big")
        await socket.send(close(1012))
        assert await socket.wire.rest() == b""
        # One that opens while the server ends is not left open.
        goes_on.set()
        assert (await late.answer()).status == 101
        assert (await late.reader.readexactly(4)) == b"\x88\x02" + (1012).to_bytes(2, "big")
        await late.send(close(1012))
        assert await late.rest() == b""
    assert [message["code"] for message in echo.told] == [1012, 1012]


@pytest.mark.parametrize("kind", ["send", "close"])
async def test_a_send_after_the_servers_end(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    goes_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await accepted(receive, send)
        await goes_on.wait()
        await send({"type": f"websocket.{kind}", "text": "a"})
        # Nobody has told it of the end: its own messages are no mistakes.
        await send({"type": "websocket.send", "text": "a"})

    async with serving(app) as site:
        socket = await opened(site)
        site.http.shut_down()
        goes_on.set()
        await site.until_idle()
        await socket.send(close(1012))
        assert await socket.closing() == (1012, "")
    assert not caplog.records


async def test_pings_are_answered() -> None:
    async with serving(Echo()) as site:
        socket = await opened(site)
        await socket.send(frame(PING, b"x" * 125) + frame(PONG, b"unasked") + frame(PING))
        assert await socket.frame() == Frame(PONG, b"x" * 125)
        assert await socket.frame() == Frame(PONG, b"")


async def test_a_peer_that_responses_pings_stays() -> None:
    echo = Echo()
    async with serving(echo, ws_ping_interval_s=0.05, ws_ping_timeout_s=60) as site:
        socket = await opened(site)
        for _ in range(4):
            ping = await socket.frame()
            assert ping.opcode == PING
            await socket.send(frame(PONG, ping.payload))
        await socket.send(close(1000))
        while (got := await socket.frame()).opcode == PING:
            pass
        assert got.opcode == CLOSE
    assert echo.told[0]["code"] == 1000


async def test_a_peer_that_responses_no_ping_is_gone() -> None:
    echo = Echo()
    async with serving(echo, ws_ping_interval_s=0.05, ws_ping_timeout_s=0.05) as site:
        socket = await opened(site)
        assert (await socket.frame()).opcode == PING
        code, reason = await socket.closing()
        assert (code, reason) == (1011, "keepalive ping timeout")
        await echo.has_ended.wait()
    assert echo.told == [{"type": "websocket.disconnect", "code": 1006, "reason": "keepalive ping timeout"}]


async def test_a_peer_that_does_not_respond_the_close_is_cut_off() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await accepted(receive, send)
        await send({"type": "websocket.close"})

    async with serving(app, ws_ping_interval_s=0.05) as site:
        socket = await opened(site)
        assert (await socket.frame()).opcode == CLOSE
        assert await socket.wire.rest() == b""
        await site.until_empty()


@pytest.mark.parametrize("size", [1, 100, 5_000, 300_000])
async def test_compressed_messages(size: int) -> None:
    async with serving(Echo()) as site:
        socket = await opened(site, DEFLATE + b"; server_no_context_takeover; client_no_context_takeover")
        text = (b"abc" * size)[:size]
        for _ in range(3):
            await socket.send(frame(TEXT, deflated(text), rsv=4))
            got = await socket.frame()
            assert (inflated(got.payload) if got.rsv else got.payload) == text
        half = deflated(text)
        await socket.send(frame(TEXT, half[:2], rsv=4, final=False) + frame(CONTINUATION, half[2:]))
        got = await socket.frame()
        assert (inflated(got.payload) if got.rsv else got.payload) == text


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(TEXT, b"\xff\xff\xff", rsv=4), (1002, 1007)),
        (frame(TEXT, deflated(b"\xff"), rsv=4), (1007,)),
        (frame(BINARY, deflated(bytes(1 << 24)), rsv=4), (1009,)),
        (frame(BINARY, b"a", final=False) + frame(CONTINUATION, b"a", rsv=4), (1002,)),
        (frame(PING, b"a", rsv=4), (1002,)),
    ],
)
async def test_compressed_wrongs(sent: bytes, code: tuple[int, ...]) -> None:
    async with serving(Echo(), ws_max_size=1 << 20) as site:
        socket = await opened(site, DEFLATE)
        await socket.send(sent)
        assert (await socket.closing())[0] in code


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def reader_of_nothing(goes_on: asyncio.Event) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await accepted(receive, send)
        await goes_on.wait()
        total = 0
        while (message := await receive())["type"] == "websocket.receive":
            total += len(message["bytes"])
            if not message["bytes"].startswith(b"\0"):
                await send({"type": "websocket.send", "text": str(total)})

    return app


@pytest.mark.parametrize("is_bomb", [False, True])
async def test_messages_that_nobody_takes(is_bomb: bool) -> None:
    """So much is kept, and no more, however well it was compressed; nothing is lost."""
    goes_on = asyncio.Event()
    async with serving(reader_of_nothing(goes_on)) as site:
        socket = await opened(site, *([DEFLATE + b"; client_no_context_takeover"] if is_bomb else []))
        before = resident_bytes()
        size = 8 << 20 if is_bomb else 1 << 20
        message = frame(BINARY, deflated(bytes(size)), rsv=4) if is_bomb else frame(BINARY, bytes(size))

        async def feed() -> None:
            for _ in range(60):
                await socket.send(message)
            await socket.send(frame(BINARY, b"end"))

        feeding = asyncio.ensure_future(feed())
        await asyncio.sleep(0.5)
        assert resident_bytes() - before < 60 << 20
        goes_on.set()
        assert int((await socket.frame()).payload) == 60 * size + 3
        await feeding


async def test_pings_of_a_peer_that_takes_no_responses() -> None:
    async with serving(Echo()) as site:
        socket = await opened(site)
        socket.wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        before = resident_bytes()
        pings = frame(PING, b"x" * 125) * 8000
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                for _ in range(200):
                    await socket.send(pings)
        assert resident_bytes() - before < 60 << 20
        socket.wire.reset()


async def test_a_send_waits_for_a_slow_peer() -> None:
    sent = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await accepted(receive, send)
        for _ in range(100):
            await send({"type": "websocket.send", "bytes": bytes(1 << 20)})
            sent += 1

    async with serving(app) as site:
        socket = await opened(site)
        socket.wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0.3)
        assert sent < 20
        socket.wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(100):
            assert len((await socket.frame()).payload) == 1 << 20
        assert (await socket.frame()).opcode == CLOSE


async def test_full_duplex() -> None:
    echo = Echo()
    async with serving(echo) as site:
        socket = await opened(site)
        count = 20_000

        async def feed() -> None:
            for start in range(0, count, 1000):
                await socket.send(b"".join(frame(TEXT, b"%d" % n) for n in range(start, start + 1000)))

        feeding = asyncio.ensure_future(feed())
        for number in range(count):
            assert (await socket.frame()).payload == b"%d" % number
        await feeding
