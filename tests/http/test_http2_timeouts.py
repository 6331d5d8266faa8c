"""HTTP/2 in virtual time: clients that take or send slowly, and what the log says of one that is refused."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from oneloop import testing
from tests.http.http2_peer import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    head,
)
from tests.http.site import Receive, Scope, Send, Wire, reply, serving, small_client
from tests.http.virtual import now_s, virtual
from tests.loops import LoopFactory

GREETING = PREFACE + frame(SETTINGS)


@pytest.fixture
def loop_factory() -> LoopFactory:
    return testing.new_event_loop


async def frames(wire: Wire) -> AsyncIterator[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and payload of what comes, to the end."""
    while True:
        try:
            lead = await wire.reader.readexactly(9)
        except asyncio.IncompleteReadError:
            return
        kind, flags, stream = struct.unpack(">BBI", lead[3:])
        yield kind, flags, stream, await wire.reader.readexactly(int.from_bytes(lead[:3]))


@virtual
async def test_before_its_first_stream_a_connection_has_the_time_for_a_head() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, b"")

    async with serving(app, keep_alive_timeout_s=1, header_timeout_s=20) as site:
        wire = await site.connect()
        await wire.send(GREETING)
        await asyncio.sleep(10)
        await wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head()))
        kinds = [kind async for kind, _, stream, _ in frames(wire) if stream == 1]
        assert kinds[0] == HEADERS
        # After its last stream, that for keeping it.
        assert now_s() <= 14
        wire = await site.connect()
        began_s = now_s()
        await wire.send(GREETING)
        await wire.rest()
        assert 20 <= now_s() - began_s <= 22


@virtual
async def test_a_client_that_takes_a_response_slowly_gets_all() -> None:
    """Each part that it takes gives it the whole time again."""
    size, step = 300_000, 20_000

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, bytes(size))

    async with serving(app, send_timeout_s=30) as site:
        wire = await site.connect()
        await wire.send(GREETING + frame(HEADERS, END_HEADERS | END_STREAM, 1, head()))
        got = opened = 0
        async for kind, flags, _, payload in frames(wire):
            assert kind != RST_STREAM
            if kind != DATA:
                continue
            got += len(payload)
            if flags & END_STREAM:
                break
            if got >= 65_535 + opened:
                await asyncio.sleep(20)
                opened += step
                more = step.to_bytes(4)
                await wire.send(frame(WINDOW_UPDATE, 0, 0, more) + frame(WINDOW_UPDATE, 0, 1, more))
        assert got == size
        # Many times the limit.
        assert now_s() > 200
        await wire.close()


@virtual
async def test_a_client_that_reads_its_socket_slowly_gets_all() -> None:
    """Its windows are wide open: for a long time nothing more of the stream can be sent."""
    size = 8_000_000

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, bytes(size))

    wide = (1 << 30).to_bytes(4)
    greeting = PREFACE + frame(SETTINGS, 0, 0, b"\0\4" + wide) + frame(WINDOW_UPDATE, 0, 0, wide)
    async with serving(app, send_timeout_s=30) as site:
        wire = await small_client(site.port)
        await wire.send(greeting + frame(HEADERS, END_HEADERS | END_STREAM, 1, head()))
        got = 0
        async for kind, flags, _, payload in frames(wire):
            assert kind != RST_STREAM
            if kind != DATA:
                continue
            got += len(payload)
            if flags & END_STREAM:
                break
            if now_s() < 300:
                await asyncio.sleep(10)
        assert got == size
        await wire.close()


async def acknowledge(wire: Wire) -> None:
    """What the client has read is acknowledged 40 ms later (tcp(7)), which is long in virtual time."""
    sock = wire.writer.get_extra_info("socket")
    while True:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        await asyncio.sleep(0.1)


@virtual
async def test_a_stream_that_waits_for_a_more_urgent_one_gets_all() -> None:
    """It is the server that sends the other one first; the client reads all the time."""
    size = 2_000_000

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        parts = 100 if scope["path"] == "/long" else 1
        for _ in range(parts):
            await send({"type": "http.response.body", "body": bytes(size // 100), "more_body": True})
        await send({"type": "http.response.body"})

    def asked(stream: int, path: str, urgency: int) -> bytes:
        fields = head(("priority", f"u={urgency}"), path=path)
        return frame(HEADERS, END_HEADERS | END_STREAM, stream, fields)

    async with serving(app, send_timeout_s=10) as site:
        # Not a `small_client`: the socket is never full.
        wire = await site.connect()
        acknowledging = asyncio.ensure_future(acknowledge(wire))
        await wire.send(GREETING + asked(1, "/long", 0) + asked(3, "/short", 6))
        got = {1: 0, 3: 0}
        ended = []
        async for kind, flags, stream, payload in frames(wire):
            assert kind != RST_STREAM
            if kind != DATA:
                continue
            got[stream] += len(payload)
            if payload:
                more = len(payload).to_bytes(4)
                await wire.send(frame(WINDOW_UPDATE, 0, 0, more) + frame(WINDOW_UPDATE, 0, stream, more))
            if flags & END_STREAM:
                ended.append(stream)
                if len(ended) == 2:
                    break
            await asyncio.sleep(1)
        assert (got, ended) == ({1: size, 3: size // 100}, [1, 3])
        # Many times the limit.
        assert now_s() > 100
        acknowledging.cancel()
        await wire.close()


@virtual
async def test_a_stream_behind_a_more_urgent_one_that_fills_the_socket() -> None:
    """What was sent at once lasts longer than the limit: until the client has read it, no stream is sent."""
    size = 8_000_000

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, bytes(size if scope["path"] == "/long" else 1000))

    def asked(stream: int, path: str, urgency: int) -> bytes:
        fields = head(("priority", f"u={urgency}"), path=path)
        return frame(HEADERS, END_HEADERS | END_STREAM, stream, fields)

    wide = (1 << 30).to_bytes(4)
    greeting = PREFACE + frame(SETTINGS, 0, 0, b"\0\4" + wide) + frame(WINDOW_UPDATE, 0, 0, wide)
    async with serving(app, send_timeout_s=10) as site:
        wire = await small_client(site.port)
        await wire.send(greeting + asked(1, "/long", 0) + asked(3, "/short", 6))
        ended = []
        async for kind, flags, stream, _ in frames(wire):
            assert kind != RST_STREAM
            if flags & END_STREAM and kind == DATA:
                ended.append(stream)
                if len(ended) == 2:
                    break
            if now_s() < 300:
                await asyncio.sleep(1)
        assert ended == [1, 3]
        await wire.close()


@virtual
async def test_a_window_that_stays_closed_while_another_stream_is_read() -> None:
    """Only what is before it in the socket excuses a stream whose window the client does not open."""
    size = 8_000_000
    recorded: list[tuple[Any, bool, float]] = []

    def on_response(*given: Any) -> None:
        recorded.append((given[2], given[8], now_s()))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, bytes(1000 if scope["path"] == "/shut" else size))

    wide = (1 << 30).to_bytes(4)
    greeting = PREFACE + frame(SETTINGS, 0, 0, b"\0\4" + bytes(4)) + frame(WINDOW_UPDATE, 0, 0, wide)
    asked = {path: head(path=path) for path in ("/shut", "/open")}
    async with serving(app, send_timeout_s=30, on_response=on_response) as site:
        wire = await small_client(site.port)
        await wire.send(
            greeting
            + frame(HEADERS, END_HEADERS | END_STREAM, 1, asked["/shut"])
            + frame(HEADERS, END_HEADERS | END_STREAM, 3, asked["/open"])
            + frame(WINDOW_UPDATE, 0, 3, wide)
        )
        kinds = []
        async for kind, flags, stream, _ in frames(wire):
            if stream == 1:
                kinds.append(kind)
            if stream == 3 and flags & END_STREAM:
                break
            if now_s() < 300:
                await asyncio.sleep(10)
        await wire.close()
    [shut, opened] = recorded
    assert shut[:2] == (b"/shut", False)
    assert shut[2] <= 65
    assert opened[:2] == (b"/open", True)
    assert opened[2] > 65
    assert kinds == [HEADERS, RST_STREAM]


@virtual
async def test_a_window_that_stays_closed_while_nothing_is_read() -> None:
    """What is before it in the socket is an excuse only for a client that reads it."""
    recorded: list[tuple[Any, float]] = []

    def on_response(*given: Any) -> None:
        recorded.append((given[2], now_s()))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # The system takes all of it.
        await reply(send, bytes(1000 if scope["path"] == "/shut" else 200_000))

    wide = (1 << 30).to_bytes(4)
    greeting = PREFACE + frame(SETTINGS, 0, 0, b"\0\4" + bytes(4)) + frame(WINDOW_UPDATE, 0, 0, wide)
    asked = {path: head(path=path) for path in ("/shut", "/open")}
    async with serving(app, send_timeout_s=30, on_response=on_response) as site:
        wire = await small_client(site.port)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wire.send(greeting + frame(HEADERS, END_HEADERS | END_STREAM, 1, asked["/open"]))
        await wire.send(frame(WINDOW_UPDATE, 0, 1, wide))
        while not recorded:
            await asyncio.sleep(0)
        await wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, asked["/shut"]))
        while len(recorded) < 2 and now_s() < 300:
            await asyncio.sleep(1)
        assert [path for path, _ in recorded] == [b"/open", b"/shut"]
        assert recorded[1][1] <= 65
        wire.reset()
        await wire.close()


@virtual
async def test_a_client_that_takes_nothing_is_cut_off() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, bytes(300_000))

    async with serving(app, send_timeout_s=30) as site:
        wire = await site.connect()
        await wire.send(GREETING + frame(HEADERS, END_HEADERS | END_STREAM, 1, head()))
        kinds = []
        async for kind, _, _, _ in frames(wire):
            kinds.append(kind)
            if kind == RST_STREAM:
                break
        assert kinds[-1] == RST_STREAM
        assert 30 <= now_s() <= 33
        await wire.close()


@virtual
async def test_the_next_part_of_a_body_has_a_deadline_once_the_last_one_was_taken() -> None:
    """The application has had enough for a while; then it waits for a client that sends nothing more."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(100)
        while (await receive())["type"] != "http.disconnect":
            pass

    async with serving(app, body_timeout_s=30, http2_stream_window=65_535) as site:
        wire = await site.connect()
        await wire.send(GREETING + frame(HEADERS, END_HEADERS, 1, head(method="POST")))
        for _ in range(4):
            await wire.send(frame(DATA, 0, 1, b"a" * 16_000))
        async for kind, _, stream, payload in frames(wire):
            if (kind, stream) == (DATA, 1) and payload:
                break
        assert payload == b"The body of the request took too long to arrive."
        assert 130 <= now_s() <= 133
        await wire.close()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_the_length_of_a_refusal_in_the_log_is_what_was_sent(method: str) -> None:
    told: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async with serving(app, max_body_bytes=10, on_response=lambda *given: told.append(given)) as site:
        wire = await site.connect()
        await wire.send(GREETING + frame(HEADERS, END_HEADERS, 1, head(method=method)) + frame(DATA, 0, 1, b"a" * 11))
        sent = 0
        async for kind, flags, stream, payload in frames(wire):
            sent += len(payload) if kind == DATA else 0
            if stream == 1 and flags & END_STREAM:
                break
        await wire.close()
    assert [(given[1], given[4], given[5]) for given in told] == [(method, 413, sent)]
    assert (sent == 0) == (method == "HEAD")
