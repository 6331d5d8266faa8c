"""Which objects add_reader, add_writer and the sock_* methods take: whatever has `fileno()` and a socket's methods."""

from __future__ import annotations

import _socket
import asyncio
import os
import select
import socket
from asyncio import trsock
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.transport.conftest import socket_pair


class Slots:
    """No weak references, no attributes but its own."""

    __slots__ = ("sock",)

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def fileno(self) -> int:
        return self.sock.fileno()


class Delegating:
    """Has a socket's methods, and is none."""

    __slots__ = ("_sock", "calls")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._sock, name)


class Shouting(socket.socket):
    """Overrides what the loop calls, with the parameters that asyncio passes and no others."""

    def recv(self, bufsize: int) -> bytes:  # type: ignore[override]
        return super().recv(bufsize).upper()

    def recv_into(self, buffer: Any) -> int:  # type: ignore[override]
        count = super().recv_into(buffer)
        buffer[:count] = bytes(buffer[:count]).upper()
        return count

    def send(self, data: Any) -> int:  # type: ignore[override]
        return super().send(bytes(data).upper())

    def recvfrom(self, bufsize: int) -> tuple[bytes, Any]:  # type: ignore[override]
        data, address = super().recvfrom(bufsize)
        return data.upper(), address

    def recvfrom_into(self, buffer: Any, nbytes: int = 0) -> tuple[int, Any]:  # type: ignore[override]
        count, address = super().recvfrom_into(buffer, nbytes)
        buffer[:count] = bytes(buffer[:count]).upper()
        return count, address

    def sendto(self, data: Any, address: Any) -> int:  # type: ignore[override]
        return super().sendto(bytes(data).upper(), address)


def raw(sock: socket.socket) -> Any:
    return _socket.socket(sock.family, sock.type, sock.proto, fileno=sock.detach())


def shouting(sock: socket.socket) -> Any:
    made = Shouting(fileno=sock.detach())
    made.setblocking(False)
    return made


WATCHED: dict[str, Callable[[socket.socket], Any]] = {
    "socket": lambda sock: sock,
    "number": lambda sock: sock.fileno(),
    "raw socket": raw,
    "transport socket": trsock.TransportSocket,
    "slots": Slots,
    "delegating": Delegating,
}
SOCKETS: dict[str, Callable[[socket.socket], Any]] = {
    "socket": lambda sock: sock,
    "raw socket": raw,
    "delegating": Delegating,
    "subclass": shouting,
}


@pytest.mark.parametrize("kind", ["reader", "writer"])
@pytest.mark.parametrize("watched", WATCHED)
def test_what_can_be_watched(loop: asyncio.AbstractEventLoop, watched: str, kind: str) -> None:
    ours, theirs = socket_pair("unix")
    number = ours.fileno()
    theirs.send(b"x")
    thing = WATCHED[watched](ours)
    for _ in range(2):
        getattr(loop, f"add_{kind}")(thing, loop.stop)
        loop.run_forever()
        assert getattr(loop, f"remove_{kind}")(thing) is True
        assert getattr(loop, f"remove_{kind}")(thing) is False
    theirs.close()
    ours.close() if ours.fileno() >= 0 else thing.close()
    assert number >= 0


def test_an_epoll_object(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("unix")
    with select.epoll() as epoll, ours, theirs:
        epoll.register(ours, select.EPOLLIN)
        loop.add_reader(epoll, loop.stop)
        theirs.send(b"x")
        loop.run_forever()
        assert epoll.poll(0) == [(ours.fileno(), select.EPOLLIN)]
        assert loop.remove_reader(epoll) is True


@pytest.mark.parametrize("watched", ["socket", "raw socket", "delegating", "slots"])
def test_an_object_that_is_closed_first_can_be_removed(loop: asyncio.AbstractEventLoop, watched: str) -> None:
    ours, theirs = socket_pair("unix")
    thing = WATCHED[watched](ours)
    loop.add_reader(thing, pytest.fail, "called for what is closed")
    (thing if watched == "raw socket" else ours).close()
    theirs.close()
    assert loop.remove_reader(thing) is True


def test_an_open_object_stays_known_while_others_wait_for_its_descriptor(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("unix")
    internal: Any = loop
    with theirs:
        loop.add_reader(ours, pytest.fail, "nothing comes")
        # As transports, and green threads that wait for a process's pipes.
        internal._add_writer(ours.fileno(), int)
        internal._remove_writer(ours.fileno())
        ours.close()
        assert loop.remove_reader(ours) is True


@pytest.mark.oneloop_only("asyncio's selector takes a closed object for what has its number now")
async def test_an_object_that_is_closed_does_not_stand_for_what_has_its_number_next(
    loop: asyncio.AbstractEventLoop,
) -> None:
    ours, theirs = socket_pair("unix")
    number = ours.fileno()
    pairs = [socket_pair("unix") for _ in range(2)]
    for by_transport, (old, other) in zip((False, True), pairs, strict=True):
        os.dup2(old.fileno(), number)
        watched = socket.socket(fileno=number) if by_transport else ours
        loop.add_reader(watched, pytest.fail, "called for what is closed")
        watched.close()
        old.close()
        other.close()
        os.dup2(theirs.fileno(), number)
        if by_transport:
            sock = socket.socket(fileno=number)
            transport, _ = await loop.create_connection(asyncio.Protocol, sock=sock)
            assert loop.remove_reader(watched) is False
            transport.abort()
            await asyncio.sleep(0)
        else:
            loop.add_reader(number, pytest.fail, "nothing comes")
            with pytest.raises(ValueError, match="Invalid file descriptor"):
                loop.remove_reader(watched)
            assert loop.remove_reader(number) is True
            os.close(number)
    theirs.close()


@asynccontextmanager
async def pair_of(sort: str) -> AsyncIterator[tuple[Any, socket.socket]]:
    ours, theirs = socket_pair("tcp")
    thing = SOCKETS[sort](ours)
    try:
        yield thing, theirs
    finally:
        thing.close()
        theirs.close()


def shouted(sort: str, data: bytes) -> bytes:
    return data.upper() if sort == "subclass" else data


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("sort", SOCKETS)
async def test_sock_recv(loop: asyncio.AbstractEventLoop, sort: str, waits: bool) -> None:
    async with pair_of(sort) as (thing, theirs):
        for _ in range(2):
            receiving = asyncio.ensure_future(loop.sock_recv(thing, 100))
            if waits:
                await asyncio.sleep(0)
            theirs.send(b"hello")
            assert await receiving == shouted(sort, b"hello")


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("sort", SOCKETS)
async def test_sock_recv_into(loop: asyncio.AbstractEventLoop, sort: str, waits: bool) -> None:
    async with pair_of(sort) as (thing, theirs):
        buffer = bytearray(10)
        receiving = asyncio.ensure_future(loop.sock_recv_into(thing, buffer))
        if waits:
            await asyncio.sleep(0)
        theirs.send(b"hello")
        assert await receiving == 5
        assert bytes(buffer[:5]) == shouted(sort, b"hello")


@pytest.mark.parametrize("size", [5, 3_000_000])
@pytest.mark.parametrize("sort", SOCKETS)
async def test_sock_sendall(loop: asyncio.AbstractEventLoop, sort: str, size: int) -> None:
    async with pair_of(sort) as (thing, theirs):
        sending = asyncio.ensure_future(loop.sock_sendall(thing, memoryview(b"x" * size)))
        received = b""
        while len(received) < size:
            received += await loop.sock_recv(theirs, 1 << 20)
        await sending
        assert received == shouted(sort, b"x" * size)


@pytest.mark.parametrize("sort", SOCKETS)
async def test_datagram_operations(loop: asyncio.AbstractEventLoop, sort: str) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as theirs:
        ours = socket.socket(type=socket.SOCK_DGRAM)
        for sock in (ours, theirs):
            sock.setblocking(False)
            sock.bind(("127.0.0.1", 0))
        address = ours.getsockname()
        thing = SOCKETS[sort](ours)
        for waits in (False, True):
            receiving = asyncio.ensure_future(loop.sock_recvfrom(thing, 100))
            if waits:
                await asyncio.sleep(0)
            theirs.sendto(b"hello", address)
            assert await receiving == (shouted(sort, b"hello"), theirs.getsockname())
        buffer = bytearray(10)
        theirs.sendto(b"hello", address)
        assert await loop.sock_recvfrom_into(thing, buffer) == (5, theirs.getsockname())
        assert bytes(buffer[:5]) == shouted(sort, b"hello")
        assert await loop.sock_sendto(thing, b"answer", theirs.getsockname()) == 6
        assert await loop.sock_recvfrom(theirs, 100) == (shouted(sort, b"answer"), address)
        thing.close()


@pytest.mark.parametrize("sort", ["socket", "delegating", "subclass"])  # a raw socket has no accept()
async def test_sock_accept(loop: asyncio.AbstractEventLoop, sort: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    address = listener.getsockname()
    thing = SOCKETS[sort](listener)
    accepting = asyncio.ensure_future(loop.sock_accept(thing))
    await asyncio.sleep(0)
    with socket.create_connection(address) as client:
        server, peer = await accepting
        assert peer == client.getsockname()
        server.close()
    thing.close()


@pytest.mark.parametrize("sort", SOCKETS)
async def test_sock_connect(loop: asyncio.AbstractEventLoop, sort: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.socket()
        ours.setblocking(False)
        thing = SOCKETS[sort](ours)
        await loop.sock_connect(thing, listener.getsockname())
        server, address = listener.accept()
        assert address == thing.getsockname()
        server.close()
        thing.close()


@pytest.mark.oneloop_only("stock asyncio waits in accept() itself")
@pytest.mark.parametrize("timeout", [None, 10.0])
async def test_accepting_on_a_listener_with_a_timeout(loop: asyncio.AbstractEventLoop, timeout: float | None) -> None:
    """The client comes from the loop's own thread: nobody connects while accept() blocks it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(timeout)
        for _ in range(2):
            accepting = asyncio.ensure_future(loop.sock_accept(listener))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            with socket.create_connection(listener.getsockname()) as client:
                server, address = await accepting
                assert address == client.getsockname()
                assert server.gettimeout() == 0
                server.close()
        assert listener.gettimeout() == timeout


async def test_a_reader_of_a_raw_pipe(loop: asyncio.AbstractEventLoop) -> None:
    reading, writing = os.pipe()
    called = loop.create_future()
    loop.add_reader(reading, called.set_result, None)
    os.write(writing, b"x")
    await called
    loop.remove_reader(reading)
    os.close(reading)
    os.close(writing)
