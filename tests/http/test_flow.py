"""Back-pressure: long uploads and downloads, and many connections, leave the server's memory flat.

The server is a process of its own, so that its memory is measured without the client's.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

import pytest

from tests.http.frames import BINARY, deflated, frame, handshake
from tests.programs import ROOT

MIB = 1 << 20
SIZE = 200 * MIB
# The kernel's own buffers are not the process's.
FLAT = 16 * MIB

PROGRAM = """
import asyncio, resource, sys
import oneloop
from oneloop import _native

async def app(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            size = len(message["bytes"])
            del message
            await send({"type": "websocket.send", "text": str(size)})
        return
    if scope["path"] == "/slow-reader":
        size, more = 0, True
        while more:
            message = await receive()
            assert message["type"] == "http.request", message
            size, more = size + len(message["body"]), message["more_body"]
            await asyncio.sleep(0.0002)
        body = b"%d" % size
    elif scope["path"] == "/next-turn":
        await asyncio.sleep(0.02)
        body = b""
    elif scope["path"] == "/waits":
        await asyncio.Event().wait()
    elif scope["path"] == "/download":
        await send({"type": "http.response.start", "status": 200})
        part = bytes(1 << 16)
        for _ in range(3200):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        body = b""
        await send({"type": "http.response.body"})
        return
    else:
        body = b"hello"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})

async def main():
    loop = asyncio.get_running_loop()
    if len(sys.argv) > 1:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), hard))
    http = _native.HttpServer(loop, app, header_timeout_s=60, keep_alive_timeout_s=60)
    server = await loop.create_server(http, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)

oneloop.run(main())
"""


class Process(NamedTuple):
    pid: int
    port: int

    def memory_bytes(self) -> int:
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 20)

    def ask(self) -> bytes:
        with self.connect() as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return b"".join(iter(lambda: client.recv(1 << 16), b""))


@contextmanager
def started(*arguments: str) -> Iterator[Process]:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child:
        try:
            yield Process(child.pid, int(child.stdout.readline()))
        finally:
            child.stdin.close()
            child.stdout.close()
            child.terminate()


@pytest.mark.parametrize("is_chunked", [False, True])
def test_an_upload_to_an_application_that_reads_slowly(is_chunked: bool) -> None:
    with started() as process, process.connect() as client:
        process.ask()
        before = most = process.memory_bytes()
        framing = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % SIZE
        client.sendall(b"POST /slow-reader HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % framing)
        part = bytes(MIB)
        for _ in range(SIZE // MIB):
            client.sendall(b"%x\r\n" % MIB + part + b"\r\n" if is_chunked else part)
            most = max(most, process.memory_bytes())
        if is_chunked:
            client.sendall(b"0\r\n\r\n")
        response = client.recv(1 << 16)
        assert response.endswith(b"\r\n\r\n%d" % SIZE), response
        assert most - before < FLAT


@pytest.mark.parametrize("is_compressed", [False, True])
def test_websockets_that_are_idle_behind_a_long_message(is_compressed: bool) -> None:
    """Nothing of it is kept until the next message."""
    message, count = bytes(15 * MIB), 8
    data, rsv = (deflated(message), 4) if is_compressed else (message, 0)
    with started() as process, ExitStack() as stack:
        process.ask()
        before = process.memory_bytes()
        for _ in range(count):
            client = stack.enter_context(process.connect())
            client.sendall(handshake(b"Sec-WebSocket-Extensions: permessage-deflate"))
            while not client.recv(1 << 16).endswith(b"\r\n\r\n"):
                pass
            client.sendall(frame(BINARY, data, rsv=rsv))
            assert client.recv(1 << 16)
        # The allocator keeps the memory of two messages.
        assert process.memory_bytes() - before < 4 * len(message)


def test_connections_that_are_idle_behind_a_burst_of_requests() -> None:
    """The memory in which their requests have waited is given back."""
    count, requests = 40, 1000
    request = b"GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n" % bytes(100).replace(b"\0", b"x")
    with started() as process, ExitStack() as stack:
        process.ask()
        clients = [stack.enter_context(process.connect()) for _ in range(count)]
        before = process.memory_bytes()
        for client in clients:
            client.sendall(request.replace(b"/", b"/next-turn", 1) + request * requests)
            responses = b""
            while responses.count(b"HTTP/1.1 200") <= requests:
                responses += client.recv(1 << 16)
        assert process.memory_bytes() - before < count * requests * len(request) / 4


def test_bodies_in_tiny_chunks_to_applications_that_do_not_read() -> None:
    """They use little more than their data, which is limited: no object for each chunk."""
    count, size = 40, 600_000
    with started() as process, ExitStack() as stack:
        process.ask()
        before = process.memory_bytes()
        for _ in range(count):
            client = stack.enter_context(process.connect())
            client.sendall(b"POST /waits HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.settimeout(0.05)
            with suppress(TimeoutError):
                client.sendall(b"2\r\nab\r\n" * (size // 7))
        for _ in range(20):
            process.ask()  # Each takes some iterations of the loop, in which it also reads from the others.
        assert process.memory_bytes() - before < count * size


def test_a_download_by_a_client_that_does_not_read() -> None:
    with started() as process, process.connect() as client:
        process.ask()
        before = process.memory_bytes()
        client.sendall(b"GET /download HTTP/1.1\r\nHost: a\r\n\r\n")
        time.sleep(0.5)
        assert process.memory_bytes() - before < FLAT
        # It goes on where it stood.
        got, most = 0, 0
        while got < SIZE:
            got += len(client.recv(MIB))
            most = max(most, process.memory_bytes())
        assert most - before < FLAT


@pytest.mark.time_limit(180)
def test_ten_thousand_slow_connections() -> None:
    """Each holds half a head; others are served, and the memory is a few kilobytes for each."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 100), hard))
    clients: list[socket.socket] = []
    try:
        with started(str(count + 100)) as process:
            process.ask()
            before = process.memory_bytes()
            for number in range(count):
                client = process.connect()
                clients.append(client)
                client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
                if number % 1000 == 999:
                    assert process.ask().endswith(b"hello")
            for _ in range(3):
                for client in clients:
                    client.sendall(b"a")
                began_s = time.monotonic()
                assert process.ask().endswith(b"hello")
                assert time.monotonic() - began_s < 60
            each = (process.memory_bytes() - before) / count
            assert each < 4096, each
            clients[0].sendall(b"\r\n\r\n")
            assert clients[0].recv(1 << 16).endswith(b"hello")
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_descriptors_that_run_out_and_come_back() -> None:
    with started("40") as process:
        clients = [process.connect() for _ in range(60)]
        served = 0
        for client in clients:
            client.settimeout(3)
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        for client in clients:
            try:
                served += client.recv(1 << 16).endswith(b"hello")
            except TimeoutError:
                break
        assert 10 < served < 60
        # No spinning while nothing can be accepted.
        before = cpu_s(process.pid)
        time.sleep(0.5)
        assert cpu_s(process.pid) - before < 0.2
        for client in clients[:served]:
            client.close()
        for client in clients[served:]:
            client.settimeout(60)
            assert client.recv(1 << 16).endswith(b"hello")
            client.close()
        assert process.ask().endswith(b"hello")


def cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
