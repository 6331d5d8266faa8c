"""BufferedProtocol: buffers of all sizes and kinds, changed from call to call, or wrong."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.protocols import BufferedRecorder, Recorder
from tests.tls.authority import Authority
from tests.tls.buffers import ViewRecorder
from tests.tls.endpoint import connected, facing
from tests.tls.peers.content import content


@pytest.mark.parametrize("size", [1, 7, 100, 16_383, 16_384, 16_385, 300_000])
async def test_views_of_all_sizes(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, size: int
) -> None:
    """Large records through small buffers: every byte once, and the end behind the last."""
    count = 3000 if size < 100 else 400_000
    async with connected(authority, Recorder, lambda: ViewRecorder(size), version=version) as made:
        transport, _, _, protocol = made
        transport.write(content(count))
        transport.close()
        assert await protocol.wait_lost() is None
        assert protocol.received == content(count)
        assert protocol.calls[-2:] == ["eof_received", "connection_lost"]


@pytest.mark.oneloop_only("asyncio drops what its protocol has not taken when the end of file comes")
@pytest.mark.parametrize("size", [100, 1024, 16_383])
@pytest.mark.parametrize("says_goodbye", [True, False])
@pytest.mark.parametrize("pauses", [True, False])
async def test_small_views_of_what_came_with_the_end(
    loop: asyncio.AbstractEventLoop, authority: Authority, size: int, says_goodbye: bool, pauses: bool
) -> None:
    """A peer that has sent everything, and ends the connection at once."""

    class Taking(ViewRecorder):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            if pauses and len(self.received) % 7 == 0:
                self.transport.pause_reading()
                loop.call_later(0.001, self.transport.resume_reading)

    async with facing(authority, lambda: Taking(size)) as (_, protocol, endpoint):
        data = endpoint.encrypted(content(60_000))
        await endpoint.raw(data + (endpoint.goodbye() if says_goodbye else b""))
        endpoint.sock.shutdown(socket.SHUT_WR)
        await protocol.wait_lost()
        assert protocol.received == content(60_000)
        assert protocol.calls[-2:] == ["eof_received", "connection_lost"]


@pytest.mark.oneloop_only("asyncio drops what its protocol has not taken when the end of file comes")
async def test_what_waits_to_be_sent_goes_on_while_the_program_does_not_read(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    """The peer has ended its own side only, and reads."""

    class Pausing(ViewRecorder):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            if len(self.received) == 100:
                self.transport.pause_reading()
                self.transport.write(content(16_000_000))

    async with facing(authority, lambda: Pausing(100)) as (transport, protocol, endpoint):
        await endpoint.raw(endpoint.encrypted(content(60_000)))
        endpoint.sock.shutdown(socket.SHUT_WR)
        assert await endpoint.receive(16_000_000) == content(16_000_000)
        assert len(protocol.received) == 100
        transport.resume_reading()
        await protocol.wait_lost()
        assert protocol.received == content(60_000)


@pytest.mark.oneloop_only("asyncio reads what is behind the first record into a copy of a bytearray, and loses it")
@pytest.mark.parametrize("size", [1, 100, 16_385, 300_000])
async def test_bytearrays_of_all_sizes(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, size: int
) -> None:
    count = 3000 if size < 100 else 400_000
    async with connected(authority, Recorder, lambda: BufferedRecorder(size), version=version) as made:
        transport, _, _, protocol = made
        for start in range(0, count, 1000):
            transport.write(content(count)[start : start + 1000])
        assert await protocol.wait_received(count) == content(count)


async def test_another_buffer_each_time(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """Of another size, too: a protocol that reads a head, then a body of the length that the head says."""

    class Framed(Recorder, asyncio.BufferedProtocol):
        def __init__(self) -> None:
            super().__init__()
            self.frames: list[bytes] = []
            self.buffer = memoryview(bytearray(4))
            self.have = 0
            self.is_head = True

        def get_buffer(self, sizehint: int) -> memoryview:
            return self.buffer[self.have :]

        def buffer_updated(self, nbytes: int) -> None:
            self.have += nbytes
            if self.have < len(self.buffer):
                return
            whole = bytes(self.buffer)
            if not self.is_head:
                self.frames.append(whole)
            self.buffer = memoryview(bytearray(int.from_bytes(whole) if self.is_head else 4))
            self.is_head, self.have = not self.is_head, 0
            self._note("data_received")

    async with connected(authority, Recorder, Framed) as (transport, _, _, protocol):
        sizes = [1, 2, 1000, 16_384, 16_385, 3, 100_000, 5]
        for size in sizes:
            transport.write(size.to_bytes(4) + content(size))
        while len(protocol.frames) < len(sizes):
            protocol.calls.clear()
            await protocol.wait_call("data_received")
        assert protocol.frames == [content(size) for size in sizes]


async def test_a_pause_between_two_buffers(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    class Pausing(ViewRecorder):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            self.transport.pause_reading()
            loop.call_soon(self.transport.resume_reading)

    async with connected(authority, Recorder, lambda: Pausing(1000)) as (transport, _, _, protocol):
        transport.write(content(50_000))
        assert await protocol.wait_received(50_000) == content(50_000)


@pytest.mark.parametrize("change", ["to plain", "to buffered"])
async def test_changing_between_the_kinds(loop: asyncio.AbstractEventLoop, authority: Authority, change: str) -> None:
    """`set_protocol` in the middle of data that has been decrypted: the next call is the new protocol's."""
    second: Any = Recorder() if change == "to plain" else ViewRecorder()

    class First(ViewRecorder if change == "to plain" else Recorder):  # type: ignore[misc]
        def _note(self, call: str) -> None:
            super()._note(call)
            if call == "data_received":
                self.transport.set_protocol(second)

    async with facing(authority, First) as (transport, protocol, endpoint):
        await endpoint.send(b"first")
        assert await protocol.wait_received(5) == b"first"
        await endpoint.send(b"second")
        assert await second.wait_received(6) == b"second"
        assert transport.get_protocol() is second
        await endpoint.say_goodbye()
        await second.wait_lost()
        assert "connection_lost" not in protocol.calls


@pytest.mark.parametrize("fault", ["get_buffer", "buffer_updated", "not a buffer"])
async def test_callbacks_that_fail(
    loop: asyncio.AbstractEventLoop, authority: Authority, fault: str, reported: Any
) -> None:
    """They are reported, and end the connection, once."""

    class Fails(ViewRecorder):
        def get_buffer(self, sizehint: int) -> Any:
            if fault == "get_buffer":
                raise ValueError(fault)
            return 5 if fault == "not a buffer" else super().get_buffer(sizehint)

        def buffer_updated(self, nbytes: int) -> None:
            raise ValueError(fault)

    async with facing(authority, Fails) as (_, protocol, endpoint):
        await endpoint.send(b"data")
        error = await protocol.wait_lost()
        assert isinstance(error, TypeError if fault == "not a buffer" else ValueError)
        (context,) = reported.take()
        assert context["exception"] is error
        assert protocol.calls.count("connection_lost") == 1


@pytest.mark.parametrize("kind", ["buffered", "plain"])
async def test_get_buffer_that_changes_the_protocol(
    loop: asyncio.AbstractEventLoop, authority: Authority, kind: str
) -> None:
    """A new protocol with a buffer is told about the bytes in the old one's; one without is not."""
    told: list[tuple[str, int]] = []

    class Other(BufferedRecorder):
        def buffer_updated(self, nbytes: int) -> None:
            told.append(("new", nbytes))

    other = Other() if kind == "buffered" else Recorder()

    class Leaving(BufferedRecorder):
        is_leaving = False

        def get_buffer(self, sizehint: int) -> Any:
            if self.is_leaving:
                self.transport.set_protocol(other)
            return memoryview(self.buffer)

        def buffer_updated(self, nbytes: int) -> None:
            told.append(("old", nbytes))

    async with connected(authority, Recorder, Leaving) as (transport, _, receiving, protocol):
        protocol.is_leaving = True
        transport.write(b"0123456789")
        while not told:
            await asyncio.sleep(0)
        assert told == [("new" if kind == "buffered" else "old", 10)]
        receiving.abort()
        await other.wait_lost()
