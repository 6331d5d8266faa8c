"""loop.sendfile and loop.sock_sendfile with our files: sendfile(2), reading and writing for TLS and pipes."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from oneloop import files
from tests.conftest import cancelled
from tests.protocols import Recorder
from tests.transport.test_sendfile import connected, ended

pytestmark = pytest.mark.usefixtures("loop")

CONTENT = os.urandom(1000) * 2500


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(("offset", "count"), [(0, None), (10, 1000), (1_000_000, None), (0, 10**9)])
@pytest.mark.parametrize("buffering", [-1, 0])
async def test_a_file_arrives(
    loop: asyncio.AbstractEventLoop, path: Path, tls: bool, offset: int, count: int | None, buffering: int
) -> None:
    path.write_bytes(CONTENT)
    server, transport, _, sink = await connected(loop, tls)
    expected = CONTENT[offset:] if count is None else CONTENT[offset : offset + count]
    async with files.open(path, "rb", buffering) as file:
        transport.write(b"before")
        await file.read(3)
        assert await loop.sendfile(transport, file, offset, count) == len(expected)  # type: ignore[arg-type]
        transport.write(b"after")
        assert await file.tell() == offset + len(expected)
    assert await sink.wait_received(len(expected) + 11) == b"before" + expected + b"after"
    await ended(server, transport, sink)


async def test_a_cold_file_arrives(loop: asyncio.AbstractEventLoop, path: Path) -> None:
    path.write_bytes(CONTENT)
    server, transport, _, sink = await connected(loop, tls=False)
    async with files.open(path, "r+b") as file:
        await file.write(b"begin")
        await file.fsync()
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert await loop.sendfile(transport, file) == len(CONTENT)  # type: ignore[arg-type]
    assert await sink.wait_received(len(CONTENT)) == b"begin" + CONTENT[5:]
    await ended(server, transport, sink)


async def test_a_pipe_is_read_and_written(loop: asyncio.AbstractEventLoop) -> None:
    server, transport, _, sink = await connected(loop, tls=False)
    source, target = os.pipe()
    os.write(target, CONTENT[:50_000])
    os.close(target)
    async with files.open(source, "rb") as file:
        assert await loop.sendfile(transport, file) == 50_000  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match=r"not a regular file|not supported|not available"):
            await loop.sendfile(transport, file, fallback=False)  # type: ignore[arg-type]
    assert await sink.wait_received(50_000) == CONTENT[:50_000]
    await ended(server, transport, sink)


async def test_text_is_refused(loop: asyncio.AbstractEventLoop, path: Path) -> None:
    path.write_bytes(CONTENT)
    server, transport, _, sink = await connected(loop, tls=False)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    async with files.open(path) as file:
        with pytest.raises(ValueError, match="binary mode"):
            await loop.sock_sendfile(ours, file)  # type: ignore[arg-type]
    ours.close()
    theirs.close()
    await ended(server, transport, sink)


async def test_a_socket(loop: asyncio.AbstractEventLoop, path: Path) -> None:
    path.write_bytes(CONTENT)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    received = bytearray()

    async def receive() -> None:
        while data := await loop.sock_recv(theirs, 1 << 16):
            received.extend(data)

    receiving = asyncio.ensure_future(receive())
    async with files.open(path, "rb") as file:
        assert await loop.sock_sendfile(ours, file, 5) == len(CONTENT) - 5  # type: ignore[arg-type]
    ours.close()
    await receiving
    theirs.close()
    assert received == CONTENT[5:]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_cancelled_in_the_middle(loop: asyncio.AbstractEventLoop, path: Path, tls: bool) -> None:
    path.write_bytes(CONTENT)
    server, transport, protocol, sink = await connected(loop, tls)
    sink.transport.pause_reading()
    async with files.open(path, "rb") as file:
        for steps in range(5):
            await cancelled(loop.sendfile(transport, file, 0), steps)  # type: ignore[arg-type]
    assert isinstance(protocol, Recorder)
    transport.abort()
    sink.transport.abort()
    await protocol.wait_lost()
    await sink.wait_lost()
    server.close()
    await server.wait_closed()
