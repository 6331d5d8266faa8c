"""HTTP/2 in virtual time: clients that take or send slowly, and what the log says of one that is refused."""

from __future__ import annotations

import asyncio
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
from tests.http.site import Receive, Scope, Send, Wire, reply, serving
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
