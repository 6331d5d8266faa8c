"""A program that keeps the socket or the file which it gave to a transport, and uses it behind the transport's back."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import weakref
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


Make = Callable[[asyncio.AbstractEventLoop, socket.socket], Any]
TWICE: dict[str, tuple[int, Make]] = {
    "create_connection": (socket.SOCK_STREAM, lambda loop, sock: loop.create_connection(asyncio.Protocol, sock=sock)),
    "create_unix_connection": (
        socket.SOCK_STREAM,
        lambda loop, sock: loop.create_unix_connection(asyncio.Protocol, sock=sock),
    ),
    "connect_accepted_socket": (
        socket.SOCK_STREAM,
        lambda loop, sock: loop.connect_accepted_socket(asyncio.Protocol, sock),
    ),
    "create_datagram_endpoint": (
        socket.SOCK_DGRAM,
        lambda loop, sock: loop.create_datagram_endpoint(asyncio.DatagramProtocol, sock=sock),
    ),
}


@pytest.mark.parametrize("second", TWICE)
@pytest.mark.oneloop_only("stock asyncio makes two before 3.12, and closes the socket of the first from 3.14.8 on")
async def test_a_second_transport_before_the_first_has_begun(loop: asyncio.AbstractEventLoop, second: str) -> None:
    kind, make = TWICE[second]
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    ours.setblocking(False)
    first = TWICE["create_connection"][1] if kind == socket.SOCK_STREAM else make
    one, two = await asyncio.gather(first(loop, ours), make(loop, ours), return_exceptions=True)
    assert isinstance(two, RuntimeError)
    assert "is used by transport" in str(two)
    transport, _ = one
    assert not transport.is_closing()
    transport.abort()
    await asyncio.sleep(0.01)
    theirs.close()


@pytest.mark.parametrize("method", ["add_reader", "add_writer", "remove_reader", "remove_writer"])
async def test_callbacks_before_the_transport_has_begun(loop: asyncio.AbstractEventLoop, method: str) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    making = asyncio.ensure_future(loop.create_connection(asyncio.Protocol, sock=ours))
    await asyncio.sleep(0)
    arguments = (ours, print) if method.startswith("add") else (ours,)
    with pytest.raises(RuntimeError, match="is used by transport"):
        getattr(loop, method)(*arguments)
    transport, _ = await making
    transport.abort()
    await asyncio.sleep(0.01)
    theirs.close()


@pytest.mark.parametrize("way", TWICE)
async def test_a_transport_that_has_ended_is_freed(loop: asyncio.AbstractEventLoop, way: str) -> None:
    kind, make = TWICE[way]
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    ours.setblocking(False)
    transport, protocol = await make(loop, ours)
    freed = weakref.ref(transport)
    transport.abort()
    await asyncio.sleep(0.01)
    del transport, protocol
    gc.collect()
    assert freed() is None
    theirs.close()


@pytest.mark.oneloop_only("stock asyncio adds a reader for the closed socket, and reports the error")
async def test_a_number_is_free_when_its_transport_is_closed_before_it_has_begun(
    loop: asyncio.AbstractEventLoop,
) -> None:
    class Ends(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            ours.close()

    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    number = ours.fileno()
    transport, _ = await loop.create_connection(Ends, sock=ours)
    transport.abort()
    await asyncio.sleep(0.01)
    theirs.close()
    again, other = socket.socketpair()
    assert number in (again.fileno(), other.fileno())
    for sock in (again, other):
        sock.setblocking(False)
        made, _ = await loop.create_connection(asyncio.Protocol, sock=sock)
        made.abort()
        await asyncio.sleep(0.01)
