"""What only shows at certain moments of a connection: its end between two requests, its response between two parts."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from pathlib import Path
from typing import cast

import pytest

from oneloop.http.static import settings
from tests.conftest import settle
from tests.http.frames import CLOSE, PING, PONG, TEXT, Frame, frame, handshake, opened
from tests.http.site import GET, Echo, Receive, Scope, Send, body_of, reply, serving

POST = b"POST / HTTP/1.1\r\nHost: a\r\n"


async def test_an_end_that_comes_with_a_response_leaves_the_next_request() -> None:
    """The next request is kept, and is about to be taken, when the client's end is seen."""
    goes_on = asyncio.Event()
    calls = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal calls
        calls += 1
        await goes_on.wait()
        await reply(send)

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET + GET)
        while not calls:
            await asyncio.sleep(0)
        goes_on.set()
        wire.end()
        assert [(await wire.answer()).status for _ in range(2)] == [200, 200]
        assert await wire.rest() == b""


async def test_a_long_body_ends_the_connection_also_behind_a_streamed_response() -> None:
    """The head had left before the body was known to be too much."""
    calls = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal calls
        calls += 1
        await send({"type": "http.response.start", "status": 403})
        await send({"type": "http.response.body", "body": b"n", "more_body": True})
        await send({"type": "http.response.body", "body": b"o"})

    async with serving(app) as site:
        wire = await site.connect()
        sending = asyncio.ensure_future(wire.send(POST + b"Content-Length: 5000000\r\n\r\n" + bytes(5_000_000) + GET))
        response = await wire.answer()
        assert (response.body, response.closes) == (b"no", False)
        assert await wire.rest() == b""
        await asyncio.wait([sending])
        sending.exception()
    assert calls == 1


async def test_an_early_response_to_a_body_that_was_paused() -> None:
    """The rest of the body is read on and dropped, or the client would not come to the response."""
    goes_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await goes_on.wait()
        await reply(send, b"no", 403)

    size = 40_000_000
    async with serving(app) as site:
        wire = await site.connect()
        sending = asyncio.ensure_future(wire.send(POST + b"Content-Length: %d\r\n\r\n" % size + bytes(size)))
        await settle(2000)
        assert not sending.done(), "reading pauses: there would be room for all of it by now"
        goes_on.set()
        response = await wire.answer()
        assert (response.status, response.closes) == (403, True)
        await sending
        assert await wire.rest() == b""


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_connection_that_is_accepted_during_the_end_has_one_request(is_streamed: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        if is_streamed:
            # The head leaves before its body is known.
            await settle(20)
        await send({"type": "http.response.body", "body": b"a"})

    async with serving(app) as site:
        site.http.shut_down()
        wire = await site.connect()
        assert (await wire.ask()).closes
        assert await wire.rest() == b""


async def test_a_request_that_outlives_its_connection_counts() -> None:
    goes_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/":
            await goes_on.wait()
        await reply(send)

    other = GET.replace(b"/ ", b"/other ")
    async with serving(app, limit_concurrency=1) as site:
        wire = await site.connect()
        await wire.send(GET)
        while not site.http.requests:
            await asyncio.sleep(0)
        wire.reset()
        while site.http.connections:
            await asyncio.sleep(0)
        assert (await site.ask(other)).status == 503
        goes_on.set()
        await site.until_empty()
        assert (await site.ask(other)).status == 200


async def test_a_malformed_body_within_a_response_gets_no_second_head() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        await body_of(receive)

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        assert (await wire.head()).status == 200
        await wire.send(b"no size\r\n")
        assert await wire.rest() == b"4\r\npart\r\n"


@pytest.mark.parametrize("method", [b"GET", b"POST"])
async def test_a_file_for_a_request_whose_body_was_not_asked_for(method: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"file")
    async with serving(Echo(), static=settings([("/static", str(tmp_path))], [])) as site:
        wire = await site.connect()
        await wire.send(
            method + b" /static/file HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        )
        response = await wire.answer()
        assert (response.status, response.closes) == (200 if method == b"GET" else 405, True)
        assert await wire.rest() == b""


async def test_files_for_a_client_that_takes_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(40_000))
    count = 2000
    async with serving(Echo(), static=settings([("/", str(tmp_path))], [])) as site:
        wire = await site.connect(limit=1000)
        transport = cast("asyncio.Transport", wire.writer.transport)
        transport.pause_reading()
        wire.writer.write(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n" * count)
        await settle(5000)
        assert 0 < site.http.total_requests < count / 2
        transport.resume_reading()
        for _ in range(count):
            assert len((await wire.answer()).body) == 40_000


async def test_nothing_is_left_of_an_application_that_has_waited() -> None:
    tasks: list[weakref.ref[asyncio.Task[object]]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(weakref.ref(task))
        await asyncio.sleep(0)
        await reply(send)

    async with serving(app) as site:
        wire = await site.connect()
        for _ in range(3):
            await wire.ask()
        await settle(20)
        gc.collect()
        assert [task() for task in tasks] == [None] * 3


async def test_the_date_goes_on() -> None:
    async with serving(Echo()) as site:
        wire = await site.connect()
        first = (await wire.ask()).values(b"date")
        while (await wire.ask()).values(b"date") == first:
            await asyncio.sleep(0.05)


async def test_the_server_counts_how_much_websockets_have_sent() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        for text in ("one", "two"):
            await send({"type": "websocket.send", "text": text})

    async with serving(app) as site:
        socket = await opened(site)
        assert [(await socket.frame()).payload for _ in range(2)] == [b"one", b"two"]
        assert (await socket.frame()).opcode == CLOSE
        await site.until_idle()
        assert site.http.websocket_bytes == 6


@pytest.mark.parametrize(
    ("kind", "status"), [("websocket.close", 403), ("websocket.http.response.start", 402), ("", 500)]
)
async def test_the_log_is_told_of_websockets_that_were_denied(kind: str, status: int) -> None:
    told: list[tuple[object, ...]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if kind:
            await send({"type": kind, "status": status})
        if kind.endswith("start"):
            await send({"type": "websocket.http.response.body", "body": b"denied"})

    async with serving(app, on_response=lambda *given: told.append(given)) as site:
        assert (await site.ask(handshake())).status == status
        await site.until_idle()
    assert [(given[1], given[4]) for given in told] == [("GET", status)]


async def test_204_has_no_length() -> None:
    """RFC 9110 section 8.6."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, b"", 204)

    async with serving(app) as site:
        wire = await site.connect()
        assert (await wire.ask()).values(b"content-length") == []
        assert (await wire.ask()).status == 204


async def test_an_upgrade_that_http10_does_not_have_is_left_out() -> None:
    kinds: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        kinds.append(scope["type"])
        await reply(send)

    async with serving(app) as site:
        assert (await site.ask(handshake(line=b"GET / HTTP/1.0"))).status == 200
    assert kinds == ["http"]


async def test_a_websocket_goes_on_after_its_peer_has_taken_the_responses() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})

    async with serving(app) as site:
        socket = await opened(site)
        transport = cast("asyncio.Transport", socket.wire.writer.transport)
        transport.pause_reading()
        count, at_once = 0, 8000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                while True:
                    socket.wire.writer.write(frame(PING, b"x" * 125) * at_once)
                    count += at_once
                    await socket.wire.writer.drain()
        transport.resume_reading()
        asking = asyncio.ensure_future(socket.send(frame(TEXT, b"still there?")))
        for _ in range(count):
            assert (await socket.frame()).opcode == PONG
        assert await socket.frame() == Frame(TEXT, b"still there?")
        await asking
