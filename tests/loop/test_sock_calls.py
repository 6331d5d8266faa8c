"""The sock_* coroutines: results, waiting, errors, cancellation without loss."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import cancelled


@asynccontextmanager
async def tcp_pair(loop: asyncio.AbstractEventLoop) -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    """Two connected, non-blocking TCP sockets, made with sock_connect and sock_accept."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        client = socket.socket()
        client.setblocking(False)
        accepted = asyncio.ensure_future(loop.sock_accept(listener))
        await loop.sock_connect(client, listener.getsockname())
        server, address = await accepted
        assert address == client.getsockname()
        assert server.getblocking() is False
        assert not os.get_inheritable(server.fileno())
        with client, server:
            yield client, server


async def test_recv_and_sendall(loop: asyncio.AbstractEventLoop) -> None:
    async with tcp_pair(loop) as (client, server):
        await loop.sock_sendall(client, b"hello")
        assert await loop.sock_recv(server, 100) == b"hello"
        waiting = asyncio.ensure_future(loop.sock_recv(server, 3))
        await asyncio.sleep(0)
        await loop.sock_sendall(client, bytearray(b"abcdef"))
        assert await waiting == b"abc"
        assert await loop.sock_recv(server, 100) == b"def"
        client.close()
        assert await loop.sock_recv(server, 100) == b""


async def test_recv_into(loop: asyncio.AbstractEventLoop) -> None:
    async with tcp_pair(loop) as (client, server):
        buffer = bytearray(10)
        waiting = asyncio.ensure_future(loop.sock_recv_into(server, memoryview(buffer)[2:]))
        await asyncio.sleep(0)
        await loop.sock_sendall(client, memoryview(b"hello"))
        assert await waiting == 5
        assert bytes(buffer) == b"\0\0hello\0\0\0"
        with pytest.raises((TypeError, BufferError)):
            await loop.sock_recv_into(server, b"read-only")  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 1, 70_000, 5_000_000])
async def test_large_sends_wait_for_the_reader(loop: asyncio.AbstractEventLoop, size: int) -> None:
    data = os.urandom(min(size, 1000)) * (size // 1000 or 1)
    async with tcp_pair(loop) as (client, server):
        sending = asyncio.ensure_future(loop.sock_sendall(client, data))
        received = bytearray()
        while len(received) < len(data):
            received += await loop.sock_recv(server, 1 << 16)
        await sending
        assert received == data


async def test_datagrams(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as two:
        for sock in (one, two):
            sock.setblocking(False)
            sock.bind(("127.0.0.1", 0))
        waiting = asyncio.ensure_future(loop.sock_recvfrom(two, 100))
        await asyncio.sleep(0)
        assert await loop.sock_sendto(one, b"hello", two.getsockname()) == 5
        assert await waiting == (b"hello", one.getsockname())
        assert await loop.sock_sendto(two, b"", one.getsockname()) == 0
        buffer = bytearray(10)
        assert await loop.sock_recvfrom_into(one, buffer) == (0, two.getsockname())
        await loop.sock_sendto(two, b"world", one.getsockname())
        assert await loop.sock_recvfrom_into(one, buffer, 3) == (3, two.getsockname())
        assert bytes(buffer[:4]) == b"wor\0"


async def test_unix_connect(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        for sock in (listener, client):
            sock.setblocking(False)
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        await loop.sock_connect(client, str(tmp_path / "socket"))
        server, _ = await loop.sock_accept(listener)
        with server:
            await loop.sock_sendall(server, b"hello")
            assert await loop.sock_recv(client, 10) == b"hello"


async def test_connect_refused(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket() as unused, socket.socket() as client:
        unused.bind(("127.0.0.1", 0))
        client.setblocking(False)
        with pytest.raises(ConnectionRefusedError):
            await loop.sock_connect(client, unused.getsockname())


async def test_connect_resolves_names(loop: asyncio.AbstractEventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, ("localhost", listener.getsockname()[1]))
        assert client.getpeername() == listener.getsockname()


async def test_blocking_sockets_are_refused_in_debug_mode(loop: asyncio.AbstractEventLoop) -> None:
    loop.set_debug(True)
    with socket.socket() as sock:
        for call in (
            lambda: loop.sock_recv(sock, 1),
            lambda: loop.sock_recv_into(sock, bytearray(1)),
            lambda: loop.sock_recvfrom(sock, 1),
            lambda: loop.sock_recvfrom_into(sock, bytearray(1)),
            lambda: loop.sock_sendall(sock, b"x"),
            lambda: loop.sock_sendto(sock, b"x", ("127.0.0.1", 1)),
            lambda: loop.sock_accept(sock),
            lambda: loop.sock_connect(sock, ("127.0.0.1", 1)),
        ):
            with pytest.raises(ValueError, match="the socket must be non-blocking"):
                await call()
    loop.set_debug(False)


async def test_tls_sockets_are_refused(loop: asyncio.AbstractEventLoop) -> None:
    import ssl

    context = ssl.create_default_context()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs, context.wrap_socket(ours, do_handshake_on_connect=False, server_hostname="x") as wrapped:
        for call in (
            lambda: loop.sock_recv(wrapped, 1),
            lambda: loop.sock_recv_into(wrapped, bytearray(1)),
            lambda: loop.sock_sendall(wrapped, b"x"),
            lambda: loop.sock_accept(wrapped),
            lambda: loop.sock_connect(wrapped, ("127.0.0.1", 1)),
        ):
            with pytest.raises(TypeError, match="Socket cannot be of type SSLSocket"):
                await call()


async def test_a_closed_socket(loop: asyncio.AbstractEventLoop) -> None:
    sock = socket.socket()
    sock.setblocking(False)
    sock.close()
    with pytest.raises((OSError, ValueError)):
        await loop.sock_recv(sock, 1)
    with pytest.raises((OSError, ValueError)):
        await loop.sock_sendall(sock, b"x")


async def test_reset_by_peer(loop: asyncio.AbstractEventLoop) -> None:
    async with tcp_pair(loop) as (client, server):
        waiting = asyncio.ensure_future(loop.sock_recv(server, 1))
        await asyncio.sleep(0)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        with pytest.raises(ConnectionResetError):
            await waiting
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(3):
                await loop.sock_sendall(server, b"x")


async def test_cancelling_a_recv_loses_nothing(loop: asyncio.AbstractEventLoop) -> None:
    async with tcp_pair(loop) as (client, server):
        for _ in range(20):
            waiting = asyncio.ensure_future(loop.sock_recv(server, 10))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await loop.sock_sendall(client, b"kept")
        assert await loop.sock_recv(server, 10) == b"kept"


async def test_cancelling_an_accept_loses_no_connection(loop: asyncio.AbstractEventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        listener.setblocking(False)
        client.setblocking(False)
        await cancelled(loop.sock_accept(listener), 1)
        await loop.sock_connect(client, listener.getsockname())
        server, _ = await loop.sock_accept(listener)
        server.close()


async def test_cancelling_a_sendall_stops_it(loop: asyncio.AbstractEventLoop) -> None:
    async with tcp_pair(loop) as (client, server):
        sending = await cancelled(loop.sock_sendall(client, bytes(20_000_000)), 1)
        assert sending.cancelled()
        client.shutdown(socket.SHUT_WR)
        total = 0
        while data := await loop.sock_recv(server, 1 << 20):
            total += len(data)
        assert 0 < total < 20_000_000


async def test_closing_the_socket_under_a_waiting_recv(loop: asyncio.AbstractEventLoop) -> None:
    """The program's mistake; the loop survives, and the next owner of the number is not disturbed."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    waiting = asyncio.ensure_future(loop.sock_recv(ours, 1))
    await asyncio.sleep(0)
    ours.close()
    waiting.cancel()
    await asyncio.wait([waiting])
    theirs.close()
    async with tcp_pair(loop) as (client, server):
        await loop.sock_sendall(client, b"hello")
        assert await loop.sock_recv(server, 100) == b"hello"


@pytest.mark.parametrize("fallback", [True, False])
async def test_sock_sendfile(loop: asyncio.AbstractEventLoop, tmp_path: Path, fallback: bool) -> None:
    data = os.urandom(1000) * 3000
    path = tmp_path / "file"
    path.write_bytes(data)
    async with tcp_pair(loop) as (client, server):
        with path.open("rb") as file:
            sending = asyncio.ensure_future(loop.sock_sendfile(client, file, 5, len(data) - 10, fallback=fallback))
            received = bytearray()
            while len(received) < len(data) - 10:
                received += await loop.sock_recv(server, 1 << 16)
            assert await sending == len(data) - 10
            assert file.tell() == len(data) - 5
        assert received == data[5:-5]


async def test_sock_sendfile_arguments(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    async with tcp_pair(loop) as (client, _):
        with path.open("rb") as file:
            bad: list[tuple[tuple[Any, ...], type[Exception], str]] = [
                ((client, file, -1), ValueError, "offset must be a non-negative"),
                ((client, file, "0"), TypeError, "offset must be a non-negative"),
                ((client, file, 0, 0), ValueError, "count must be a positive"),
                ((client, file, 0, "1"), TypeError, "count must be a positive"),
            ]
            for arguments, error, text in bad:
                with pytest.raises(error, match=text):
                    await loop.sock_sendfile(*arguments)
        with path.open("r") as text_file, pytest.raises(ValueError, match="binary mode"):
            await loop.sock_sendfile(client, text_file)  # type: ignore[arg-type]
        with path.open("rb") as file, socket.socket(type=socket.SOCK_DGRAM) as datagram:
            datagram.setblocking(False)
            with pytest.raises(ValueError, match="only SOCK_STREAM"):
                await loop.sock_sendfile(datagram, file)
