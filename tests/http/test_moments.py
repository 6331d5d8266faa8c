"""What only shows at certain moments of a connection: its end between two requests, its answer between two parts."""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

import pytest

from tests.http.frames import PING, PONG, TEXT, Frame, frame, opened
from tests.http.site import GET, Receive, Scope, Send, body_of, reply, serving

POST = b"POST / HTTP/1.1\r\nHost: a\r\n"


async def turns(count: int = 20) -> None:
    """The loop has done what was ready."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_an_end_that_comes_with_an_answer_leaves_the_next_request() -> None:
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


async def test_an_ended_side_is_told_to_the_last_request_only() -> None:
    told: list[bool] = []
    has_ended = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        more = asyncio.ensure_future(receive())
        await has_ended.wait()
        await turns()
        told.append(more.done())
        more.cancel()
        await reply(send)

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET + GET)
        wire.end()
        await turns()
        has_ended.set()
        assert [(await wire.answer()).status for _ in range(2)] == [200, 200]
    assert told == [False, True]


async def test_a_long_body_ends_the_connection_also_behind_a_streamed_answer() -> None:
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
        answer = await wire.answer()
        assert (answer.body, answer.closes) == (b"no", False)
        assert await wire.rest() == b""
        await asyncio.wait([sending])
        sending.exception()
    assert calls == 1


async def test_an_early_answer_to_a_body_that_was_paused() -> None:
    """The rest of the body is read on and dropped, or the client would not come to the answer."""
    goes_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await goes_on.wait()
        await reply(send, b"no", 403)

    size = 40_000_000
    async with serving(app) as site:
        wire = await site.connect()
        sending = asyncio.ensure_future(wire.send(POST + b"Content-Length: %d\r\n\r\n" % size + bytes(size)))
        await turns(2000)
        assert not sending.done(), "reading pauses: there would be room for all of it by now"
        goes_on.set()
        answer = await wire.answer()
        assert (answer.status, answer.closes) == (403, True)
        await sending
        assert await wire.rest() == b""


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_connection_that_is_accepted_during_the_end_has_one_request(is_streamed: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        if is_streamed:
            # The head leaves before its body is known.
            await turns()
        await send({"type": "http.response.body", "body": b"a"})

    async with serving(app) as site:
        site.http.shut_down()
        wire = await site.connect()
        assert (await wire.ask()).closes
        assert await wire.rest() == b""


async def test_a_websocket_goes_on_after_its_peer_has_taken_the_answers() -> None:
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
