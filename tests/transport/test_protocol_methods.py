"""Which methods of a protocol the loop looks for, and when: at each call, and not before it."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest

from tests.protocols import Recorder
from tests.transport.conftest import socket_pair


class Bare:
    """Neither asyncio's protocol nor all of its methods."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.lost: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.calls.append("connection_made")

    def connection_lost(self, exc: BaseException | None) -> None:
        self.calls.append("connection_lost")
        self.lost.set_result(exc)


class Based(Bare, asyncio.BaseProtocol):
    pass


@pytest.mark.parametrize("factory", [Bare, Based])
async def test_a_stream_protocol_without_data_received(
    loop: asyncio.AbstractEventLoop, reported: Any, factory: Any
) -> None:
    """It connects and may write; data that comes ends it, and is reported."""
    ours, theirs = socket_pair("unix")
    transport, protocol = await loop.create_connection(factory, sock=ours)
    transport.write(b"hello")
    assert theirs.recv(5) == b"hello"
    assert protocol.calls == ["connection_made"]
    theirs.send(b"x")
    assert isinstance(await protocol.lost, AttributeError)
    assert protocol.calls == ["connection_made", "connection_lost"]
    context = reported.take_one(AttributeError)
    assert context["message"] == "Fatal error: protocol.data_received() call failed."
    assert context["transport"] is transport
    assert context["protocol"] is protocol
    theirs.close()


async def test_a_datagram_protocol_without_datagram_received(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    theirs = socket.socket(type=socket.SOCK_DGRAM)
    theirs.bind(("127.0.0.1", 0))
    transport, protocol = await loop.create_datagram_endpoint(
        Based,  # type: ignore[type-var]
        remote_addr=theirs.getsockname(),
    )
    transport.sendto(b"hello")
    data, address = theirs.recvfrom(100)
    assert data == b"hello"
    theirs.sendto(b"x", address)
    while not reported.contexts:
        await asyncio.sleep(0)
    reported.take_one(AttributeError)
    transport.close()
    await protocol.lost
    theirs.close()


async def test_a_pipe_protocol_without_data_received(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    reading, writing = os.pipe()
    pipe = os.fdopen(reading, "rb", buffering=0)
    transport, protocol = await loop.connect_read_pipe(Based, pipe)
    os.write(writing, b"x")
    while not reported.contexts:
        await asyncio.sleep(0)
    reported.take_one(AttributeError)
    transport.close()
    await protocol.lost
    os.close(writing)


@pytest.mark.parametrize("where", ["object", "class"])
async def test_data_received_that_is_replaced_later(loop: asyncio.AbstractEventLoop, where: str) -> None:
    class Own(Recorder):
        pass

    ours, theirs = socket_pair("unix")
    transport, protocol = await loop.create_connection(Own, sock=ours)
    target: Any = protocol if where == "object" else Own
    for turn in range(3):
        seen = loop.create_future()

        def replaced(*arguments: Any, seen: asyncio.Future[bytes] = seen) -> None:
            seen.set_result(arguments[-1])

        target.data_received = replaced
        theirs.send(b"%d" % turn)
        assert await seen == b"%d" % turn
    del target.data_received
    theirs.send(b"again")
    assert await protocol.wait_received(5) == b"again"
    transport.close()
    await protocol.wait_lost()
    theirs.close()


@pytest.mark.parametrize("method", ["get_buffer", "buffer_updated"])
async def test_methods_of_a_buffered_protocol_that_are_replaced_later(
    loop: asyncio.AbstractEventLoop, method: str
) -> None:
    class Own(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.buffer = bytearray(100)
            self.updated: list[int] = []

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.buffer

        def buffer_updated(self, nbytes: int) -> None:
            self.updated.append(nbytes)

    ours, theirs = socket_pair("unix")
    transport, protocol = await loop.create_connection(Own, sock=ours)
    theirs.send(b"x")
    while not protocol.updated:
        await asyncio.sleep(0)
    called = loop.create_future()
    original = getattr(protocol, method)

    def replaced(number: int) -> Any:
        called.set_result(number) if not called.done() else None
        return original(number)

    setattr(protocol, method, replaced)
    theirs.send(b"yz")
    assert await called in (-1, 2)
    while sum(protocol.updated) < 3:
        await asyncio.sleep(0)
    transport.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    theirs.close()


async def test_datagram_received_that_is_replaced_later(loop: asyncio.AbstractEventLoop) -> None:
    class Own(asyncio.DatagramProtocol):
        pass

    theirs = socket.socket(type=socket.SOCK_DGRAM)
    transport, protocol = await loop.create_datagram_endpoint(Own, local_addr=("127.0.0.1", 0))
    theirs.connect(transport.get_extra_info("sockname"))
    for turn in range(2):
        seen = loop.create_future()
        protocol.datagram_received = lambda data, _, seen=seen: seen.set_result(data)  # type: ignore[method-assign]
        theirs.send(b"%d" % turn)
        assert await seen == b"%d" % turn
    transport.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    theirs.close()
