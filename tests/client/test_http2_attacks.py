"""Servers of HTTP/2 that do what they may not: each request fails with RemoteProtocolError, soon, and within bounds."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from oneloop.http import AsyncClient, RemoteProtocolError, Timeout
from tests.client.http2_server import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PUSH,
    SETTINGS,
    WINDOW_UPDATE,
    Http2Peer,
    Http2Server,
    echo,
    frame,
)

pytestmark = pytest.mark.time_limit(180)

PRIOR: dict[str, Any] = {"http1": False, "http2": True, "timeout": Timeout(20)}
MOST_GROWTH_BYTES = 32 << 20


def fields_without_end(peer: Http2Peer, stream: int) -> None:
    peer.send(frame(HEADERS, 0, stream, peer.block((":status", "200"))))
    while True:
        peer.send(frame(CONTINUATION, 0, stream, peer.block(("name", "x" * 8000))))


def continuation_flood(peer: Http2Peer, stream: int) -> None:
    peer.send(frame(HEADERS, 0, stream, peer.block((":status", "200"))))
    while True:
        peer.send(frame(CONTINUATION, 0, stream) * 1000)


def head_too_long(peer: Http2Peer, stream: int) -> None:
    fields = [(f"name-{number}", "x" * 10) for number in range(300)]
    peer.head(stream, 200, *fields, ends=True)


def hpack_bomb(peer: Http2Peer, stream: int) -> None:
    """A long field that is repeated by its number in the table."""
    block = peer.block((":status", "200"), ("bomb", "x" * 4000))
    peer.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block + b"\xbe" * 12_000))


def bad_hpack(peer: Http2Peer, stream: int) -> None:
    peer.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\xff\xff\xff\xff\xff\xff"))


def connection_window_overflow(peer: Http2Peer, _stream: int) -> None:
    for _ in range(2):
        peer.give(0, 0x7FFFFFFF)


def stream_window_overflow(peer: Http2Peer, stream: int) -> None:
    for _ in range(2):
        peer.give(stream, 0x7FFFFFFF)


def window_of_nothing(peer: Http2Peer, stream: int) -> None:
    peer.send(frame(WINDOW_UPDATE, 0, stream, bytes(4)))


def data_before_the_head(peer: Http2Peer, stream: int) -> None:
    peer.data(stream, b"data", ends=True)


def data_of_another_length(peer: Http2Peer, stream: int) -> None:
    peer.head(stream, 200, ("content-length", "3"))
    peer.data(stream, b"four", ends=True)


def data_on_no_stream(peer: Http2Peer, _stream: int) -> None:
    peer.data(0, b"data")


def data_on_an_unopened_stream(peer: Http2Peer, stream: int) -> None:
    peer.data(stream + 100, b"data")


def head_on_an_unopened_stream(peer: Http2Peer, stream: int) -> None:
    peer.head(stream + 100)


def head_on_a_stream_of_the_server(peer: Http2Peer, _stream: int) -> None:
    peer.head(2)


def push(peer: Http2Peer, stream: int) -> None:
    block = peer.block((":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/"))
    peer.send(frame(PUSH, END_HEADERS, stream, struct.pack(">I", 2) + block))


def long_frame(peer: Http2Peer, stream: int) -> None:
    peer.head(stream)
    peer.data(stream, bytes(16_385))


def long_ping(peer: Http2Peer, _stream: int) -> None:
    peer.send(frame(PING, 0, 0, bytes(9)))


def bad_settings(peer: Http2Peer, _stream: int) -> None:
    peer.send(frame(SETTINGS, 0, 0, struct.pack(">HI", 5, 1)))


def goaway_with_an_error(peer: Http2Peer, stream: int) -> None:
    peer.send(frame(GOAWAY, 0, 0, struct.pack(">II", stream, 11)))
    # Closing with unread bytes would be a reset.
    peer.sock.shutdown(socket.SHUT_WR)
    while peer.sock.recv(65536):
        pass
    raise ConnectionError("of the test")


def goaway_and_a_reset(peer: Http2Peer, stream: int) -> None:
    peer.send(frame(GOAWAY, 0, 0, struct.pack(">II", stream, 11)))
    # Until the client has read it, and waits for nothing but the response.
    time.sleep(0.1)
    peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise ConnectionError("of the test")


def interim_flood(peer: Http2Peer, stream: int) -> None:
    while True:
        peer.head(stream, 103)


def no_status(peer: Http2Peer, stream: int) -> None:
    peer.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, peer.block(("a", "b"))))


def bad_field(*field: tuple[str, str]) -> Callable[[Http2Peer, int], None]:
    def serve(peer: Http2Peer, stream: int) -> None:
        peer.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, peer.block(*field)))

    return serve


STATUS = (":status", "200")
ATTACKS: dict[str, Callable[[Http2Peer, int], None]] = {
    call.__name__: call
    for call in (
        fields_without_end,
        continuation_flood,
        head_too_long,
        hpack_bomb,
        bad_hpack,
        connection_window_overflow,
        stream_window_overflow,
        window_of_nothing,
        data_before_the_head,
        data_of_another_length,
        data_on_no_stream,
        data_on_an_unopened_stream,
        head_on_an_unopened_stream,
        head_on_a_stream_of_the_server,
        push,
        long_frame,
        long_ping,
        bad_settings,
        goaway_with_an_error,
        goaway_and_a_reset,
        interim_flood,
        no_status,
    )
} | {
    "two statuses": bad_field(STATUS, STATUS),
    "status that is no number": bad_field((":status", "2xx")),
    "status 101": bad_field((":status", "101")),
    "status below 100": bad_field((":status", "099")),
    "pseudo field behind others": bad_field(("a", "b"), STATUS),
    "unknown pseudo field": bad_field(STATUS, (":other", "1")),
    "field of requests": bad_field(STATUS, (":path", "/")),
    "upper case": bad_field(STATUS, ("Name", "value")),
    "line break": bad_field(STATUS, ("name", "a\r\nb: c")),
    "null": bad_field(STATUS, ("name", "a\0b")),
    "connection": bad_field(STATUS, ("connection", "close")),
    "transfer-encoding": bad_field(STATUS, ("transfer-encoding", "chunked")),
    "empty name": bad_field(STATUS, ("", "value")),
    "two lengths": bad_field(STATUS, ("content-length", "1"), ("content-length", "2")),
    "length that is no number": bad_field(STATUS, ("content-length", "+1")),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_it_fails(name: str) -> None:
    """With RemoteProtocolError; another connection does not notice, and the next request has a response."""

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        while True:
            stream, fields = peer.request()
            if fields[":path"] == "/fine":
                peer.answer(stream, b"fine")
            else:
                ATTACKS[name](peer, stream)

    def alone(peer: Http2Peer) -> None:
        echo(peer)

    with Http2Server(serve) as server, Http2Server(alone) as neighbour:
        async with AsyncClient(**PRIOR) as client:
            assert (await client.get(f"{neighbour.url}/a")).text == "/a"
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            with pytest.raises(RemoteProtocolError) as raised:
                # Those that send a body without end must not be read to it.
                async with client.stream("POST", f"{server.url}/attack", content=b"body") as response:
                    async for _ in response.aiter_raw():
                        pass
            assert str(raised.value)
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_GROWTH_BYTES // 1024
            assert (await client.get(f"{server.url}/fine")).text == "fine"
            assert (await client.get(f"{neighbour.url}/b")).text == "/b"
            assert client.statistics()["opened"] <= 3


FLOODS: dict[str, bytes] = {
    "ping": frame(PING, 0, 0, bytes(8)),
    "settings": frame(SETTINGS),
    "window updates": frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)),
    "empty frames": frame(DATA, 0, 1),
    "frames of an unknown kind": frame(0xFE, 0, 0, bytes(100)),
    "priority": frame(2, 0, 1, bytes(4) + b"\1"),
}


@pytest.mark.parametrize("name", FLOODS)
async def test_floods_cost_no_memory(name: str) -> None:
    """What is allowed is answered or passed over. A server that reads no responses gets no more of them."""

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.head(stream)
        for _ in range(60):
            peer.send(FLOODS[name] * 1000)
        peer.data(stream, b"end", ends=True)
        peer.wait_for_end()

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            # nghttp2 has had enough of some of them.
            with suppress(RemoteProtocolError):
                assert (await client.get(server.url)).text == "end"
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_GROWTH_BYTES // 1024


async def test_more_than_the_window() -> None:
    def serve(peer: Http2Peer) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.head(stream)
        while True:
            peer.data(stream, bytes(16_384))

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client, client.stream("GET", server.url) as response:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            while response._exchange.error is None:
                await asyncio.sleep(0.01)
            with pytest.raises(RemoteProtocolError):
                async for _ in response.aiter_raw():
                    pass
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_GROWTH_BYTES // 1024


@pytest.mark.parametrize("name", ["frames on an old stream", "data behind the end", "head behind the end"])
async def test_frames_behind_a_response(name: str) -> None:
    """They change no other response."""

    def serve(peer: Http2Peer) -> None:
        peer.greet()
        first, _ = peer.request()
        peer.answer(first, b"first")
        second, _ = peer.request()
        if name == "head behind the end":
            peer.head(first, 500)
        else:
            peer.data(first, b"evil", ends=name == "data behind the end")
        peer.answer(second, b"second")
        peer.wait_for_end()

    with Http2Server(serve) as server:
        async with AsyncClient(**PRIOR) as client:
            assert (await client.get(server.url)).text == "first"
            try:
                response = await client.get(server.url)
            except RemoteProtocolError:
                return
            assert (response.status_code, response.text) == (200, "second")
