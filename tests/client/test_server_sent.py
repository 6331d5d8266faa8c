"""Server-Sent Events, whole and cut at every character."""

from __future__ import annotations

import random

import pytest

import oneloop.http
from oneloop.http import EventSource, Response, ServerSentEvent, SSEError
from tests.client.callers import Caller
from tests.client.servers import Peer, RawServer

STREAM = (
    b"\xef\xbb\xbf: a comment\n\n"
    b"data: one\n\n"
    b"event: named\rdata:two\rdata: lines\r\r"
    b"id: 7\r\nretry: 3000\r\ndata: three\r\n\r\n"
    b"unknown: field\n\ndata\n\n"
    b'data: {"a": 1}\nretry: x\nid: a\0b\nretry: ' + b"9" * 5000 + b"\n\n"
    b"data: cut off by the end\n"
)
EVENTS = [
    ServerSentEvent(data="one"),
    ServerSentEvent("named", "two\nlines"),
    ServerSentEvent(data="three", id="7", retry=3000),
    ServerSentEvent(data="", id="7"),
    ServerSentEvent(data='{"a": 1}', id="7"),
]


def test_events(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        while head := peer.head():
            assert b"accept: text/event-stream" in head.lower()
            peer.answer(STREAM, "200 OK", "Content-Type: text/event-stream; charset=utf-8")

    with RawServer(serve) as server:
        assert caller.events(server.url) == EVENTS
    assert EVENTS[-1].json() == {"a": 1}


@pytest.mark.parametrize("seed", range(20))
def test_cut_anywhere(seed: int) -> None:
    chance = random.Random(seed)
    response = Response(200, headers={"content-type": "text/event-stream"}, content=STREAM)
    parser = EventSource(response)._parser()
    found: list[ServerSentEvent] = []
    rest = STREAM.decode()
    while rest:
        size = chance.choice([1, 2, 3, 7, 30])
        found += parser.add(rest[:size])
        rest = rest[size:]
    assert found == EVENTS
    assert list(EventSource(response)) == EVENTS


def test_a_line_that_ends_with_a_carriage_return_ends_at_once() -> None:
    """And the last event of such a stream is one."""
    response = Response(200, headers={"content-type": "text/event-stream"}, content=b"")
    parser = EventSource(response)._parser()
    assert [event.data for event in parser.add("data: 1\r\r")] == ["1"]
    assert [event.data for event in parser.add("\ndata: 2\r")] == []
    assert [event.data for event in parser.add("\n")] == []
    assert [event.data for event in parser.add("\r")] == ["2"]


def test_a_line_that_comes_in_many_parts_is_put_together_once() -> None:
    response = Response(200, headers={"content-type": "text/event-stream"}, content=b"")
    parser = EventSource(response, max_event_size=None)._parser()
    for _ in range(20_000):
        assert list(parser.add("data:"[:1])) == []
    assert len(parser._held) == 20_000
    assert list(parser.add("\n\n")) == []
    assert parser._held == []


def test_what_is_no_stream_of_events(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            peer.answer(b"data: x\n\n", "200 OK", "Content-Type: text/plain")

    with RawServer(serve) as server, pytest.raises(SSEError, match=r"'text/plain'\.$"):
        caller.events(server.url)


def test_an_error_page_instead_of_events(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            peer.answer(b"", "404 Not Found")

    with RawServer(serve) as server, pytest.raises(SSEError, match="status 404") as caught:
        caller.events(server.url)
    assert str(caught.value.request.url) == server.url + "/"


def test_comments_keep_a_stream_alive() -> None:
    content = b": 0123456789\n\n" * 10 + b": 0123456789\n" * 10 + b"data: x\n\n"
    response = Response(200, headers={"content-type": "text/event-stream"}, content=content)
    assert list(EventSource(response, max_event_size=50)) == [ServerSentEvent(data="x")]


@pytest.mark.parametrize("content", [b"data: " + b"x" * 100, b"data: x\n" * 20])
def test_an_event_that_is_too_long(content: bytes) -> None:
    request = oneloop.http.Request("GET", "http://host/")
    response = Response(200, headers={"content-type": "text/event-stream"}, content=content, request=request)
    with pytest.raises(SSEError, match="50 byte"):
        list(EventSource(response, max_event_size=50))
