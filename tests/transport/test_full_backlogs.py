"""Connecting to a Unix socket whose backlog is full: connect(2) says EAGAIN, and has begun nothing.

Source: tokio-rs/mio#1560, chriskohlhoff/asio#1365. asyncio takes it for EINPROGRESS: it reports success without a peer,
and what is written is lost.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from oneloop import sockets
from oneloop.http import AsyncClient, HTTPError
from oneloop.sockets import _before_another_attempt
from tests.conftest import settle

BACKLOG = 1

pytestmark = pytest.mark.oneloop_only("asyncio reports success without a peer")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "socket")


@pytest.fixture
def listener(path: str, audit: None) -> Iterator[socket.socket]:
    """It listens, and its backlog is full."""
    with ExitStack() as stack:
        made = stack.enter_context(socket.socket(socket.AF_UNIX))
        made.bind(path)
        made.listen(BACKLOG)
        made.setblocking(False)
        # The kernel takes one more.
        for expected in (*[0] * (BACKLOG + 1), errno.EAGAIN):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            assert client.connect_ex(path) == expected
        yield made


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    made: list[object] = []

    async def before_another_attempt(sock: Any, address: Any) -> None:
        made.append(address)
        await _before_another_attempt(sock, address)

    monkeypatch.setattr(sockets, "_before_another_attempt", before_another_attempt)
    return made


async def by_sock_connect(path: str) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, path)
        await loop.sock_sendall(sock, b"hello")


async def by_create_unix_connection(path: str) -> None:
    transport, _ = await asyncio.get_running_loop().create_unix_connection(asyncio.Protocol, path)
    transport.write(b"hello")
    transport.close()


async def by_open_unix_connection(path: str) -> None:
    _, writer = await asyncio.open_unix_connection(path)
    writer.write(b"hello")
    writer.close()
    await writer.wait_closed()


async def by_client(path: str) -> None:
    """The HTTP client; the peer ends the connection without a response."""
    async with AsyncClient(uds=path, timeout=None) as client:
        with pytest.raises(HTTPError):
            await client.request("HELLO", "http://host/")


WAYS = [by_sock_connect, by_create_unix_connection, by_open_unix_connection, by_client]


@pytest.mark.parametrize("way", WAYS)
async def test_it_waits_for_room(
    loop: asyncio.AbstractEventLoop,
    path: str,
    listener: socket.socket,
    attempts: list[object],
    way: Callable[[str], Coroutine[Any, Any, None]],
) -> None:
    connecting = asyncio.ensure_future(way(path))
    while len(attempts) < 2:
        await asyncio.sleep(0)
    assert not connecting.done()
    # Those that fill the backlog come first.
    accepted = [listener.accept()[0] for _ in range(BACKLOG + 1)]
    accepted.append((await loop.sock_accept(listener))[0])
    assert (await loop.sock_recv(accepted[-1], 5)).lower() == b"hello"
    for conn in accepted:
        conn.close()
    await connecting
    await settle()


@pytest.mark.parametrize("way", WAYS)
async def test_it_can_be_cancelled(
    loop: asyncio.AbstractEventLoop,
    path: str,
    listener: socket.socket,
    attempts: list[object],
    way: Callable[[str], Coroutine[Any, Any, None]],
) -> None:
    connecting = asyncio.ensure_future(way(path))
    while not attempts:
        await asyncio.sleep(0)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting


async def test_other_families_raise(loop: asyncio.AbstractEventLoop) -> None:
    """There it means that the kernel lacks something (connect(2)): asyncio would wait, and find no error."""

    class Refusing(socket.socket):
        def connect(self, address: Any) -> None:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with Refusing() as sock:
        sock.setblocking(False)
        with pytest.raises(BlockingIOError, match="Connect call failed"):
            await loop.sock_connect(sock, ("127.0.0.1", 1))
