"""Back-pressure: water marks counted on plain text, slow peers and slow readers, and no deadlock between the two."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from tests.protocols import Echo, Recorder
from tests.tls.authority import HOST, Authority
from tests.tls.buffers import ViewRecorder
from tests.tls.endpoint import connected, facing, happens, settled
from tests.tls.peers.content import content

PIECE = content(50_000)


async def written_until_paused(transport: Any, protocol: Recorder) -> int:
    """How many bytes the transport took before it called `pause_writing`."""
    written = 0
    while protocol.calls.count("pause_writing") == protocol.calls.count("resume_writing"):
        assert written < 100_000_000, "never paused"
        transport.write(PIECE)
        written += len(PIECE)
        await asyncio.sleep(0)
    return written


def flow_of(protocol: Recorder) -> list[str]:
    return [call for call in protocol.calls if call.endswith("_writing")]


@pytest.mark.parametrize("limits", [None, (200_000, 50_000), (1, 0), (1_000_000, 1_000_000)])
async def test_paused_and_resumed_in_turn(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, limits: tuple[int, int] | None
) -> None:
    """A peer that does not read, then does: twice, and nothing is lost."""
    async with facing(authority, version=version) as (transport, protocol, endpoint):
        if limits is not None:
            transport.set_write_buffer_limits(*limits)
            assert transport.get_write_buffer_limits() == limits[::-1]
        low, high = transport.get_write_buffer_limits()
        total = 0
        for round_number in (1, 2):
            written = await written_until_paused(transport, protocol)
            assert flow_of(protocol)[-1] == "pause_writing"
            assert transport.get_write_buffer_size() >= high
            # One write may be above the mark; the rest is what the kernel and the layer below keep.
            assert transport.get_write_buffer_size() <= high + 2 * len(PIECE)
            received = await endpoint.receive(written)
            assert received == PIECE * (written // len(PIECE))
            total += written
            assert await happens(lambda: flow_of(protocol)[-1] == "resume_writing")
            assert transport.get_write_buffer_size() <= low
            assert flow_of(protocol)[: 2 * round_number] == ["pause_writing", "resume_writing"] * round_number
        assert total > 0
        transport.abort()
        assert await protocol.wait_lost() is None


@pytest.mark.oneloop_only("asyncio pauses a protocol for an empty buffer where the high-water mark is 0")
async def test_a_mark_of_zero(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """What the kernel has not taken pauses; what has left does not, and the last word is never a pause."""
    async with facing(authority) as (transport, protocol, endpoint):
        transport.set_write_buffer_limits(0)
        assert transport.get_write_buffer_limits() == (0, 0)
        assert flow_of(protocol) == []
        for _ in range(20):
            transport.write(b"small")
            assert await endpoint.receive(5) == b"small"
        assert await happens(lambda: flow_of(protocol)[-1:] != ["pause_writing"])
        await endpoint.receive(await written_until_paused(transport, protocol))
        assert await happens(lambda: flow_of(protocol)[-1] == "resume_writing")
        flow = flow_of(protocol)
        assert flow == ["pause_writing", "resume_writing"] * (len(flow) // 2)
        # All but the last piece is the kernel's, and is not lost with the transport.
        written = await written_until_paused(transport, protocol)
        transport.abort()
        kept = written - len(PIECE)
        assert await endpoint.receive(kept) == PIECE * (kept // len(PIECE))


@pytest.mark.oneloop_only("asyncio pauses a protocol for an empty buffer where the high-water mark is 0")
async def test_a_mark_that_is_zero_for_a_while(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """Then the transport below has its own mark again."""
    async with facing(authority) as (transport, protocol, endpoint):
        transport.set_write_buffer_limits(0)
        written = await written_until_paused(transport, protocol)
        transport.set_write_buffer_limits()
        assert flow_of(protocol) == ["pause_writing", "resume_writing"]
        await endpoint.receive(written)
        written = 0
        while not transport.get_write_buffer_size():
            transport.write(PIECE)
            written += len(PIECE)
        below = re.search(r"bufsize=(\d+)", repr(transport))
        assert below is not None
        assert int(below[1]) > 64 * 1024
        assert await endpoint.receive(written) == PIECE * (written // len(PIECE))


@pytest.mark.oneloop_only("asyncio never resumes a protocol that it has paused for a mark of 0")
async def test_drain_with_a_mark_of_zero(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(0)
        for _ in range(50):
            writer.write(PIECE)
            await writer.drain()
        writer.close()

    def factory() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), serve, loop=loop)

    async with facing(authority, factory) as (_, _, endpoint):
        assert await endpoint.receive_all() == PIECE * 50


@pytest.mark.parametrize("limits", [(1, 2), (-1, -2), (None, -1)])
async def test_marks_that_make_no_sense(
    loop: asyncio.AbstractEventLoop, authority: Authority, limits: tuple[int | None, int]
) -> None:
    async with facing(authority) as (transport, _, _):
        before = transport.get_write_buffer_limits()
        with pytest.raises(ValueError, match=r"high \(.*\) must be >= low \(.*\) must be >= 0"):
            transport.set_write_buffer_limits(*limits)
        assert transport.get_write_buffer_limits() == before


async def test_marks_by_default_and_by_one(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async with facing(authority) as (transport, _, _):
        assert transport.get_write_buffer_limits() == (128 * 1024, 512 * 1024)
        transport.set_write_buffer_limits(high=1000)
        assert transport.get_write_buffer_limits() == (250, 1000)
        transport.set_write_buffer_limits(low=1000)
        assert transport.get_write_buffer_limits() == (1000, 4000)
        transport.set_write_buffer_limits()
        assert transport.get_write_buffer_limits() == (128 * 1024, 512 * 1024)


async def test_read_marks(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """Not in the documents of asyncio, but public by name."""
    async with facing(authority) as (transport, _, _):
        assert transport.get_read_buffer_limits() == (64 * 1024, 256 * 1024)
        transport.set_read_buffer_limits(high=4000)
        assert transport.get_read_buffer_limits() == (1000, 4000)
        assert transport.get_read_buffer_size() == 0


async def test_callbacks_of_flow_that_raise(
    loop: asyncio.AbstractEventLoop, authority: Authority, reported: Any
) -> None:
    """They are reported, and the transport goes on."""

    class Raises(Recorder):
        def pause_writing(self) -> None:
            super().pause_writing()
            raise ValueError("paused")

        def resume_writing(self) -> None:
            super().resume_writing()
            raise ValueError("resumed")

    async with facing(authority, Raises) as (transport, protocol, endpoint):
        written = await written_until_paused(transport, protocol)
        assert await endpoint.receive(written) == PIECE * (written // len(PIECE))
        assert await happens(lambda: "resume_writing" in protocol.calls)
        transport.write(b"on")
        assert await endpoint.receive(2) == b"on"
        assert [context["message"] for context in reported.take()] == [
            "protocol.pause_writing() failed",
            "protocol.resume_writing() failed",
        ]


@pytest.mark.parametrize("factory", [Recorder, ViewRecorder])
async def test_a_paused_reader_stops_its_peer(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, factory: Any
) -> None:
    """What a paused transport keeps is bounded; all of it is delivered later."""
    async with connected(authority, Recorder, factory, version=version) as (transport, writer, accepted, reader):
        accepted.pause_reading()
        assert not accepted.is_reading()
        written = 0
        idle = 0
        while idle < 50:
            if flow_of(writer)[-1:] == ["pause_writing"]:
                idle += 1
                await asyncio.sleep(0)
            else:
                idle = 0
                transport.write(PIECE)
                written += len(PIECE)
                assert written < 100_000_000, "never stopped"
            await asyncio.sleep(0)
        assert not reader.received
        accepted.resume_reading()
        assert await reader.wait_received(written) == PIECE * (written // len(PIECE))


@pytest.mark.parametrize("factory", [Recorder, ViewRecorder])
async def test_resuming_delivers_in_a_later_tick(
    loop: asyncio.AbstractEventLoop, authority: Authority, factory: Any
) -> None:
    """No call of a protocol's within the call of its transport."""
    async with connected(authority, Recorder, factory) as (transport, _writer, accepted, reader):
        accepted.pause_reading()
        transport.write(b"data")
        assert await happens(lambda: accepted.get_read_buffer_size() > 0)
        accepted.resume_reading()
        assert not reader.received
        assert await reader.wait_received(4) == b"data"


@pytest.mark.time_limit(180)
@pytest.mark.parametrize("factory", [Recorder, ViewRecorder])
async def test_much_in_both_directions_at_once(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, factory: Any
) -> None:
    """Both write everything before either reads: no side waits for the other."""
    size = 8_000_000
    there, back = content(size), content(size)[::-1]
    async with connected(authority, factory, factory, version=version) as (transport, client, accepted, server):
        transport.write(there)
        accepted.write(back)
        assert await server.wait_received(size) == there
        assert await client.wait_received(size) == back
        assert transport.get_write_buffer_size() == 0
        assert accepted.get_write_buffer_size() == 0


@pytest.mark.time_limit(180)
async def test_an_echo_of_much(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    """With back-pressure from one end to the other: an echo that pauses reading while it cannot write."""

    class Careful(Echo):
        def pause_writing(self) -> None:
            self.transport.pause_reading()

        def resume_writing(self) -> None:
            self.transport.resume_reading()

    server = await loop.create_server(Careful, "127.0.0.1", 0, ssl=authority.server_context(version))
    transport, protocol = await loop.create_connection(
        Recorder,
        *server.sockets[0].getsockname(),
        ssl=authority.client_context(version),
        server_hostname=HOST,
    )
    data = content(10_000_000)
    transport.write(data)
    assert await protocol.wait_received(len(data)) == data
    transport.close()
    await protocol.wait_lost()
    server.close()
    await server.wait_closed()
    await settled()


async def test_streams_with_a_small_limit(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    """Many turns of pausing and resuming by a StreamReader."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=authority.server_context(version), limit=64)
    reader, writer = await asyncio.open_connection(
        *server.sockets[0].getsockname(), ssl=authority.client_context(version), server_hostname=HOST, limit=64
    )
    lines = [b"line %d\n" % number for number in range(3000)]
    writer.writelines(lines)
    for line in lines:
        assert await reader.readline() == line.upper()
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
    await settled()


async def test_a_client_that_never_reads(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """A server that waits for its drain is held up for this client alone; abort ends it, and what waits is dropped."""
    held: asyncio.Future[Any] = loop.create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(1)
        try:
            while first == b"n":
                writer.write(PIECE)
                if flow_is_paused(writer) and not held.done():
                    held.set_result(writer.transport)
                await writer.drain()
        except ConnectionError:
            pass
        writer.write(b"answer")
        writer.close()

    def flow_is_paused(writer: asyncio.StreamWriter) -> bool:
        return writer.transport.get_write_buffer_size() > 0

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=authority.server_context())
    address = server.sockets[0].getsockname()
    silent, protocol = await loop.create_connection(
        Recorder, *address, ssl=authority.client_context(), server_hostname=HOST
    )
    silent.pause_reading()
    silent.write(b"n")
    transport = await held
    reader, writer = await asyncio.open_connection(*address, ssl=authority.client_context(), server_hostname=HOST)
    writer.write(b"y")
    assert await reader.read() == b"answer"
    writer.close()
    transport.abort()
    silent.abort()
    await protocol.wait_lost()
    server.close()
    await server.wait_closed()
    await settled()
