"""Bodies of requests: Expect, early responses, timeouts while they are sent, and what is sent again."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import oneloop
from oneloop import files, green, run
from oneloop.http import (
    AsyncClient,
    Client,
    Limits,
    LocalProtocolError,
    ReadTimeout,
    RemoteProtocolError,
    Request,
    Retry,
    StreamConsumed,
    Timeout,
    TotalTimeout,
)
from tests.certificates import client_context
from tests.client.callers import Caller
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, hold, secured

BODY_HIGH_BYTES = 256 * 1024
"""crates/native/src/client/connection.rs: when this much of a response is waiting to be taken, reading is paused."""


def test_a_form_is_no_list_of_pairs(caller: Caller) -> None:
    with RawServer(hold) as server:
        with pytest.raises(TypeError, match="a form is a mapping"):
            caller.post(server.url, data=[("a", "1"), ("a", "2")])
        assert server.connections == 0


async def slow_parts() -> Any:
    while True:
        await asyncio.sleep(0.02)
        yield bytes(10)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def take_body(peer: Peer, head: bytes) -> bytes:
    if b"chunked" in head.lower():
        return peer.chunked()
    return peer.exactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))


def redirect_first(peer: Peer) -> None:
    """Sends the first request elsewhere; answers the others with their bodies."""
    while head := peer.head():
        body = take_body(peer, head)
        if head.split(b" ")[1] == b"/first":
            peer.answer(b"", "307 Temporary Redirect", "Location: /second")
        elif head.split(b" ")[1] == b"/busy":
            peer.answer(b"busy", "503 Service Unavailable", "Retry-After: 0")
        else:
            peer.answer(body)


def pipe_of(data: bytes) -> Any:
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    return os.fdopen(reader, "rb", buffering=0)


def test_expect_while_the_request_waits_for_its_connection() -> None:
    def serve(peer: Peer) -> None:
        while head := peer.head():
            if head.startswith(b"GET"):
                time.sleep(1.3)
                peer.answer(b"slow")
            else:
                peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                peer.answer(peer.exactly(4))

    async def main(url: str) -> None:
        async with AsyncClient(limits=Limits(max_connections=1)) as client:
            slow = asyncio.ensure_future(client.get(url))
            await asyncio.sleep(0.05)
            async with asyncio.timeout(60):
                response = await client.put(url, content=b"body", headers={"Expect": "100-continue"})
            assert response.content == b"body"
            await slow

    with RawServer(serve) as server:
        oneloop.run(main(server.url))


def test_only_coroutines_send_what_is_awaited(caller: Caller) -> None:
    with RawServer(hold) as server:
        if caller.kind != "coroutine":
            with pytest.raises(RuntimeError, match="async request with a sync Client"):
                caller.put(server.url, content=slow_parts())
        assert server.connections == 0


@pytest.mark.parametrize("expects", [True, False])
def test_an_early_response_that_stalls(make_caller: MakeCaller, expects: bool) -> None:
    """With a body in parts in coroutines only: the others send all parts before they look, as with other clients."""

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 417 No\r\nContent-Length: 100\r\n\r\nhalf")
        peer.wait_for_end()

    caller = make_caller(timeout=0.3)
    with RawServer(serve) as server, pytest.raises(ReadTimeout):
        if expects or caller.kind != "coroutine":
            caller.put(server.url, content=b"x", headers={"Expect": "100-continue"})
        else:
            caller.put(server.url, content=slow_parts())


@pytest.mark.parametrize("is_secured", [False, True])
def test_a_slow_upload_is_no_stalled_one(make_caller: MakeCaller, is_secured: bool) -> None:
    """The write timeout counts from the last byte that the server took."""
    size = 6_000_000

    def serve(peer: Peer) -> None:
        # So that the kernel does not take the body for the server.
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        peer.head()
        left = size - len(peer._held)
        while left > 0:
            left -= len(peer.sock.recv(16_384))
            time.sleep(0.01)
        peer.answer(b"ok")

    caller = make_caller(verify=False, timeout=Timeout(60.0, write=2.5))
    with secured(serve) if is_secured else RawServer(serve) as server:
        assert caller.post(server.url, content=bytes(size)).text == "ok"


def test_the_time_of_the_program_is_not_the_servers() -> None:
    reads_on = threading.Event()

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
        assert reads_on.wait(60)
        peer.send(b"b")
        peer.wait_for_end()

    with RawServer(serve) as server, Client(timeout=3) as client, client.stream("GET", server.url) as response:
        pieces = []
        for piece in response.iter_bytes():
            pieces.append(piece)
            if len(pieces) == 1:
                time.sleep(3.1)
                reads_on.set()
        assert pieces == [b"a", b"b"]


async def test_the_total_timeout_holds_while_the_body_waits() -> None:
    async def parts() -> Any:
        yield b"a"
        await asyncio.sleep(3600)

    with RawServer(hold) as server:
        async with AsyncClient(timeout=Timeout(60.0, total=0.2)) as client, asyncio.timeout(60):
            with pytest.raises(TotalTimeout):
                await client.post(server.url, content=parts())


def test_the_programs_own_framing(caller: Caller) -> None:
    seen: list[bytes] = []

    def serve(peer: Peer) -> None:
        while head := peer.head():
            seen.append(head)
            is_chunked = b"transfer-encoding" in head.lower()
            seen.append(peer.chunked() if is_chunked else peer.exactly(3))
            peer.answer(b"ok")

    with RawServer(serve) as server:
        caller.post(server.url, content=b"abc", headers={"Transfer-Encoding": "chunked"})
        assert b"content-length" not in seen[0].lower()
        assert seen[1] == b"abc"
        caller.post(server.url, content=b"abc", headers={"Content-Length": "3"})
        assert seen[3] == b"abc"
        for method, length in (("POST", "1"), ("POST", "10"), ("GET", "10")):
            with pytest.raises(LocalProtocolError, match="declared Content-Length"):
                caller.request(method, server.url, content=b"abc", headers={"Content-Length": length})
        assert len(seen) == 4


def test_expect_is_not_repeated_without_its_body(make_caller: MakeCaller) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(b"first")
        head = peer.head()
        if b"expect" in head.lower():
            peer.reset()

    caller = make_caller(timeout=60)
    with RawServer(serve) as server:
        caller.get(server.url)
        with pytest.raises((RemoteProtocolError, oneloop.http.ReadError, oneloop.http.WriteError)):
            caller.put(server.url, content=b"body", headers={"Expect": "100-continue"})


class Rejecting:
    """Responds to the head of a request, and resets the connection when the response has arrived."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.is_reset = threading.Event()

    def __call__(self, peer: Peer) -> None:
        peer.sock.recv(1000)
        peer.answer(self.body, "413 Content Too Large", "Connection: close")
        peer.wait_delivered()
        while not struct.unpack("i", fcntl.ioctl(peer.sock, termios.FIONREAD, bytes(4)))[0]:
            time.sleep(0.001)
        # With unread data it is a reset.
        peer.sock.close()
        self.is_reset.set()

    def parts(self, wait: Callable[[], object]) -> Iterator[bytes]:
        yield bytes(50_000)
        while not self.is_reset.is_set():
            wait()
        for _ in range(10):
            yield bytes(50_000)


SERVERS = pytest.mark.parametrize("serving", [RawServer, secured], ids=["http", "https"])


@SERVERS
@pytest.mark.parametrize("length", [2, 20_000])
def test_a_response_before_a_write_that_fails(serving: Callable[..., Any], length: int) -> None:
    rejecting = Rejecting(bytes(length))
    with serving(rejecting) as server, Client(timeout=60, verify=client_context()) as client:
        # The loop does not run while it waits.
        parts = rejecting.parts(lambda: rejecting.is_reset.wait(60))
        response = client.post(server.url, content=parts)
        assert (response.status_code, response.content) == (413, rejecting.body)


@SERVERS
def test_a_response_that_is_paused_when_a_write_fails(serving: Callable[..., Any]) -> None:
    """Nobody reads the body before the request is sent: reading has stopped, and the rest is in the socket."""
    rejecting = Rejecting(os.urandom(BODY_HIGH_BYTES + 40_000))

    def ask() -> None:
        parts = rejecting.parts(lambda: green.sleep(0.001))
        with Client(timeout=60, verify=client_context()) as client:
            with client.stream("POST", server.url, content=parts) as response:
                assert response.status_code == 413
                assert b"".join(response.iter_bytes()) == rejecting.body

    async def main() -> None:
        await asyncio.get_running_loop().run_green(ask)  # type: ignore[attr-defined]

    with serving(rejecting) as server:
        oneloop.run(main())


def test_the_body_is_a_pipe(make_caller: MakeCaller) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        assert peer.exactly(12) == b"2\r\nhi\r\n0\r\n\r\n"
        peer.answer(b"ok")

    caller = make_caller()
    reading, writing = os.pipe()
    os.write(writing, b"hi")
    os.close(writing)
    with RawServer(serve) as server, os.fdopen(reading, "rb") as pipe:
        assert caller.post(server.url, content=pipe).content == b"ok"


def test_a_form_from_a_pipe_is_not_sent_again_without_its_content(make_caller: MakeCaller) -> None:
    caller = make_caller(follow_redirects=True, retries=Retry(3, methods=frozenset({"POST"})))
    with RawServer(redirect_first) as server, pipe_of(b"content") as first, pipe_of(b"content") as second:
        with pytest.raises(StreamConsumed):
            caller.post(server.url + "/first", files={"file": first})
        # It is not repeated: the response is that of the first time.
        assert caller.post(server.url + "/busy", files={"file": second}).status_code == 503


def test_a_form_from_a_file_is_sent_again(make_caller: MakeCaller) -> None:
    caller = make_caller(follow_redirects=True)
    with RawServer(redirect_first) as server:
        response = caller.post(server.url + "/first", files={"file": io.BytesIO(b"content"), "text": b"more"})
        assert response.content.count(b"content") == 1
        assert b"more" in response.content


def test_a_file_of_coroutines(tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"0123456789" * 20_000)

    async def main() -> None:
        async with AsyncClient(follow_redirects=True) as client:
            async with await files.open(path, "rb") as file:
                response = await client.post(server.url + "/body", content=file)
                assert response.content == path.read_bytes()
                await file.seek(5)
                size = str(path.stat().st_size - 5)
                response = await client.post(server.url + "/", content=file, headers={"Content-Length": size})
                assert response.content == path.read_bytes()[5:]
                with pytest.raises(StreamConsumed):
                    await client.post(server.url + "/first", content=file)

    with RawServer(redirect_first) as server:
        run(main())


def test_a_text_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("text")
    with path.open() as file, pytest.raises(TypeError, match="binary mode"):
        Request("POST", "http://host/", content=file)
    with pytest.raises(TypeError, match="binary mode"):
        Request("POST", "http://host/", content=io.StringIO("text"))


class Growing(io.BytesIO):
    """A file to which somebody appends while it is read."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if size != 0:
            here = self.tell()
            self.seek(0, io.SEEK_END)
            self.write(b"more")
            self.seek(here)
        return data


@pytest.mark.parametrize("length", [0, 10, 200_000])
@pytest.mark.parametrize("is_form", [False, True])
def test_a_file_that_grows_while_it_is_sent(caller: Caller, is_form: bool, length: int) -> None:
    """As much is sent as the Content-Length says, which was the file's."""
    got: list[bytes] = []

    def serve(peer: Peer) -> None:
        while head := peer.head():
            got.append(take_body(peer, head))
            peer.answer(b"ok")

    content = b"x" * length
    with RawServer(serve) as server:
        for _ in range(2):
            given: Any = {"files": {"file": Growing(content)}} if is_form else {"content": Growing(content)}
            assert caller.post(server.url, **given).content == b"ok"
    assert all(content in body and b"xmore" not in body for body in got)
    assert len(got) == 2
