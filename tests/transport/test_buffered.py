"""BufferedProtocol: who owns the buffer, and what happens when get_buffer misbehaves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.protocols import BufferedRecorder, Recorder
from tests.transport.conftest import Connect


@pytest.mark.parametrize("size", [1, 3, 1000, 1 << 20])
async def test_small_and_large_buffers(loop: asyncio.AbstractEventLoop, connect: Connect, size: int) -> None:
    async with connect(lambda: BufferedRecorder(size)) as (_, protocol, peer):
        data = os.urandom(500 if size < 10 else 500_000)
        sending = asyncio.ensure_future(loop.sock_sendall(peer, data))
        assert await protocol.wait_received(len(data)) == data
        await sending
        assert all(isinstance(hint, int) for hint in protocol.hints)


async def test_a_memoryview_will_do(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    class Slices(BufferedRecorder):
        def get_buffer(self, sizehint: int) -> Any:
            return memoryview(self.buffer)[10:20]

        def buffer_updated(self, nbytes: int) -> None:
            assert 0 < nbytes <= 10
            self.received += self.buffer[10 : 10 + nbytes]
            self._note("data_received")

    async with connect(Slices) as (_, protocol, peer):
        await loop.sock_sendall(peer, b"0123456789abcdef")
        assert await protocol.wait_received(16) == b"0123456789abcdef"


def raises_in_get_buffer(self: Any, sizehint: int) -> Any:
    raise LookupError("in get_buffer")


BAD_BUFFERS: dict[str, tuple[Callable[..., Any], type[Exception]]] = {
    "raises": (raises_in_get_buffer, LookupError),
    "empty": (lambda self, hint: bytearray(), RuntimeError),
    "read-only": (lambda self, hint: b"read-only", Exception),
    "text": (lambda self, hint: "text", TypeError),
    "none": (lambda self, hint: None, TypeError),
}


@pytest.mark.parametrize("name", BAD_BUFFERS)
async def test_a_bad_buffer_closes_the_connection(
    loop: asyncio.AbstractEventLoop, connect: Connect, name: str, reported: Any
) -> None:
    function, error = BAD_BUFFERS[name]
    factory = type("Bad", (BufferedRecorder,), {"get_buffer": function})
    async with connect(factory) as (transport, protocol, peer):
        await loop.sock_sendall(peer, b"x")
        lost = await protocol.wait_lost()
        assert isinstance(lost, error)
        assert transport.is_closing()
        context = reported.take_one(error)
        assert context["transport"] is transport
        assert context["protocol"] is protocol


async def test_buffer_updated_that_raises(loop: asyncio.AbstractEventLoop, connect: Connect, reported: Any) -> None:
    class Failing(BufferedRecorder):
        def buffer_updated(self, nbytes: int) -> None:
            raise LookupError("in buffer_updated")

    async with connect(Failing) as (_, protocol, peer):
        await loop.sock_sendall(peer, b"x")
        assert isinstance(await protocol.wait_lost(), LookupError)
        reported.take_one(LookupError)


async def test_the_buffer_is_free_between_reads(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    """No export of the protocol's buffer outlives the read: a bytearray can be resized in buffer_updated."""

    class Resizing(BufferedRecorder):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            self.buffer.clear()
            self.buffer.extend(bytes(nbytes + 1))

    async with connect(lambda: Resizing(2)) as (_, protocol, peer):
        data = os.urandom(10_000)
        await loop.sock_sendall(peer, data)
        assert await protocol.wait_received(len(data)) == data


class Leaving(BufferedRecorder):
    """Puts another protocol into its place while it is asked for its buffer."""

    def __init__(self, other: asyncio.BaseProtocol) -> None:
        super().__init__(100)
        self.other = other

    def get_buffer(self, sizehint: int) -> Any:
        self.transport.set_protocol(self.other)
        return super().get_buffer(sizehint)


async def test_get_buffer_that_changes_the_protocol(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    """The bytes are in the old one's buffer, but the new one is told, and answers for the connection from there on."""
    told: list[int] = []

    class Other(BufferedRecorder):
        def buffer_updated(self, nbytes: int) -> None:
            told.append(nbytes)

    other = Other(100)
    async with connect(lambda: Leaving(other)) as (transport, protocol, peer):
        await loop.sock_sendall(peer, b"0123456789")
        while not told:
            await asyncio.sleep(0)
        assert told == [10]
        assert protocol.buffer[:10] == b"0123456789"
        assert not protocol.received
        transport.abort()
        await other.wait_lost()


async def test_get_buffer_that_changes_the_kind_of_protocol(
    loop: asyncio.AbstractEventLoop, connect: Connect, reported: Any
) -> None:
    other = Recorder()
    async with connect(lambda: Leaving(other)) as (_transport, _protocol, peer):
        await loop.sock_sendall(peer, b"0123456789")
        assert isinstance(await other.wait_lost(), AttributeError)
        reported.take_one(AttributeError)
