"""Connections that break: reset, broken pipes, timeouts, protocols that raise."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from typing import Any

import pytest

from tests.conftest import settle
from tests.protocols import Echo, Recorder
from tests.transport.conftest import Connect, socket_pair

HARD_CLOSE = struct.pack("ii", 1, 0)


def reset(sock: socket.socket) -> None:
    """Close with a reset instead of an orderly end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, HARD_CLOSE)
    sock.close()


async def test_reset_while_reading(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("tcp")
    transport, protocol = await loop.create_connection(Recorder, sock=ours)
    reset(theirs)
    assert isinstance(await protocol.wait_lost(), ConnectionResetError)
    assert transport.is_closing()
    assert "eof_received" not in protocol.calls


async def test_reset_while_writing(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("tcp")
    transport, protocol = await loop.create_connection(Recorder, sock=ours)
    transport.pause_reading()
    transport.write(bytes(20_000_000))
    reset(theirs)
    assert isinstance(await protocol.wait_lost(), (ConnectionResetError, BrokenPipeError))


async def test_reset_with_data_before_it(loop: asyncio.AbstractEventLoop) -> None:
    """Unread bytes in our own socket when the peer closes cleanly: they are delivered, then the end."""
    ours, theirs = socket_pair("tcp")
    _, protocol = await loop.create_connection(Recorder, sock=ours)
    await loop.sock_sendall(theirs, b"last words")
    theirs.close()
    assert await protocol.wait_lost() is None
    assert protocol.received == b"last words"


async def test_broken_pipe(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, peer):
        transport.pause_reading()
        peer.close()
        for _ in range(10):
            transport.write(b"x")
            await asyncio.sleep(0)
            if transport.is_closing():
                break
        assert isinstance(await protocol.wait_lost(), (BrokenPipeError, ConnectionResetError))


async def test_writing_to_a_lost_connection_is_logged_not_raised(
    loop: asyncio.AbstractEventLoop, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect() as (transport, protocol, _):
        transport.abort()
        await protocol.wait_lost()
        for _ in range(10):
            transport.write(b"x")
        assert caplog.text.count("socket.send() raised exception") <= 6


async def test_a_connection_that_times_out(loop: asyncio.AbstractEventLoop) -> None:
    """ETIMEDOUT on an open connection: the peer's window stays shut longer than TCP_USER_TIMEOUT."""
    ours, theirs = socket_pair("tcp")
    ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 200)
    transport, protocol = await loop.create_connection(Recorder, sock=ours)
    transport.write(bytes(20_000_000))
    error = await protocol.wait_lost()
    assert isinstance(error, TimeoutError)
    assert isinstance(error, OSError)
    assert error.errno == errno.ETIMEDOUT
    theirs.close()


async def test_a_connect_that_times_out(loop: asyncio.AbstractEventLoop) -> None:
    """ETIMEDOUT while connecting: the listener's backlog is full, and one SYN is all that we try."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = []
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        with socket.socket() as client:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1)
            with pytest.raises(TimeoutError) as error:
                await loop.sock_connect(client, listener.getsockname())
            assert error.value.errno == errno.ETIMEDOUT
        for filler in fillers:
            filler.close()


async def test_data_received_that_raises(loop: asyncio.AbstractEventLoop, connect: Connect, reported: Any) -> None:
    class Failing(Recorder):
        def data_received(self, data: bytes) -> None:
            raise LookupError("in data_received")

    async with connect(Failing) as (transport, protocol, peer):
        await loop.sock_sendall(peer, b"x")
        lost = await protocol.wait_lost()
        assert isinstance(lost, LookupError)
        context = reported.take_one(LookupError)
        assert context["transport"] is transport
        assert context["protocol"] is protocol
        assert "Fatal error" in context["message"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_data_received_that_interrupts(loop: asyncio.AbstractEventLoop, error: type[BaseException]) -> None:
    class Interrupting(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            raise error

    ours, theirs = socket_pair("unix")

    async def start() -> asyncio.Transport:
        transport, _ = await loop.create_connection(Interrupting, sock=ours)
        return transport

    transport = loop.run_until_complete(start())
    theirs.send(b"x")
    with pytest.raises(error):
        loop.run_forever()
    transport.abort()
    theirs.close()
    assert loop.run_until_complete(asyncio.sleep(0, "alive")) == "alive"


@pytest.mark.parametrize("call", ["eof_received", "connection_lost"])
async def test_ends_that_raise(loop: asyncio.AbstractEventLoop, connect: Connect, call: str, reported: Any) -> None:
    reached: list[str] = []

    def fail(self: Any, *_: Any) -> None:
        reached.append(call)
        raise LookupError(call)

    factory = type("Failing", (Recorder,), {call: fail})
    async with connect(factory) as (_, protocol, peer):
        peer.close()
        while not reached:
            await asyncio.sleep(0.001)
        if call == "eof_received":
            assert isinstance(await protocol.wait_lost(), LookupError)
        await settle(3)
        reported.take_one(LookupError)


@pytest.mark.parametrize("call", ["pause_writing", "resume_writing"])
async def test_flow_control_that_raises(
    loop: asyncio.AbstractEventLoop, connect: Connect, call: str, reported: Any
) -> None:
    """It is reported, and the bytes go on."""

    def fail(self: Any) -> None:
        raise LookupError(call)

    factory = type("Failing", (Recorder,), {call: fail})
    async with connect(factory) as (transport, protocol, peer):
        transport.write(bytes(5_000_000))
        total = 0
        while total < 5_000_000:
            total += len(await loop.sock_recv(peer, 1 << 20))
        await settle(3)
        context = reported.take_one(LookupError)
        assert context["message"] == f"protocol.{call}() failed"
        assert "connection_lost" not in protocol.calls


async def test_a_server_survives_clients_that_break(loop: asyncio.AbstractEventLoop) -> None:
    async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
        address = server.sockets[0].getsockname()
        for turn in range(60):
            client = socket.create_connection(address)
            client.setblocking(False)
            if turn % 3:
                client.send(b"x" * 1000)
            if turn % 2:
                await asyncio.sleep(0)
            reset(client) if turn % 5 else client.close()
        transport, protocol = await loop.create_connection(Recorder, *address)
        transport.write(b"hello")
        assert await protocol.wait_received(5) == b"hello"
        transport.close()
        await protocol.wait_lost()
        for _ in range(10):
            await asyncio.sleep(0.001)
