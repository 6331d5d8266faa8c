"""A step of the client that raises, or does not want a response, gives its connection back or closes it."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from oneloop.http import (
    AsyncClient,
    Auth,
    ConnectError,
    DecodingError,
    Limits,
    ReadError,
    RemoteProtocolError,
    Request,
    Response,
    Retry,
    Timeout,
    TooManyRedirects,
    TotalTimeout,
    WebSocketUpgradeError,
)
from tests.certificates import client_context
from tests.client.conftest import MakeCaller, left_of_failure
from tests.client.servers import Peer, RawServer, secured

# More than is read of a response that nobody wants.
LONG = bytes(1 << 20)
# One connection: whoever keeps it lets the next request fail.
ONE = {"limits": Limits(max_connections=1), "timeout": Timeout(10, pool=2.0)}


class StrangeError(Exception):
    """What a program's own code raises."""


def refuse(*_: Any) -> None:
    raise StrangeError


def refuse_body() -> Iterator[bytes]:
    yield b"a part"
    raise StrangeError


class RefusingAuth(Auth):
    """Raises when it sees the response."""

    def auth_flow(self, request: Request) -> Iterator[Request]:  # type: ignore[override]
        yield request
        refuse()


@pytest.mark.parametrize(
    ("error", "method", "arguments"),
    [
        (StrangeError, "get", {"auth": RefusingAuth()}),
        (StrangeError, "post", {"content": refuse_body}),
        (RemoteProtocolError, "get", {"headers": {"X-Location": "http://["}}),
        (StrangeError, "get", {"headers": {"X-Hook": "1"}}),
    ],
    ids=["auth", "body", "location", "hook"],
)
def test_what_raises_keeps_no_connection(
    make_caller: MakeCaller, error: type[Exception], method: str, arguments: dict[str, Any]
) -> None:
    def serve(peer: Peer) -> None:
        while head := peer.head():
            if peer.number:
                peer.answer(b"whole")
                continue
            status, field = "200 OK", ""
            if b"X-Location" in head:
                status, field = "302 Found", "Location: http://[\r\n"
            if head.startswith(b"GET"):
                peer.send(f"HTTP/1.1 {status}\r\n{field}Content-Length: 9\r\n\r\npart".encode())
            peer.wait_for_end()

    def hook(response: Response) -> None:
        if "x-hook" in response.request.headers:
            refuse()

    caller = make_caller(event_hooks={"response": [hook]}, **ONE)
    with RawServer(serve) as server:
        given = {name: value() if name == "content" else value for name, value in arguments.items()}
        # The exception is kept: what refers to the response must not be what keeps its connection.
        with pytest.raises(error) as raised:
            getattr(caller, method)(server.url, **given)
        assert caller.get(server.url).content == b"whole"
        assert caller.statistics()["open"] == 1
        assert raised.value is not None


def long_first(status: str, field: str) -> Callable[[Peer], None]:
    """Answer the first request with a long body, and others shortly."""
    seen = threading.Event()

    def serve(peer: Peer) -> None:
        while peer.head():
            if not seen.is_set():
                seen.set()
                peer.send(f"HTTP/1.1 {status}\r\n{field}\r\nContent-Length: {len(LONG)}\r\n\r\n".encode())
                peer.send(LONG)
            else:
                peer.answer(b"second")

    return serve


class AnsweringAuth(Auth):
    """Sends the request again with a password."""

    def auth_flow(self, request: Request) -> Iterator[Request]:  # type: ignore[override]
        response: Any = yield request  # type: ignore[misc]
        if response.status_code == 401:
            request.headers["Authorization"] = "it is me"
            yield request


@pytest.mark.parametrize(
    ("status", "field", "settings", "has_history"),
    [
        ("302 Found", "Location: /other", {"follow_redirects": True}, True),
        ("401 Unauthorized", "X: 1", {"auth": AnsweringAuth()}, True),
        ("503 Busy", "Retry-After: 0", {"retries": 1}, False),
    ],
    ids=["redirect", "auth", "retry"],
)
def test_a_response_before_the_last_one_is_read_whole(
    make_caller: MakeCaller, status: str, field: str, settings: dict[str, Any], has_history: bool
) -> None:
    caller = make_caller(**ONE, **settings)
    with RawServer(long_first(status, field)) as server:
        response, pieces = caller.pieces("GET", server.url)
        assert b"".join(pieces) == b"second"
        assert [step.content for step in response.history] == ([LONG] if has_history else [])
        assert server.connections == 1


def test_an_auth_flow_is_ended_when_the_request_fails(make_caller: MakeCaller) -> None:
    ended = []

    class Flow(Auth):
        def auth_flow(self, request: Request) -> Iterator[Request]:  # type: ignore[override]
            try:
                yield request
            finally:
                ended.append(request)

    def serve(peer: Peer) -> None:
        peer.head()

    with RawServer(serve) as server, pytest.raises(RemoteProtocolError) as raised:
        make_caller(auth=Flow()).get(server.url)
    assert len(ended) == 1, raised


def test_a_refused_websocket_keeps_no_connection(make_caller: MakeCaller) -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            if peer.number:
                peer.answer(b"whole")
            else:
                peer.send(b"HTTP/1.1 101 Yes\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n")
                peer.wait_for_end()

    caller = make_caller(**ONE)
    with RawServer(serve) as server:
        with pytest.raises(WebSocketUpgradeError) as raised:
            caller.shake_hands(server.url)
        assert caller.get(server.url).content == b"whole"
        assert raised.value.response.status_code == 101


@pytest.mark.parametrize("count", [2, 3])
def test_as_many_redirects_as_allowed(make_caller: MakeCaller, count: int) -> None:
    def serve(peer: Peer) -> None:
        while head := peer.head():
            left = int(head.split(b" ")[1].strip(b"/"))
            peer.answer(b"", "302 Found", f"Location: /{left - 1}") if left else peer.answer(b"there")

    caller = make_caller(max_redirects=2, follow_redirects=True)
    with RawServer(serve) as server:
        # The second request has the head of the first one.
        for _ in range(2):
            if count == 2:
                assert caller.get(f"{server.url}/{count}").content == b"there"
            else:
                with pytest.raises(TooManyRedirects):
                    caller.get(f"{server.url}/{count}")


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_body_that_was_sent_in_parts_is_not_repeated(make_caller: MakeCaller, method: str) -> None:
    """Its head alone would be sent, and the server would wait for the body."""

    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(b"first")
        peer.head()
        assert peer.chunked() == b"ab"

    caller = make_caller()
    with RawServer(serve) as server:
        caller.get(server.url)
        with pytest.raises(RemoteProtocolError, match="without sending a response"):
            caller.request(method, server.url, content=_parts(caller.kind))
        assert caller.statistics()["repeated"] == 0


def _parts(kind: str) -> Any:
    async def later() -> Any:
        for part in (b"a", b"b"):
            yield part

    return later() if kind == "coroutine" else iter([b"a", b"b"])


def test_a_retry_that_does_not_fit_is_not_waited_for(make_caller: MakeCaller) -> None:
    count = 0

    def serve(peer: Peer) -> None:
        nonlocal count
        while head := peer.head():
            count += 1
            again = "X: 1" if b"/never" in head else "Retry-After: 0"
            peer.answer(b"", "503 Busy", again) if count != 2 else peer.answer(b"again")

    caller = make_caller(retries=Retry(1, backoff_s=60.0), timeout=Timeout(10, total=20.0))
    with RawServer(serve) as server:
        # What the server says goes before the client's own delay, which would be too long.
        assert caller.get(server.url).content == b"again"
        assert caller.get(server.url + "/never").status_code == 503
        assert count == 3
        port = server.port
    with pytest.raises(ConnectError):
        caller.get(f"http://127.0.0.1:{port}")
    paced = make_caller(limits=Limits(max_requests_per_second=0.01), timeout=Timeout(10, total=20.0))
    with RawServer(lambda peer: peer.answer(peer.head())) as server:
        paced.get(server.url)
        with pytest.raises(TotalTimeout):
            paced.get(server.url)


async def test_an_early_response_ends_the_connection() -> None:
    """The server would take the next request for the rest of the body, although nothing of it is left unsent."""
    answered = asyncio.Event()
    loop = asyncio.get_running_loop()
    seen: list[bytes] = []

    def serve(peer: Peer) -> None:
        peer.head()
        if peer.number:
            peer.answer(b"second")
            return
        assert peer.exactly(6) == b"1\r\na\r\n"
        peer.answer(b"early")
        loop.call_soon_threadsafe(answered.set)
        seen.append(peer.wait_for_end())

    async def parts() -> AsyncIterator[bytes]:
        yield b"a"
        await answered.wait()
        while client.statistics()["open"] == 1 and not client.statistics()["idle"]:
            await asyncio.sleep(0)
        yield b"b"

    async with AsyncClient(timeout=20) as client:
        with RawServer(serve) as server:
            assert (await client.post(server.url, content=parts())).content == b"early"
            assert (await client.get(server.url)).content == b"second"
        assert server.connections == 2
    assert seen == [b""]


def test_a_stream_that_is_cut_off_is_an_error(make_caller: MakeCaller) -> None:
    """The framing is right, the content coding is not."""
    body = gzip.compress(bytes(range(256)) * 100)[:-9]

    def serve(peer: Peer) -> None:
        while peer.head():
            peer.answer(body, "200 OK", "Content-Encoding: gzip")

    caller = make_caller()
    with RawServer(serve) as server:
        for how in ("iter_bytes", "iter_text", "iter_lines"):
            with pytest.raises(DecodingError, match="ends too early") as raised:
                caller.pieces("GET", server.url, how)
            assert raised.value.request.url == server.url + "/"
        # What arrived was right for the connection.
        assert caller.pieces("GET", server.url, "iter_raw")[1] == [body]


async def get(client: AsyncClient, url: str) -> None:
    await client.get(url)


async def get_known(client: AsyncClient, url: str) -> None:
    await client.get(f"{url}?whole")
    await client.get(f"{url}?whole")


async def stream(client: AsyncClient, url: str) -> None:
    async with client.stream("GET", url) as response:
        async for _ in response.aiter_raw():
            pass


async def post_parts(client: AsyncClient, url: str) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"a part"

    await client.post(url, content=parts())


@pytest.mark.parametrize("begins", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart"], ids=["no head", "cut"])
@pytest.mark.parametrize("fail", [get, get_known, stream, post_parts])
async def test_what_fails_is_freed_with_its_error(fail: Callable[[AsyncClient, str], Any], begins: bytes) -> None:
    """Not by the collector: a program whose servers fail again and again keeps nothing of them meanwhile."""

    def serve(peer: Peer) -> None:
        if b"?whole" in peer.head() and peer.number == 0:
            peer.answer()
            peer.head()
        peer.send(begins)

    with RawServer(serve) as server:
        assert await left_of_failure(lambda client: fail(client, f"{server.url}/")) == []


async def test_an_answer_that_has_begun_is_not_asked_for_again() -> None:
    heads = 0

    def serve(peer: Peer) -> None:
        nonlocal heads
        while peer.head():
            heads += 1
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + (b"the whole" if heads != 2 else b"part"))
            if heads == 2:
                return

    with RawServer(serve) as server:
        async with AsyncClient() as client:
            assert (await client.get(server.url)).text == "the whole"
            with pytest.raises(RemoteProtocolError):
                await client.get(server.url)
    assert heads == 2


def test_nothing_is_read_behind_a_record_that_cannot_be_decrypted(make_caller: MakeCaller) -> None:
    most = 64 << 20
    sent: list[int] = []
    is_over = threading.Event()

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\npart")
        count = 0
        records = (b"\x17\x03\x03\x40\x00" + bytes(0x4000)) * 64
        with socket.socket(fileno=os.dup(peer.sock.fileno())) as below, suppress(OSError):
            while count < most:
                count += below.send(records)
        sent.append(count)
        is_over.set()

    with secured(serve) as server:
        caller = make_caller(verify=client_context(), timeout=60)
        with pytest.raises(ReadError):
            caller.get(server.url)
        assert is_over.wait(60)
        assert sent[0] < most
        assert caller.statistics()["open"] == 0
