"""Deadlines, in virtual time: heads, bodies, idle connections, peers that take nothing or do not end."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from oneloop import testing
from oneloop.http.static import settings
from tests.http.frames import BINARY, CLOSE, PING, PONG, TEXT, Frame, frame, handshake, opened
from tests.http.site import GET, Echo, Receive, Scope, Send, body_of, reply, serving, small_client
from tests.http.virtual import now_s, virtual
from tests.loops import LoopFactory


@pytest.fixture
def loop_factory() -> LoopFactory:
    return testing.new_event_loop


@virtual
async def test_an_idle_connection_is_closed() -> None:
    """Before its first request after the time for a head, behind a response after that for keeping it alive."""
    async with serving(Echo(), keep_alive_timeout_s=5, header_timeout_s=20) as site:
        wire = await site.connect()
        assert await wire.rest() == b""
        assert 20 <= now_s() <= 22
        wire = await site.connect()
        await wire.ask()
        began_s = now_s()
        assert await wire.rest() == b""
        assert 5 <= now_s() - began_s <= 7


@virtual
async def test_a_keep_alive_time_of_nearly_nothing_begins_behind_a_response() -> None:
    async with serving(Echo(), keep_alive_timeout_s=0.001, header_timeout_s=20) as site:
        wire = await site.connect()
        await asyncio.sleep(10)
        assert (await wire.ask()).status == 200
        assert await wire.rest() == b""
        assert now_s() <= 12


@virtual
@pytest.mark.parametrize("is_recorded", [False, True])
async def test_the_keep_alive_time_begins_also_behind_a_file(tmp_path: Path, is_recorded: bool) -> None:
    (tmp_path / "file").write_bytes(b"file")
    options = {"on_response": lambda *_: None} if is_recorded else {}
    folders = settings([("/", str(tmp_path))], [])
    async with serving(Echo(), static=folders, keep_alive_timeout_s=5, header_timeout_s=20, **options) as site:
        wire = await site.connect()
        assert (await wire.ask(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n")).body == b"file"
        # While the file is opened, the virtual time goes on.
        began_s = now_s()
        assert await wire.rest() == b""
        assert 5 <= now_s() - began_s <= 7


@virtual
async def test_a_head_that_does_not_end_is_answered() -> None:
    async with serving(Echo(), keep_alive_timeout_s=5, header_timeout_s=20) as site:
        wire = await site.connect()
        await wire.send(b"GET / HTTP/1.1\r\n")
        response = await wire.answer()
        assert (response.status, response.closes) == (408, True)
        assert await wire.rest() == b""
        assert 20 <= now_s() <= 23


@virtual
async def test_a_head_byte_by_byte_has_one_deadline() -> None:
    async with serving(Echo(), header_timeout_s=10) as site:
        wire = await site.connect()
        response = asyncio.ensure_future(wire.answer())
        await wire.send(b"GET / HTTP/1.1\r\nX: ")
        while not response.done():
            await wire.send(b"a")
            await asyncio.sleep(1)
        assert (await response).status == 408
        assert now_s() <= 13


@virtual
async def test_a_body_that_does_not_come_is_answered() -> None:
    async with serving(Echo(), body_timeout_s=30) as site:
        wire = await site.connect()
        await wire.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        response = await wire.answer()
        assert (response.status, response.closes) == (408, True)
        assert 30 <= now_s() <= 33


@virtual
async def test_a_body_that_comes_slowly_is_taken() -> None:
    async with serving(Echo(), body_timeout_s=30) as site:
        wire = await site.connect()
        await wire.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
        for _ in range(10):
            await asyncio.sleep(20)
            await wire.send(b"a")
        assert (await wire.answer()).body == b"a" * 10


@virtual
async def test_an_application_that_reads_late_is_not_the_peers_fault() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(1000)
        await reply(send, b"%d" % len(await body_of(receive)))

    size = 1_000_000
    async with serving(app, body_timeout_s=30) as site:
        wire = await site.connect()
        sending = asyncio.ensure_future(wire.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size))
        await sending
        sending = asyncio.ensure_future(wire.send(bytes(size)))
        assert (await wire.answer()).body == b"%d" % size
        await sending


@virtual
async def test_an_application_that_asks_late_is_not_the_peers_fault() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(1000)
        await reply(send, await body_of(receive))

    async with serving(app, body_timeout_s=30) as site:
        wire = await site.connect()
        await wire.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert (await wire.answer()).status == 100
        await wire.send(b"abc")
        assert (await wire.answer()).body == b"abc"


@virtual
async def test_a_slow_application_has_its_time() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(100_000)
        await reply(send, b"late")

    async with serving(app) as site:
        assert (await site.ask()).body == b"late"


@virtual
async def test_a_refused_peer_that_does_not_end_is_cut_off() -> None:
    async with serving(Echo()) as site:
        wire = await site.connect()
        assert (await wire.ask(b"X\r\n\r\n")).status == 400
        # The kernel acknowledges the end in real time.
        await asyncio.to_thread(time.sleep, 0.1)
        began_s = now_s()
        while site.http.connections and now_s() < began_s + 10:
            await asyncio.sleep(0.5)
        assert now_s() - began_s <= 5


@virtual
async def test_a_fresh_connection_does_not_hold_up_the_end() -> None:
    async with serving(Echo(), keep_alive_timeout_s=100, header_timeout_s=100) as site:
        wire = await site.connect()
        while not site.http.connections:
            await asyncio.sleep(0)
        site.http.shut_down()
        assert await wire.rest() == b""
        assert now_s() <= 4


PROXY_HEADER = b"PROXY TCP4 192.0.2.1 192.0.2.2 1111 443\r\n"
HALF_BODY = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf"


@pytest.mark.parametrize(
    ("before", "behind", "is_proxied"),
    [
        (b"", b"", False),
        (b"", b"G", False),
        (GET, b"", False),
        (GET, b"G", False),
        # Its response is sent: the rest would only be dropped.
        (HALF_BODY, b"", False),
        (HALF_BODY, b"x", False),
        (b"", b"", True),
        (b"", PROXY_HEADER[:10], True),
        (b"", PROXY_HEADER, True),
        (PROXY_HEADER[:10], b"", True),
        (PROXY_HEADER[:10], PROXY_HEADER[10:], True),
        (PROXY_HEADER[:10], PROXY_HEADER[10:] + b"G", True),
    ],
)
@virtual
async def test_an_end_waits_for_nothing_that_has_not_come(before: bytes, behind: bytes, is_proxied: bool) -> None:
    """What comes behind the signal has no more time than what came before it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send)

    limits = dict.fromkeys(("keep_alive_timeout_s", "header_timeout_s", "body_timeout_s"), 1000)
    async with serving(app, proxy_protocol=is_proxied, **limits) as site:
        wire = await site.connect()
        await wire.send(before)
        if b"\r\n\r\n" in before:
            await wire.answer()
        while not site.http.connections:
            await asyncio.sleep(0)
        site.http.shut_down()
        await wire.send(behind)
        await wire.rest()
        assert now_s() <= 4


@virtual
async def test_a_connection_that_is_made_during_the_end() -> None:
    """Its handshake of TLS may have taken until then."""
    async with serving(Echo(), keep_alive_timeout_s=1000, header_timeout_s=1000) as site:
        site.http.shut_down()
        wire = await site.connect()
        assert await wire.rest() == b""
        assert now_s() <= 4


@virtual
async def test_a_dropped_body_that_does_not_come() -> None:
    """It was paused when the application answered: from then on the client has its time."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(100)
        await reply(send)

    async with serving(app, body_timeout_s=30) as site:
        wire = await site.connect()
        await wire.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + bytes(100_000))
        assert not (await wire.answer()).closes
        assert await wire.rest() == b""
        assert 130 <= now_s() <= 135


@virtual
async def test_half_a_body_is_told_while_the_response_waits_for_its_client() -> None:
    told: list[tuple[str, float]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": bytes(20_000_000), "more_body": True})
        while not told or told[-1][0] == "http.request":
            message = await receive()
            told.append((message["type"], now_s()))

    async with serving(app) as site:
        wire = await small_client(site.port)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wire.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        while not told:
            await asyncio.sleep(0)
        wire.end()
        await site.until_idle()
        wire.reset()
        await wire.close()
    assert [kind for kind, _ in told] == ["http.request", "http.disconnect"]
    assert told[-1][1] - told[0][1] < 1


@virtual
async def test_a_last_response_that_nobody_takes() -> None:
    """It is short enough for the transport to keep, which never asked anybody to wait."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, bytes(60_000))

    async with serving(app) as site:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(cast("Callable[[], asyncio.Protocol]", site.http), "127.0.0.1", 0)
        server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        wire = await small_client(server.sockets[0].getsockname()[1])
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wire.send(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        while not site.http.total_requests:
            await asyncio.sleep(0)
        while site.http.connections and now_s() < 300:
            await asyncio.sleep(1)
        assert site.http.connections == 0
        server.close()
        wire.reset()
        await wire.close()


@virtual
async def test_a_websocket_is_pinged_also_after_its_peer_was_slow() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "bytes": bytes(8_000_000)})
        await receive()

    async with serving(app, ws_ping_interval_s=20, ws_ping_timeout_s=20) as site:
        websocket = await opened(site)
        assert len((await websocket.frame()).payload) == 8_000_000
        for _ in range(3):
            ping = await websocket.frame()
            assert ping.opcode == PING
            await websocket.send(frame(PONG, ping.payload))
        assert now_s() <= 70


@virtual
async def test_a_busy_application_does_not_cost_its_peer_the_websocket() -> None:
    """While nothing is read, the response to a ping cannot be seen."""
    goes_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await goes_on.wait()
        for _ in range(3):
            assert len((await receive())["bytes"]) == 100_000
        await send({"type": "websocket.send", "text": "all"})

    async with serving(app, ws_ping_interval_s=20, ws_ping_timeout_s=20) as site:
        websocket = await opened(site)
        for _ in range(3):
            await websocket.send(frame(BINARY, bytes(100_000)))
        for _ in range(3):
            ping = await websocket.frame()
            assert ping.opcode == PING
            await websocket.send(frame(PONG, ping.payload))
        assert now_s() >= 60
        goes_on.set()
        assert await websocket.frame() == Frame(TEXT, b"all")


@virtual
async def test_a_websocket_whose_peer_does_not_respond_the_close() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})

    async with serving(app, ws_ping_interval_s=1000) as site:
        websocket = await opened(site)
        assert (await websocket.frame()).opcode == CLOSE
        assert await websocket.wire.rest() == b""
        assert now_s() <= 10


@virtual
async def test_a_websocket_whose_peer_reads_the_close_late_and_does_not_respond() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "bytes": bytes(60_000)})

    async with serving(app, ws_ping_interval_s=1000) as site:
        wire = await small_client(site.port)
        assert (await wire.ask(handshake())).status == 101
        # The server still has something to send when the time for the response is over.
        await asyncio.sleep(3)
        assert len(await wire.rest()) > 60_000
        assert now_s() <= 20
        await wire.close()


@virtual
async def test_a_body_that_stops_after_a_pause() -> None:
    """The application took what was there late: from then on the client has its time."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(100)
        await body_of(receive)

    async with serving(app, body_timeout_s=30) as site:
        wire = await site.connect()
        await wire.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + bytes(100_000))
        assert (await wire.answer()).status == 408
        assert 130 <= now_s() <= 135


@virtual
async def test_a_body_that_was_asked_for_and_does_not_come() -> None:
    async with serving(Echo(), body_timeout_s=30) as site:
        wire = await site.connect()
        await wire.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert [(await wire.answer()).status for _ in range(2)] == [100, 408]
        assert 30 <= now_s() <= 33


@virtual
async def test_a_late_body_does_not_end_a_stream_of_http10_well() -> None:
    """The end of the connection is the end of that response: only a reset says that it is not whole."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        await body_of(receive)

    async with serving(app, body_timeout_s=30) as site:
        wire = await site.connect()
        await wire.send(b"POST / HTTP/1.0\r\nContent-Length: 10\r\n\r\nabc")
        with pytest.raises(ConnectionResetError):
            await wire.answer()


@virtual
async def test_a_proxys_header_byte_by_byte_has_one_deadline() -> None:
    async with serving(Echo(), proxy_protocol=True, header_timeout_s=10) as site:
        wire = await site.connect()
        rest = asyncio.ensure_future(wire.rest())
        for byte in PROXY_HEADER[:-2]:
            if rest.done():
                break
            await wire.send(bytes([byte]))
            await asyncio.sleep(1)
        await rest
        assert 10 <= now_s() <= 13


@virtual
async def test_nothing_behind_a_proxys_header() -> None:
    async with serving(Echo(), proxy_protocol=True, header_timeout_s=5, keep_alive_timeout_s=50) as site:
        wire = await site.connect()
        await wire.send(PROXY_HEADER[:10])
        await asyncio.sleep(2)
        await wire.send(PROXY_HEADER[10:])
        assert await wire.rest() == b""
        assert 7 <= now_s() <= 9


@virtual
async def test_each_file_begins_the_keep_alive_time_anew(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"file")
    folders = settings([("/", str(tmp_path))], [])
    async with serving(Echo(), static=folders, keep_alive_timeout_s=5) as site:
        wire = await site.connect()
        for _ in range(4):
            assert (await wire.ask(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n")).body == b"file"
            await asyncio.sleep(3)


@pytest.mark.parametrize(
    "request_", [GET, GET.replace(b"1.1", b"1.0"), b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"]
)
@pytest.mark.parametrize("parts", [1, 100])
@virtual
async def test_a_peer_that_takes_nothing_is_cut_off(request_: bytes, parts: int) -> None:
    ended: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(parts):
                await send({"type": "http.response.body", "body": bytes(20_000_000 // parts), "more_body": True})
            await send({"type": "http.response.body"})
            ended.append(None)
        except OSError as error:
            ended.append(error)

    async with serving(app, send_timeout_s=30) as site:
        wire = await small_client(site.port)
        await wire.send(request_)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        while (site.http.connections or site.http.requests) and now_s() < 300:
            await asyncio.sleep(1)
        assert (site.http.connections, site.http.requests) == (0, 0)
        wire.reset()
        await wire.close()
    assert len(ended) == 1


@pytest.mark.parametrize(
    ("first", "rest"), [(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", b"0123456789"), (GET, GET)]
)
@virtual
async def test_a_peer_that_sends_on_but_takes_nothing_is_cut_off(first: bytes, rest: bytes) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":
            await reply(send, bytes(20_000_000))
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(20_000_000), "more_body": True})
        await send({"type": "http.response.body"})

    async with serving(app, send_timeout_s=30, keep_alive_timeout_s=1000) as site:
        wire = await small_client(site.port)
        await wire.send(first)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(5)
        await wire.send(rest)
        while (site.http.connections or site.http.requests) and now_s() < 300:
            await asyncio.sleep(1)
        assert (site.http.connections, site.http.requests) == (0, 0)
        wire.reset()


@pytest.mark.parametrize("sent", [frame(PING, b"x"), frame(TEXT, b"x")])
@virtual
async def test_a_websocket_that_sends_on_but_takes_nothing_is_cut_off(sent: bytes) -> None:
    ended: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        try:
            while True:
                await send({"type": "websocket.send", "bytes": os.urandom(100_000)})
        except OSError as error:
            ended.append(error)

    async with serving(app, send_timeout_s=30, ws_ping_interval_s=20, ws_ping_timeout_s=20) as site:
        wire = await small_client(site.port)
        await wire.send(handshake())
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        while (site.http.connections or site.http.requests) and now_s() < 300:
            await asyncio.sleep(1)
            wire.writer.write(sent)
        assert (site.http.connections, site.http.requests) == (0, 0)
        wire.reset()
    assert len(ended) == 1


@virtual
async def test_a_peer_that_takes_slowly_gets_all() -> None:
    size = 8_000_000

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, bytes(size))

    async with serving(app, send_timeout_s=30, keep_alive_timeout_s=5) as site:
        wire = await small_client(site.port)
        await wire.send(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        await wire.head()
        got = 0
        while data := await wire.reader.read(100_000):
            got += len(data)
            await asyncio.sleep(10)
        assert got == size
        await wire.close()
