"""A program that keeps the socket or the file which it gave to a transport, and uses it behind the transport's back."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.transport.conftest import socket_pair

BEHIND: dict[str, tuple[Callable[[Any], Any], bytes]] = {
    "shutdown": (lambda sock: sock.shutdown(socket.SHUT_WR), b"onetwo"),
    "close": (lambda sock: sock.close(), b"onetwo"),
    "detach": (lambda sock: os.close(sock.detach()), b"onetwo"),
    "send": (lambda sock: sock.send(b"three"), b"onetwothree"),
    "os.write": (lambda sock: os.write(sock.fileno(), b"three"), b"onetwothree"),
    "a child": (lambda sock: subprocess.run(["printf", "three"], stdout=sock, check=True), b"onetwothree"),
}


async def all_of(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> bytes:
    received = b""
    while data := await loop.sock_recv(sock, 100):
        received += data
    return received


@pytest.mark.parametrize("act", BEHIND)
async def test_two_writes_come_before(loop: asyncio.AbstractEventLoop, kind: str, act: str) -> None:
    ours, theirs = socket_pair(kind)
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    behind, expected = BEHIND[act]

    def write() -> None:
        transport.write(b"one")
        transport.write(b"two")
        behind(ours)

    loop.call_soon(write)
    await asyncio.sleep(0.01)
    transport.abort()
    await asyncio.sleep(0.01)
    assert await all_of(loop, theirs) == expected
    theirs.close()
    ours.close()


async def test_two_writes_come_before_the_close_of_a_pipe(loop: asyncio.AbstractEventLoop) -> None:
    reading, writing = os.pipe()
    file = os.fdopen(writing, "wb", 0)
    transport, _ = await loop.connect_write_pipe(asyncio.Protocol, file)

    def write() -> None:
        transport.write(b"one")
        transport.write(b"two")
        file.close()

    loop.call_soon(write)
    await asyncio.sleep(0.01)
    assert os.read(reading, 100) == b"onetwo"
    os.close(reading)
    transport.abort()
    await asyncio.sleep(0.01)


@pytest.mark.oneloop_only("stock asyncio sends each write at once")
async def test_writes_are_gathered_when_nobody_else_has_the_socket(loop: asyncio.AbstractEventLoop) -> None:
    """Also after `get_extra_info("socket")`, whose object sends what waits before it does anything."""
    ours, theirs = socket_pair("unix")
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    del ours
    seen: list[bytes] = []

    def write() -> None:
        wrapped = transport.get_extra_info("socket")
        transport.write(b"one")
        transport.write(b"two")
        seen.append(theirs.recv(100))
        wrapped.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
        transport.write(b"three")
        transport.write(b"four")

    for _ in range(20):  # a pause of the machine between two writes sends the second one at once
        loop.call_soon(write)
        await asyncio.sleep(0.01)
        if seen[-1] == b"one":
            break
        theirs.recv(100)
    assert seen[-1] == b"one"
    transport.close()
    await asyncio.sleep(0.01)
    theirs.close()
