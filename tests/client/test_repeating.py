"""Retries, redirects, and what a client remembers of requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from typing import Any

import pytest

from oneloop.http import (
    AsyncClient,
    Auth,
    Client,
    CloseError,
    ConnectError,
    RemoteProtocolError,
    Request,
    Response,
    Retry,
    Timeout,
    TotalTimeout,
)
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, hold, noting

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_a_hooks_fields_are_not_remembered() -> None:
    heads: list[bytes] = []

    async def hook(request: Any) -> None:
        request.headers["X-Token"] = "secret"

    with RawServer(noting(heads)) as server:
        async with AsyncClient(event_hooks={"request": [hook]}) as client:
            await client.get(server.url)
            client.event_hooks = {}
            await client.get(server.url)
            await client.get(server.url)
    assert b"X-Token" in heads[0]
    assert b"X-Token" not in heads[1] + heads[2]


@pytest.mark.parametrize("value", ["²", "-1", "1e9", "99999999999999999999999", "Mon, 99 Foo 99999 99:99:99 GMT", ""])
def test_strange_words_of_when_to_come_back(make_caller: MakeCaller, value: str) -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            peer.send(f"HTTP/1.1 503 Busy\r\nRetry-After: {value}\r\nContent-Length: 0\r\n\r\n".encode())

    caller = make_caller(retries=Retry(1, backoff_s=0.01))
    with RawServer(serve) as server:
        assert caller.get(server.url).status_code == 503


@pytest.mark.parametrize("rest", [b"half", b""], ids=["cut", "silent"])
@pytest.mark.parametrize("how", ["get", "stream"])
def test_a_refusal_that_is_not_whole_is_repeated(make_caller: MakeCaller, rest: bytes, how: str) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        if peer.number:
            peer.answer(b"ok")
            return
        peer.send(b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 100\r\n\r\n" + rest)
        if not rest:
            peer.wait_for_end()

    caller = make_caller(retries=Retry(1, backoff_s=0.01), timeout=Timeout(60, read=1))
    with RawServer(serve) as server:
        content = caller.get(server.url).content if how == "get" else b"".join(caller.pieces("GET", server.url)[1])
        assert content == b"ok"
        assert server.connections == 2


def test_reading_a_refusal_counts_in_the_total_time(make_caller: MakeCaller) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 100\r\n\r\nhalf")
        peer.wait_for_end()

    with RawServer(serve) as server:
        caller = make_caller(retries=Retry(1), timeout=Timeout(None, total=0.2))
        with pytest.raises(TotalTimeout):
            caller.pieces("GET", server.url)
        assert server.connections < 2


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_refusal_that_took_too_long_to_read_is_the_last(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    """What is left of the total time was enough before it was read."""

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 8\r\n\r\npart")
        if is_whole:
            peer.send(b"rest")
            peer.wait_for_end()

    fits = iter([True, False])
    monkeypatch.setattr("oneloop.http.client.core._fits", lambda *_: next(fits))
    with RawServer(serve) as server:
        caller = make_caller(retries=Retry(1), timeout=60)
        if is_whole:
            assert b"".join(caller.pieces("GET", server.url)[1]) == b"partrest"
        else:
            with pytest.raises(RemoteProtocolError, match="4 bytes before the end"):
                caller.pieces("GET", server.url)
        assert server.connections == 1


def test_the_last_refusal_is_streamed() -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 503 Busy\r\nRetry-After: 100\r\nContent-Length: 8\r\n\r\npart")
        peer.wait_for_end()

    with RawServer(serve) as server:
        timeout, retries = Timeout(None, total=60), Retry(1, max_delay_s=200)
        with Client(timeout=timeout, retries=retries) as client, client.stream("GET", server.url) as response:
            assert next(response.iter_raw()) == b"part"


def test_errors_behind_a_redirect_have_their_request(make_caller: MakeCaller) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    def serve(peer: Peer) -> None:
        first = True
        while peer.head():
            if first:
                peer.answer(b"ok")
            else:
                peer.answer(b"", "302 Found", f"Location: http://127.0.0.1:{port}/there")
            first = False

    caller = make_caller(follow_redirects=True)
    with RawServer(serve) as server:
        caller.get(f"{server.url}/a")
        with pytest.raises(ConnectError) as caught:
            caller.get(f"{server.url}/b")
        assert caught.value.request.url.path == "/there"


def test_the_body_counts_for_retries(make_caller: MakeCaller) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        if peer.number == 0:
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            return
        peer.answer(b"whole")

    caller = make_caller(retries=Retry(1, backoff_s=0.01))
    with RawServer(serve) as server:
        assert caller.get(server.url).text == "whole"


@pytest.mark.parametrize(("method", "count"), [("POST", 1), ("PUT", 3)])
def test_a_redirect_that_cannot_be_followed(make_caller: MakeCaller, method: str, count: int) -> None:
    """The request itself was sent: it is repeated as if its response were lost."""
    heads: list[bytes] = []

    def serve(peer: Peer) -> None:
        while head := peer.head():
            heads.append(head)
            peer.answer(b"", "303 See Other", "Location: http://127.0.0.1:1/")

    caller = make_caller(retries=Retry(2, backoff_s=0.001), follow_redirects=True)
    with RawServer(serve) as server:
        with pytest.raises(ConnectError) as caught:
            caller.request(method, server.url)
        assert str(caught.value.request.url) == "http://127.0.0.1:1/"
    assert len(heads) == count


async def test_a_closed_client_is_not_tried_again() -> None:
    with RawServer(hold) as server:
        client = AsyncClient(retries=Retry(3, backoff_s=1000), timeout=None)
        task = asyncio.ensure_future(client.get(server.url))
        await asyncio.sleep(0.1)
        await client.aclose()
        with pytest.raises(CloseError):
            async with asyncio.timeout(60):
                await task


def test_delays_of_many_repetitions() -> None:
    delay_s = Retry(5000, backoff_s=0.5, max_delay_s=2.0).delay_s(4000, None)
    assert delay_s is not None
    assert 1.0 <= delay_s <= 2.0


class Twice(Auth):
    """Sends each request twice."""

    def auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        yield request
        yield request


def test_the_history_of_a_response_after_an_auth_flow(make_caller: MakeCaller) -> None:
    def serve(peer: Peer) -> None:
        numbers = iter(range(10))
        while peer.head():
            number = next(numbers)
            peer.answer(b"%d" % number, "302 Found" if number % 2 == 0 else "200 OK", "Location: /there")

    caller = make_caller(auth=Twice(), follow_redirects=True)
    with RawServer(serve) as server:
        response = caller.get(server.url)
        assert response.content == b"3"
        assert [led.content for led in response.history] == [b"1", b"2"]
        # As in httpx: what came before it in the flow, and not the redirects that led to it.
        assert response.history[0].history == []
