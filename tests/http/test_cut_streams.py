"""HTTP/2: each response is recorded once, in whichever way its stream or connection is cut.

For HTTP/1.1: `test_records`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.http.http2_peer import Peer
from tests.http.records import CLIENT_GONE, LONG_BYTES, WAYS, Course, Records, Row, recorded, until
from tests.http.site import Receive, Scope, Send, reply, serving

CANCEL = 8


def reset_stream(peer: Peer, stream: int) -> None:
    peer.h2.reset_stream(stream, CANCEL)
    peer.flush()


def leave(peer: Peer, stream: int) -> None:
    peer.sock.shutdown(socket.SHUT_WR)
    peer.sock.close()


def reset(peer: Peer, stream: int) -> None:
    peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.sock.close()


def say_goodbye(peer: Peer, stream: int) -> None:
    peer.h2.close_connection()
    peer.flush()
    peer.sock.close()


ENDS: list[Callable[[Peer, int], None]] = [reset_stream, reset, leave, say_goodbye]
# Their response has not begun.
UNBEGUN = ("asgi-whole", "wsgi-list", "green-list")


# A thread does not see that its client has ended its side, and sends its response.
CUTS = [
    (way, end) for way in WAYS for end in ENDS if end in (reset_stream, reset) or way.startswith(("asgi", "static"))
]


@pytest.mark.parametrize(("way", "end"), CUTS)
async def test_a_stream_that_is_cut(way: str, end: Callable[[Peer, int], None], tmp_path: Path) -> None:
    course = Course(tmp_path)
    async with recorded(course, way) as (site, records):
        peer = await asyncio.to_thread(Peer, site.port)
        stream = await asyncio.to_thread(peer.ask, "/waits")
        peer.unread.add(stream)
        await until(lambda: course.waiting)
        if way not in UNBEGUN:
            while not peer.responses[stream].fields:
                assert await asyncio.to_thread(peer.read)
        await asyncio.to_thread(end, peer, stream)
        await until(lambda: records.rows)
        course.is_open.set()
        peer.sock.close()
        await site.until_empty()
    [row] = records.rows
    assert (row.target, row.status, row.is_complete) == (b"/waits", CLIENT_GONE if way in UNBEGUN else 200, False)
    assert row.sent_bytes == 0 if way in UNBEGUN else row.sent_bytes < LONG_BYTES


@pytest.mark.parametrize("end", [*ENDS, None])
async def test_a_response_whose_window_is_closed(end: Callable[[Peer, int], None] | None) -> None:
    """All of it is written, and its application has ended; None: the client opens the window."""
    records = Records()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, bytes(100_000))

    async with serving(app, on_response=records.on_response) as site:
        peer = await asyncio.to_thread(Peer, site.port)
        stream = await asyncio.to_thread(peer.ask, "/")
        peer.unread.add(stream)
        while len(peer.responses[stream].body) < 65_535:
            assert await asyncio.to_thread(peer.read)
        await site.until_idle()
        assert not records.rows
        if end is not None:
            await asyncio.to_thread(end, peer, stream)
        else:
            peer.h2.acknowledge_received_data(65_535, stream)
            peer.flush()
            while not peer.responses[stream].is_complete:
                assert await asyncio.to_thread(peer.read)
        await until(lambda: records.rows)
        peer.sock.close()
        await site.until_empty()
    assert records.rows == [Row("GET", b"/", 200, 100_000 if end is None else 65_535, end is None)]
    assert site.http.total_requests == 1


@pytest.mark.parametrize("end", ["fails", "is refused", "is late"])
async def test_a_stream_that_the_server_ends(end: str) -> None:
    """A part of its response waits for the client's window: only what was in this is counted."""
    records = Records()
    size = 120_000

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(2):
            await send({"type": "http.response.body", "body": bytes(size // 2), "more_body": True})
        if end == "fails":
            raise ValueError("in the middle")
        while (await receive())["type"] != "http.disconnect":
            pass

    options: dict[str, Any] = {"max_body_bytes": 1000, "send_timeout_s": 0.2 if end == "is late" else None}
    async with serving(app, on_response=records.on_response, **options) as site:
        peer = await asyncio.to_thread(Peer, site.port)
        stream = await asyncio.to_thread(lambda: peer.ask("/", "POST", ends=False))
        peer.unread.add(stream)
        while len(peer.responses[stream].body) < 65_535:
            assert await asyncio.to_thread(peer.read)
        if end == "is refused":
            await asyncio.to_thread(lambda: peer.send_body(stream, bytes(1001)))
        await until(lambda: records.rows)
        peer.sock.close()
        await site.until_empty()
    assert records.rows == [Row("POST", b"/", 200, 65_535, False)]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("fields", [(), (("expect", "100-continue"),)])
async def test_a_request_whose_rest_never_comes(fields: Any, end: Callable[[Peer, int], None], tmp_path: Path) -> None:
    course = Course(tmp_path)
    async with recorded(course, "asgi-whole") as (site, records):
        peer = await asyncio.to_thread(Peer, site.port)
        ask = peer.ask
        stream = await asyncio.to_thread(lambda: ask("/waits", "POST", *fields, ends=False))
        await until(lambda: course.waiting)
        await asyncio.to_thread(end, peer, stream)
        await until(lambda: records.rows)
        peer.sock.close()
        await site.until_empty()
    assert records.rows == [Row("POST", b"/waits", CLIENT_GONE, 0, False)]


@pytest.mark.parametrize("end", ["fin", "rst"])
async def test_a_client_that_waits_for_100_continue(end: str, tmp_path: Path) -> None:
    """HTTP/1.1: the application has not asked for the body, and the client leaves."""
    course = Course(tmp_path)
    async with recorded(course, "asgi-whole") as (site, records):
        wire = await site.connect()
        await wire.send(b"POST /waits HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
        await until(lambda: course.waiting)
        if end == "fin":
            wire.writer.close()
        else:
            wire.reset()
        await until(lambda: records.rows)
        await wire.close()
        await site.until_empty()
    assert records.rows == [Row("POST", b"/waits", CLIENT_GONE, 0, False)]
