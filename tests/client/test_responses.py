"""Responses: their bodies, charsets and copies, and what they tell of their exchange."""

from __future__ import annotations

import asyncio
import copy
import gzip
import pickle
import time
from typing import Any

import pytest

from oneloop.http import (
    AsyncClient,
    Client,
    ConnectError,
    HTTPStatusError,
    Request,
    Response,
    ResponseNotRead,
    StreamClosed,
    StreamConsumed,
    Timeout,
    WebSocketDisconnect,
    WebSocketUpgradeError,
)
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, echo

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def _awaited(wait: Any) -> Any:
    return await wait


def coded_response(peer: Peer) -> None:
    coded = gzip.compress(b"content" * 100)
    while head := peer.head():
        if head.split(b" ")[1] == b"/":
            peer.answer(b"", "302 Found", "Location: /there")
            continue
        peer.answer(
            coded, "404 Not here", "Content-Encoding: gzip", "Set-Cookie: a=b", "Content-Type: text/x; charset=l1"
        )


async def test_two_who_read_one_response() -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        peer.wait_for_end()

    with RawServer(serve) as server:
        async with AsyncClient(timeout=None) as client, client.stream("GET", server.url) as response:
            exchange = response._exchange
            first = asyncio.ensure_future(_awaited(exchange.piece()))
            await asyncio.sleep(0.02)
            with pytest.raises(RuntimeError, match="already waiting"):
                await exchange.piece()
            first.cancel()
            await asyncio.wait([first])


def test_iterating_a_body_that_is_there(make_caller: MakeCaller) -> None:
    caller = make_caller()
    with RawServer(echo) as server:
        response = caller.get(f"{server.url}/body")
        assert list(response.iter_bytes()) == [b"/body"]
        assert list(response.iter_lines()) == ["/body"]


def test_bytes_downloaded_of_the_second_request_too(make_caller: MakeCaller) -> None:
    caller = make_caller()
    with RawServer(echo) as server:
        assert [caller.get(f"{server.url}/body").num_bytes_downloaded for _ in range(2)] == [5, 5]


@pytest.mark.parametrize("charset", ["hex", "rot13", "zlib", "undefined", "idna"])
def test_a_charset_that_is_none(charset: str) -> None:
    response = Response(200, content=b"text\xff", headers={"Content-Type": f"text/plain; charset={charset}"})
    assert response.text == "text�"


def test_a_boundary_with_something_behind() -> None:
    content_type = 'multipart/form-data; boundary="abc"; charset=utf-8'
    request = Request("POST", "http://a/", files={"f": b"x"}, headers={"Content-Type": content_type})
    assert request.read().startswith(b"--abc\r\n")


def test_exceptions_can_be_pickled(make_caller: MakeCaller) -> None:
    caller = make_caller()
    with pytest.raises(ConnectError) as refused:
        caller.get("http://127.0.0.1:1/")
    request = Request("GET", "http://a/")
    errors = [
        refused.value,
        HTTPStatusError("text", request=request, response=Response(500, request=request)),
        WebSocketDisconnect(1000, "over"),
        StreamConsumed(),
    ]
    for error in errors:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))


def test_copies_of_a_response(make_caller: MakeCaller) -> None:
    caller = make_caller(follow_redirects=True)
    with RawServer(coded_response) as server:
        response = caller.get(server.url)
    assert response.cookies["a"] == "b"
    for again in (pickle.loads(pickle.dumps(response)), copy.copy(response), copy.deepcopy(response)):
        for name in (
            "status_code", "reason_phrase", "http_version", "content", "text", "encoding", "headers", "url", "elapsed",
            "num_bytes_downloaded", "is_closed", "is_stream_consumed", "default_encoding",
        ):  # fmt: skip
            assert getattr(again, name) == getattr(response, name), name
        assert (again.request.method, again.cookies["a"]) == ("GET", "b")
        assert [first.status_code for first in again.history] == [302]
        again.close()
    with pytest.raises(HTTPStatusError) as failed:
        response.raise_for_status()
    again = pickle.loads(pickle.dumps(failed.value))
    assert (again.response.text, str(again.request.url)) == (response.text, str(response.url))


def test_a_copy_of_a_response_that_was_not_read() -> None:
    with RawServer(echo) as server, Client() as client, client.stream("GET", server.url + "/x") as response:
        again = pickle.loads(pickle.dumps(response))
        with pytest.raises(ResponseNotRead):
            _ = again.content
        with pytest.raises((StreamClosed, RuntimeError)):
            again.read()
        # The original is as it was.
        assert response.read() == b"/x"


def test_a_refused_websocket_can_be_pickled() -> None:
    with RawServer(echo) as server, Client() as client:
        with pytest.raises(WebSocketUpgradeError) as refused, client.websocket(server.url + "/x"):
            pass
    assert pickle.loads(pickle.dumps(refused.value)).response.content == b"/x"


def test_what_an_exchange_tells() -> None:
    """`sent_s`, `first_byte_s` and `carrier`."""

    def serve(peer: Peer) -> None:
        while peer.head():
            time.sleep(0.05)
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
            peer.send(b"ok")

    with RawServer(serve) as server, Client() as client:
        first = client.get(server.url)._exchange
        second = client.get(server.url)._exchange
        assert first.sent_s < second.sent_s
        for exchange in (first, second):
            # The server waits before the head.
            assert 0.05 <= exchange.first_byte_s <= exchange.elapsed_s
        # One connection, which is known after the end of the exchange.
        assert first.carrier is second.carrier is not None
        assert first.protocol is None

        (origin,) = next(iter(client._pools.values()))._origins.values()
        waiting = origin.start(
            "GET", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", None, True, False, False, Timeout(1.0).native, None, 2, 1.0
        )
        assert waiting.first_byte_s is None
        # It begins with the first wait.
        assert waiting.carrier is None
        _ = waiting.drained()
        assert waiting.carrier is first.carrier
        waiting.close()
