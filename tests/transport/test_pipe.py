"""Pipe transports: the same tests on stock asyncio and on oneloop."""

from __future__ import annotations

import asyncio
import errno
import os
import pty
import socket
import sys
import tty
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import settle

if TYPE_CHECKING:
    import pathlib


class Recorder(asyncio.Protocol):
    """Keeps everything that it is told."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.events: list[str] = []
        self.received = bytearray()
        self.flow: list[str] = []
        self.lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.changed = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        self.received += data
        self.changed.set()

    def eof_received(self) -> None:
        self.events.append("eof")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.lost.set_result(exc)

    def pause_writing(self) -> None:
        self.flow.append("pause")

    def resume_writing(self) -> None:
        self.flow.append("resume")

    async def wait_received(self, count: int) -> bytes:
        while len(self.received) < count:
            self.changed.clear()
            await self.changed.wait()
        return bytes(self.received)


async def reading(pipe: Any, factory: Any = Recorder) -> tuple[Any, Any]:
    return await asyncio.get_running_loop().connect_read_pipe(factory, pipe)


async def writing(pipe: Any, factory: Any = Recorder) -> tuple[Any, Any]:
    return await asyncio.get_running_loop().connect_write_pipe(factory, pipe)


def pipe_ends() -> tuple[Any, Any]:
    r, w = os.pipe()
    return open(r, "rb", 0), open(w, "wb", 0)


def drain(fd: int, limit: int = 1 << 20) -> bytes:
    """What a non-blocking descriptor holds now."""
    os.set_blocking(fd, False)
    parts = []
    while limit > 0:
        try:
            part = os.read(fd, min(limit, 65536))
        except BlockingIOError:
            break
        if not part:
            break
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


@pytest.mark.parametrize("size", [1, 1000, 65536, 1_000_000])
def test_through_a_pipe(run: Any, size: int) -> None:
    async def main() -> None:
        r, w = pipe_ends()
        reader, received = await reading(r)
        writer, sent = await writing(w)
        assert reader.get_extra_info("pipe") is r
        assert writer.get_extra_info("pipe") is w
        assert writer.get_extra_info("nothing", 5) == 5
        assert not os.get_blocking(r.fileno())
        assert not os.get_blocking(w.fileno())
        data = os.urandom(size)
        writer.write(data)
        assert await received.wait_received(size) == data
        writer.close()
        assert writer.is_closing()
        assert await received.lost is None
        assert await sent.lost is None
        assert received.events == ["made", "eof", "lost"]
        await settle()
        assert r.closed
        assert w.closed
        assert reader.is_closing()
        assert reader.get_protocol() is None

    run(main)


def test_kinds_of_data_and_order(run: Any) -> None:
    async def main() -> None:
        r, w = pipe_ends()
        writer, sent = await writing(w)
        array = bytearray(b"b")
        writer.write(b"a")
        writer.write(array)
        array[0] = ord("x")
        writer.write(memoryview(b"c"))
        writer.write(b"")
        writer.writelines([b"d", bytearray(b"e")])
        await settle()
        assert drain(r.fileno()) == b"abcde"
        for wrong in ("text", None, 5):
            with pytest.raises(AssertionError):
                writer.write(wrong)
        assert writer.can_write_eof()
        writer.write_eof()
        writer.write_eof()
        assert await sent.lost is None
        assert drain(r.fileno()) == b""
        r.close()

    run(main)


def test_only_pipes_sockets_and_devices(run: Any, tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        with open(tmp_path / "file", "wb+") as file:
            with pytest.raises(ValueError, match="Pipe transport is for pipes/sockets only"):
                await reading(file)
            text = "Pipe transport is only for pipes, sockets and character devices"
            with pytest.raises(ValueError, match=text):
                await writing(file)
            assert not file.closed
            file.write(b"still open")

    run(main)


def test_end_of_file_waits_for_what_is_in_the_pipe(run: Any) -> None:
    async def main() -> None:
        r, w = pipe_ends()
        w.write(b"last words")
        w.close()
        _, received = await reading(r)
        assert await received.lost is None
        assert received.received == b"last words"
        assert received.events == ["made", "eof", "lost"]

    run(main)


def test_pause_and_resume(run: Any) -> None:
    class Pausing(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.pause_reading()

    async def main() -> None:
        r, w = pipe_ends()
        reader, received = await reading(r, Pausing)
        w.write(b"data")
        await settle()
        assert not reader.is_reading()
        assert reader._paused
        assert not received.received
        w.close()
        await settle()
        assert not reader.is_closing()
        reader.resume_reading()
        assert reader.is_reading()
        assert not reader._paused
        assert await received.wait_received(4) == b"data"
        reader.pause_reading()
        reader.pause_reading()
        reader.resume_reading()
        assert await received.lost is None
        reader.resume_reading()
        reader.pause_reading()
        assert not reader.is_reading()

    run(main)


def test_closing_the_reader_breaks_the_writer(run: Any) -> None:
    async def main() -> None:
        r, w = pipe_ends()
        reader, received = await reading(r)
        _, sent = await writing(w)
        reader.close()
        reader.close()
        assert await received.lost is None
        assert await sent.lost is None  # nothing was queued
        assert "eof" not in received.events

    run(main)


def test_a_reader_that_goes_while_data_waits(run: Any) -> None:
    async def main() -> None:
        r, w = pipe_ends()
        writer, sent = await writing(w)
        writer.write(b"x" * 1_000_000)
        await settle()
        assert writer.get_write_buffer_size() > 0
        r.close()
        assert isinstance(await sent.lost, BrokenPipeError)
        for _ in range(6):
            writer.write(b"too late")
        assert writer.get_write_buffer_size() == 0

    run(main)


def test_writing_to_a_broken_pipe(run: Any) -> None:
    async def main() -> None:
        r, w = pipe_ends()
        writer, sent = await writing(w)
        r.close()
        writer.write(b"x")
        error = await sent.lost
        assert error is None or isinstance(error, BrokenPipeError)
        await settle()
        assert w.closed

    run(main)


def test_flow_control(run: Any) -> None:
    async def main() -> None:
        r, w = pipe_ends()
        writer, sent = await writing(w)
        assert writer.get_write_buffer_limits() == (16384, 65536)
        writer.set_write_buffer_limits(high=1000)
        assert writer.get_write_buffer_limits() == (250, 1000)
        with pytest.raises(ValueError, match="must be >= low"):
            writer.set_write_buffer_limits(high=1, low=2)
        data = os.urandom(300_000)
        for start in range(0, len(data), 1000):
            writer.write(data[start : start + 1000])
        await settle()
        assert sent.flow == ["pause"]
        received = b""
        while len(received) < len(data):
            received += drain(r.fileno(), 4096)
            await asyncio.sleep(0)
        assert received == data
        assert sent.flow == ["pause", "resume"]
        assert writer.get_write_buffer_size() == 0
        writer.close()
        await sent.lost
        r.close()

    run(main)


def test_close_sends_what_is_queued(run: Any) -> None:
    async def main() -> None:
        r, w = pipe_ends()
        writer, sent = await writing(w)
        writer.write(b"x" * 300_000)
        writer.close()
        writer.write(b"dropped")
        await settle()
        assert not sent.lost.done()
        received = 0
        while not sent.lost.done():
            received += len(drain(r.fileno()))
            await asyncio.sleep(0)
        received += len(drain(r.fileno()))
        assert received == 300_000
        assert await sent.lost is None
        r.close()

    run(main)


def test_abort_drops_what_is_queued(run: Any) -> None:
    async def main() -> None:
        r, w = pipe_ends()
        writer, sent = await writing(w)
        writer.write(b"x" * 300_000)
        await settle()
        writer.abort()
        assert await sent.lost is None
        assert writer.get_write_buffer_size() == 0
        assert len(drain(r.fileno())) < 300_000
        r.close()

    run(main)


def test_a_pair_of_sockets(run: Any) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        writer, sent = await writing(ours)
        reader, received = await reading(theirs)
        writer.write(b"through a socket")
        assert await received.wait_received(16) == b"through a socket"
        reader.close()
        assert await sent.lost is None
        assert ours.fileno() == -1
        assert theirs.fileno() == -1

    run(main)


def test_a_named_fifo(run: Any, tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        path = tmp_path / "fifo"
        os.mkfifo(path)
        r = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", 0)
        w = open(path, "wb", 0)
        _, received = await reading(r)
        writer, sent = await writing(w)
        writer.write(b"data")
        assert await received.wait_received(4) == b"data"
        writer.close()
        assert await received.lost is None
        assert await sent.lost is None

    run(main)


def test_a_terminal(run: Any) -> None:
    async def main() -> None:
        master, slave = pty.openpty()
        tty.setraw(slave)
        _, received = await reading(open(slave, "rb", 0))
        writer, sent = await writing(open(master, "wb", 0))
        writer.write(b"typed")
        assert await received.wait_received(5) == b"typed"
        os.write(slave, b"shown")  # input on a terminal does not mean that it has closed
        await settle()
        assert not writer.is_closing()
        writer.close()
        await sent.lost
        # Linux says EIO when the other end of a terminal has gone; asyncio treats it quietly.
        error = await received.lost
        assert error is None or error.errno == errno.EIO

    run(main)


def test_writing_to_the_null_device(run: Any) -> None:
    async def main() -> None:
        writer, sent = await writing(open("/dev/null", "wb", 0))
        writer.write(b"x" * 1_000_000)
        writer.write(b"y")
        await settle()
        assert writer.get_write_buffer_size() == 0
        writer.close()
        assert await sent.lost is None

    run(main)


@pytest.mark.parametrize("method", ["data_received", "eof_received", "connection_lost"])
def test_a_raising_callback_is_reported_and_survived(run: Any, method: str) -> None:
    def fail(self: Any, *args: Any) -> None:
        getattr(Recorder, method)(self, *args)
        raise ZeroDivisionError

    raising = type("Raising", (Recorder,), {method: fail})

    async def main() -> None:
        r, w = pipe_ends()
        reader, received = await reading(r, raising)
        w.write(b"one")
        await received.wait_received(3)
        assert not reader.is_closing()
        w.close()
        assert await received.lost is None
        await settle()
        assert r.closed

    run(main, errors_expected=1)
    assert isinstance(run.errors[0]["exception"], ZeroDivisionError)


def test_raising_pause_writing(run: Any) -> None:
    class Raising(Recorder):
        def pause_writing(self) -> None:
            raise ZeroDivisionError

    async def main() -> None:
        r, w = pipe_ends()
        writer, sent = await writing(w, Raising)
        writer.write(b"x" * 300_000)
        await settle()
        assert not writer.is_closing()
        writer.abort()
        await sent.lost
        r.close()

    run(main, errors_expected=1)
    assert run.errors[0]["message"] == "protocol.pause_writing() failed"


def test_set_protocol(run: Any) -> None:
    async def main() -> None:
        r, w = pipe_ends()
        reader, first = await reading(r)
        second = Recorder()
        reader.set_protocol(second)
        assert reader.get_protocol() is second
        w.write(b"data")
        assert await second.wait_received(4) == b"data"
        assert not first.received
        w.close()
        await second.lost

    run(main)


def test_a_pipe_closed_behind_its_back(run: Any) -> None:
    """The number goes to another pipe; the transport neither reads nor closes that."""

    async def main() -> None:
        r, w = pipe_ends()
        reader, received = await reading(r)
        number = r.fileno()
        r.close()
        r2, w2 = os.pipe()
        assert number == r2
        os.write(w2, b"for the other")
        await settle()
        assert not received.received
        reader.close()
        assert await received.lost is None
        assert os.read(r2, 100) == b"for the other"
        os.close(r2)
        os.close(w2)
        w.close()

    if not run.is_ours:
        pytest.skip("asyncio watches the number, whoever owns it")
    run(main)


def test_subprocess_with_much_data_both_ways(run: Any) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        data = os.urandom(3_000_000)
        out, _ = await process.communicate(data)
        assert out == data
        assert process.returncode == 0

    if run.is_ours or sys.version_info >= (3, 12):
        run(main)
    else:
        pytest.skip("asyncio of 3.11 wants a child watcher attached to the loop")
