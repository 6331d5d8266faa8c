"""Water marks to the byte: above the high one the protocol pauses, at it it does not; at the low one it resumes."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tests.transport.conftest import Connect
from tests.transport.test_stream import read_exactly

MUCH = 8 << 20


def fill(transport: Any) -> int:
    """Write more than the kernel takes, without a pause; how much waits."""
    transport.set_write_buffer_limits(high=1 << 30)
    transport.write(bytes(MUCH))
    waiting: int = transport.get_write_buffer_size()
    assert 0 < waiting <= MUCH
    return waiting


async def test_at_the_high_mark_nobody_pauses(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, peer):
        waiting = fill(transport)
        transport.set_write_buffer_limits(high=waiting + 10)
        transport.write(bytes(10))
        assert transport.get_write_buffer_size() == waiting + 10
        assert "pause_writing" not in protocol.calls
        transport.write(b"x")
        assert protocol.calls.count("pause_writing") == 1
        transport.write(b"y")
        assert protocol.calls.count("pause_writing") == 1
        assert await read_exactly(peer, MUCH + 12) == bytes(MUCH + 10) + b"xy"


async def test_limits_that_are_exceeded_already_pause_at_once(
    loop: asyncio.AbstractEventLoop, connect: Connect
) -> None:
    async with connect() as (transport, protocol, _):
        waiting = fill(transport)
        transport.set_write_buffer_limits(high=waiting)
        assert "pause_writing" not in protocol.calls
        transport.set_write_buffer_limits(high=waiting - 1)
        assert protocol.calls.count("pause_writing") == 1


async def test_at_the_low_mark_the_protocol_resumes(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    """A low mark of 0 is reached and never passed."""
    async with connect() as (transport, protocol, peer):
        fill(transport)
        transport.set_write_buffer_limits(high=0)
        assert protocol.calls.count("pause_writing") == 1
        assert transport.get_write_buffer_limits() == (0, 0)
        await read_exactly(peer, MUCH)
        await asyncio.wait_for(protocol.wait_call("resume_writing"), 60)
        assert protocol.calls.count("resume_writing") == 1
        assert transport.get_write_buffer_size() == 0


async def test_no_one_resumes_above_the_low_mark(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, peer):
        waiting = fill(transport)
        low = waiting // 2
        transport.set_write_buffer_limits(high=waiting - 1, low=low)
        at_resume: list[int] = []
        protocol.resume_writing = lambda: at_resume.append(transport.get_write_buffer_size())
        read = 0
        while not at_resume:
            before = transport.get_write_buffer_size()
            read += len(await loop.sock_recv(peer, 1 << 16))
            await asyncio.sleep(0)
            after = transport.get_write_buffer_size()
            assert at_resume or after > low, (before, after, low)
        assert at_resume[0] <= low
        await read_exactly(peer, MUCH - read)
        assert len(at_resume) == 1


async def test_copies_of_any_length_arrive_behind_what_waits(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    """What may change is copied, whatever its length, and copies are gathered with what is there already."""
    expected = bytearray(bytes(MUCH))
    async with connect() as (transport, _, peer):
        fill(transport)
        for length in (1, 1000, 1025, 65_535, 65_536, 65_537, 100, 200_000, 1, 131_073, 3, 64_000, 2000):
            piece = os.urandom(length)
            expected += piece
            source = bytearray(piece)
            transport.write(source if length % 2 else memoryview(bytes(source)))
            assert transport.get_write_buffer_size() > 0
        assert await read_exactly(peer, len(expected)) == bytes(expected)
