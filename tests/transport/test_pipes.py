"""connect_read_pipe and connect_write_pipe: pipes, FIFOs and sockets; ends, limits, misuse."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest

from tests.conftest import cancelled, settle
from tests.protocols import Recorder


class WriteEnd(asyncio.BaseProtocol):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("connection_lost")
        self.lost.set_result(exc)

    def pause_writing(self) -> None:
        self.calls.append("pause_writing")

    def resume_writing(self) -> None:
        self.calls.append("resume_writing")


async def pipe(loop: asyncio.AbstractEventLoop) -> tuple[Any, Recorder, Any, WriteEnd]:
    read_end, write_end = os.pipe()
    reading, reader = await loop.connect_read_pipe(Recorder, os.fdopen(read_end, "rb", 0))
    writing, writer = await loop.connect_write_pipe(WriteEnd, os.fdopen(write_end, "wb", 0))
    return reading, reader, writing, writer


@pytest.mark.parametrize("size", [1, 1000, 65537, 3_000_000])
async def test_bytes_pass(loop: asyncio.AbstractEventLoop, size: int) -> None:
    reading, reader, writing, writer = await pipe(loop)
    data = os.urandom(size)
    writing.write(data)
    assert await reader.wait_received(size) == data
    writing.close()
    assert await writer.lost is None
    assert await reader.wait_lost() is None
    assert reader.calls[-2:] == ["eof_received", "connection_lost"]
    assert reading.is_closing()


async def test_write_eof(loop: asyncio.AbstractEventLoop) -> None:
    _, reader, writing, writer = await pipe(loop)
    assert writing.can_write_eof()
    writing.write(bytes(500_000))
    writing.write_eof()
    assert len(await reader.wait_received(500_000)) == 500_000
    assert await reader.wait_lost() is None
    assert await writer.lost is None


async def test_the_reader_goes_away(loop: asyncio.AbstractEventLoop) -> None:
    reading, reader, writing, writer = await pipe(loop)
    reading.close()
    await reader.wait_lost()
    writing.write(b"x")
    error = await writer.lost
    assert error is None or isinstance(error, BrokenPipeError)
    assert writing.is_closing()


async def test_pausing(loop: asyncio.AbstractEventLoop) -> None:
    reading, reader, writing, writer = await pipe(loop)
    reading.pause_reading()
    writing.write(b"held")
    await settle()
    assert reader.received == b""
    reading.resume_reading()
    assert await reader.wait_received(4) == b"held"
    writing.close()
    await writer.lost
    await reader.wait_lost()


async def test_water_marks(loop: asyncio.AbstractEventLoop) -> None:
    reading, reader, writing, writer = await pipe(loop)
    reading.pause_reading()
    writing.write(bytes(1_000_000))
    assert writer.calls == ["pause_writing"]
    assert writing.get_write_buffer_size() > 65536
    reading.resume_reading()
    await reader.wait_received(1_000_000)
    while "resume_writing" not in writer.calls:
        await asyncio.sleep(0)
    writing.close()
    await writer.lost
    await reader.wait_lost()


async def test_abort(loop: asyncio.AbstractEventLoop) -> None:
    reading, reader, writing, writer = await pipe(loop)
    reading.pause_reading()
    writing.write(bytes(1_000_000))
    writing.abort()
    assert await writer.lost is None
    reading.close()
    await reader.wait_lost()


async def test_extra_info_and_repr(loop: asyncio.AbstractEventLoop) -> None:
    reading, reader, writing, writer = await pipe(loop)
    assert reading.get_extra_info("pipe").fileno() > 0
    assert writing.get_extra_info("pipe").fileno() > 0
    assert "fd=" in repr(reading)
    assert "fd=" in repr(writing)
    writing.close()
    await writer.lost
    await reader.wait_lost()


async def test_sockets_will_do(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.setblocking(False)
        writing, writer = await loop.connect_write_pipe(WriteEnd, ours)
        writing.write(b"hello")
        assert await loop.sock_recv(theirs, 10) == b"hello"
        theirs.close()
        assert await writer.lost is None or True
        assert writing.is_closing()


async def test_regular_files_are_refused(loop: asyncio.AbstractEventLoop, tmp_path: Any) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with path.open("rb") as file, pytest.raises(ValueError, match="Pipe transport is"):
        await loop.connect_read_pipe(Recorder, file)
    with path.open("wb") as file, pytest.raises(ValueError, match="Pipe transport is"):
        await loop.connect_write_pipe(WriteEnd, file)


async def test_data_received_that_raises(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    class Failing(Recorder):
        def data_received(self, data: bytes) -> None:
            raise LookupError("in data_received")

    read_end, write_end = os.pipe()
    reading, protocol = await loop.connect_read_pipe(Failing, os.fdopen(read_end, "rb", 0))
    os.write(write_end, b"x")
    while not reported.contexts:
        await asyncio.sleep(0.001)
    reported.take_one(LookupError)
    os.close(write_end)
    reading.close()
    await protocol.wait_lost()


async def test_cancelling_at_every_step(loop: asyncio.AbstractEventLoop) -> None:
    for steps in range(6):
        read_end, write_end = os.pipe()
        file = os.fdopen(read_end, "rb", 0)
        task = await cancelled(loop.connect_read_pipe(Recorder, file), steps)
        if not task.cancelled():
            task.result()[0].close()
        os.close(write_end)
        await settle(3)
        file.close()
