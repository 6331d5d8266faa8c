"""`loop.sendfile` where the file is read and written: over TLS, and for what sendfile(2) cannot send.

However it ends, the transport is as before: it reads if it did and nobody has paused it meanwhile, its protocol is the
program's, which knows whether it is paused. asyncio resumes the protocol of a transport that is still paused, fails if
reading is resumed meanwhile, leaves the transport to the wrong protocol if the file is a pipe, and waits for ever if
two files are sent at once and the first one ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.certificates import client_context, server_context
from tests.conftest import settle
from tests.protocols import BufferedRecorder, Recorder, keeping

pytestmark = pytest.mark.oneloop_only("asyncio leaves the transport in other states")

# More than the buffers of two sockets on the loopback device.
LONG = os.urandom(1000) * 8000
SHORT = os.urandom(1000) * 100


class Connection:
    """A connected client, whose peer reads nothing."""

    def __init__(self, transport: Any, protocol: Recorder, peer: Recorder) -> None:
        self.transport, self.protocol, self.peer = transport, protocol, peer
        self.written = bytearray()

    async def fill(self) -> None:
        """Write until the transport keeps something, also after the callback."""
        while not self.transport.get_write_buffer_size():
            self.written += b"x" * 1_000_000
            self.transport.write(b"x" * 1_000_000)
            await settle()

    async def held(self, sending: asyncio.Task[int]) -> None:
        """Wait until the copy has begun, and waits for the peer."""
        await self.protocol.wait_call("pause_writing")
        while self.transport.get_protocol() is self.protocol:
            await asyncio.sleep(0)
        await settle(3)
        assert not sending.done()

    def writing(self) -> list[str]:
        return [call for call in self.protocol.calls if call.endswith("writing")]

    async def check(self, sent: bytes | bytearray) -> None:
        """All is as before: the peer gets what was sent and what follows, and can answer."""
        assert self.transport.get_protocol() is self.protocol
        pauses = self.writing()
        assert pauses == ["pause_writing", "resume_writing"] * (len(pauses) // 2) + ["pause_writing"] * (
            len(pauses) % 2
        )
        assert self.transport._protocol_paused == len(pauses) % 2
        expected = bytes(self.written) + sent + b"after"
        self.transport.write(b"after")
        self.peer.transport.resume_reading()
        assert await self.peer.wait_received(len(expected)) == expected
        while self.transport._protocol_paused:
            await asyncio.sleep(0)
        assert self.writing()[-1:] in ([], ["resume_writing"])
        self.transport.resume_reading()
        self.peer.transport.write(b"ping")
        assert await self.protocol.wait_received(4) == b"ping"


@contextlib.asynccontextmanager
async def connected(tls: bool, kind: Callable[[], Recorder] = Recorder) -> AsyncIterator[Connection]:
    loop = asyncio.get_running_loop()
    served: list[Recorder] = []
    server = await loop.create_server(keeping(served, Recorder), "127.0.0.1", 0, ssl=server_context() if tls else None)
    transport, protocol = await loop.create_connection(
        kind, *server.sockets[0].getsockname(), ssl=client_context() if tls else None
    )
    while not (served and served[0].transport):
        await asyncio.sleep(0)
    served[0].transport.pause_reading()
    transport.set_write_buffer_limits(high=1000)
    try:
        yield Connection(transport, protocol, served[0])
    finally:
        transport.abort()
        served[0].transport.abort()
        await protocol.wait_lost()
        await served[0].wait_lost()
        server.close()
        await server.wait_closed()


class Fails(io.BytesIO):
    """The second read fails."""

    reads = 0

    def readinto(self, buffer: Any) -> int:
        self.reads += 1
        if self.reads > 1:
            raise OSError("the disk is gone")
        return super().readinto(buffer)


def regular(path: Path) -> Any:
    path.write_bytes(LONG)
    return path.open("rb")


def memory(_: Path) -> Any:
    return io.BytesIO(LONG)


def failing(_: Path) -> Any:
    return Fails(LONG)


def by_files(path: Path) -> Any:
    path.write_bytes(LONG)
    return files.open(path, "rb")


# Over TLS, the file, whether writing is paused before. A plain transport copies only what sendfile(2) cannot send, and
# waits for earlier writes before it does (tests/transport/test_sendfile.py).
COPIED = [(True, make, was_paused) for make in (regular, memory, by_files) for was_paused in (False, True)]
COPIED.append((False, memory, False))


@contextlib.asynccontextmanager
async def opened(file: Any) -> AsyncIterator[Any]:
    async with contextlib.AsyncExitStack() as stack:
        if hasattr(file, "__aenter__"):
            yield await stack.enter_async_context(file)
        else:
            yield stack.enter_context(file)


async def position(file: Any) -> int:
    at = file.tell()
    return int(await at if asyncio.iscoroutine(at) else at)


async def finishes(connection: Connection, sending: asyncio.Task[int]) -> None:
    connection.peer.transport.resume_reading()
    assert await sending == len(LONG)


async def cancelled(_: Connection, sending: asyncio.Task[int]) -> None:
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


@pytest.mark.parametrize("end", [finishes, cancelled])
@pytest.mark.parametrize("was_reading", [False, True], ids=["reading paused", ""])
@pytest.mark.parametrize(("tls", "make", "was_paused"), COPIED)
async def test_the_transport_is_as_before(
    loop: asyncio.AbstractEventLoop,
    tmp_path: Path,
    tls: bool,
    make: Callable[[Path], Any],
    was_reading: bool,
    was_paused: bool,
    end: Callable[[Connection, asyncio.Task[int]], Any],
) -> None:
    async with connected(tls) as connection, opened(make(tmp_path / "file")) as file:
        if not was_reading:
            connection.transport.pause_reading()
        if was_paused:
            await connection.fill()
        sending = loop.create_task(loop.sendfile(connection.transport, file))
        await connection.held(sending)
        assert not connection.transport.is_reading()
        await end(connection, sending)
        assert connection.transport.is_reading() is was_reading
        await connection.check(LONG[: await position(file)])


async def test_nothing_is_written_while_writing_is_paused(loop: asyncio.AbstractEventLoop) -> None:
    async with connected(True) as connection:
        await connection.fill()
        queued = connection.transport.get_write_buffer_size()
        file = io.BytesIO(SHORT)
        sending = loop.create_task(loop.sendfile(connection.transport, file))
        # A thread reads the first piece.
        while not file.tell():
            await asyncio.sleep(0)
        await connection.held(sending)
        assert connection.transport.get_write_buffer_size() == queued
        await cancelled(connection, sending)
        assert file.tell() == 0
        await connection.check(b"")


async def test_it_waits_for_its_last_piece_too(loop: asyncio.AbstractEventLoop) -> None:
    """What returns has not left more than the high-water mark (python/cpython#131325)."""
    async with connected(True) as connection:
        transport = connection.transport
        transport.set_write_buffer_limits(high=1 << 30)
        await connection.fill()
        transport.set_write_buffer_limits(high=transport.get_write_buffer_size() + 1)
        assert not connection.writing()
        sending = loop.create_task(loop.sendfile(transport, io.BytesIO(SHORT), 0, 16_000))
        await connection.protocol.wait_call("pause_writing")
        await settle()
        assert not sending.done()
        connection.peer.transport.resume_reading()
        assert await sending == 16_000
        await connection.check(SHORT[:16_000])


class Slow(io.BytesIO):
    """A read lasts until it may end; then it fails, or not."""

    def __init__(self, content: bytes, fails: bool) -> None:
        super().__init__(content)
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.fails = fails

    def readinto(self, buffer: Any) -> int:
        self.has_begun.set()
        assert self.may_end.wait(60)
        if self.fails:
            raise OSError("the disk is gone")
        return super().readinto(buffer)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_cancelled_while_a_thread_reads(loop: asyncio.AbstractEventLoop, tls: bool, fails: bool) -> None:
    """The thread moves the file's position: what is cancelled ends, and is freed, after it. Its error is nobody's."""
    async with connected(tls) as connection:
        file = Slow(SHORT, fails)
        sending = loop.create_task(loop.sendfile(connection.transport, file))
        while not file.has_begun.is_set():
            await asyncio.sleep(0.001)
        sending.cancel()
        await settle()
        was_done = sending.done()
        file.may_end.set()
        await asyncio.wait([sending])
        assert (was_done, sending.cancelled()) == (False, True)
        kept = weakref.ref(sending)
        del sending
        await settle()
        assert kept() is None
        assert file.tell() == 0
        await connection.check(b"")


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_cancelled_while_nobody_writes_to_the_pipe(loop: asyncio.AbstractEventLoop, tls: bool) -> None:
    """A pipe has no position, and its reader may wait for ever."""
    reader, writer = os.pipe()
    async with connected(tls) as connection:
        with open(reader, "rb") as file:
            sending = loop.create_task(loop.sendfile(connection.transport, file))
            while connection.transport.get_protocol() is connection.protocol:
                await asyncio.sleep(0)
            await settle()
            sending.cancel()
            await settle()
            was_done = sending.done()
            # The thread ends.
            os.close(writer)
            with pytest.raises(asyncio.CancelledError):
                await sending
        assert was_done
        await connection.check(b"")


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_an_offset_into_a_pipe(loop: asyncio.AbstractEventLoop, tls: bool) -> None:
    """There is none: refused, as by asyncio."""
    reader, writer = os.pipe()
    os.write(writer, b"0123456789")
    os.close(writer)
    async with connected(tls) as connection:
        with open(reader, "rb") as file, pytest.raises(io.UnsupportedOperation):
            await loop.sendfile(connection.transport, file, 5)
        await connection.check(b"")


async def test_the_peer_ends_its_half_meanwhile(loop: asyncio.AbstractEventLoop) -> None:
    """The program, which has resumed reading, keeps the other half open."""
    async with connected(False) as connection:
        connection.protocol.keeps_open_at_eof = True
        sending = loop.create_task(loop.sendfile(connection.transport, io.BytesIO(LONG)))
        await connection.held(sending)
        connection.transport.resume_reading()
        connection.peer.transport.write_eof()
        await connection.protocol.wait_call("eof_received")
        await settle()
        assert not connection.transport.is_closing()
        await finishes(connection, sending)
        assert await connection.peer.wait_received(len(LONG)) == LONG


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_read_fails(loop: asyncio.AbstractEventLoop, tls: bool) -> None:
    async with connected(tls) as connection:
        file = Fails(LONG)
        with pytest.raises(OSError, match="the disk is gone"):
            await loop.sendfile(connection.transport, file)
        assert connection.transport.is_reading()
        await connection.check(LONG[: file.tell()])


def pipe(stack: ExitStack, _: Path) -> tuple[Any, bytes]:
    reader, writer = os.pipe()

    def write() -> None:
        with open(writer, "wb") as file:
            file.write(SHORT)

    thread = threading.Thread(target=write)
    thread.start()
    stack.callback(thread.join)
    return stack.enter_context(open(reader, "rb")), SHORT


def kernel_text(stack: ExitStack, _: Path) -> tuple[Any, bytes]:
    """A file of a filesystem that knows no sizes."""
    file = stack.enter_context(open("/proc/version", "rb"))
    return file, Path("/proc/version").read_bytes()


def empty(stack: ExitStack, path: Path) -> tuple[Any, bytes]:
    path.write_bytes(b"")
    return stack.enter_context(path.open("rb")), b""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.mark.parametrize("source", [pipe, kernel_text, empty])
@pytest.mark.parametrize("way", ["plain", "tls", "sock_sendfile"])
async def test_files_without_a_size(
    loop: asyncio.AbstractEventLoop, stack: ExitStack, tmp_path: Path, way: str, source: Any
) -> None:
    """Of these, asyncio sends nothing over plain transports and sockets."""
    file, content = source(stack, tmp_path / "file")
    if way == "sock_sendfile":
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            sending = loop.create_task(loop.sock_sendfile(ours, file))
            reader, writer = await asyncio.open_connection(sock=theirs)
            assert await reader.readexactly(len(content)) == content
            assert await sending == len(content)
            writer.close()
            await writer.wait_closed()
    else:
        async with connected(way == "tls") as connection:
            connection.peer.transport.resume_reading()
            assert await loop.sendfile(connection.transport, file) == len(content)
            await connection.check(content)


@pytest.mark.parametrize("kind", [Recorder, BufferedRecorder])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_the_program_resumes_and_pauses_reading_meanwhile(
    loop: asyncio.AbstractEventLoop, tls: bool, kind: Callable[[], Recorder]
) -> None:
    async with connected(tls, kind) as connection:
        transport, protocol = connection.transport, connection.protocol
        sending = loop.create_task(loop.sendfile(transport, io.BytesIO(LONG)))
        await connection.held(sending)
        transport.resume_reading()
        connection.peer.transport.write(b"while it is sent")
        assert await protocol.wait_received(16) == b"while it is sent"
        assert not sending.done()
        transport.pause_reading()
        await finishes(connection, sending)
        assert not transport.is_reading()
        protocol.received.clear()
        await connection.check(LONG)


class Held(io.BytesIO):
    """Its last read waits until it may end."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.size = len(content)
        self.may_end = threading.Event()

    def readinto(self, buffer: Any) -> int:
        if self.tell() + len(buffer) >= self.size:
            assert self.may_end.wait(60)
        return super().readinto(buffer)


@pytest.mark.parametrize("first", [0, 1], ids=["the first ends first", "the second ends first"])
async def test_two_files_at_once(loop: asyncio.AbstractEventLoop, first: int) -> None:
    """Over TLS, because a plain transport refuses writes while it sends a file."""
    async with connected(True) as connection:
        whole = Held(LONG)
        files_and_counts = [(io.BytesIO(LONG), len(LONG) // 2), (whole, len(LONG))]
        sending = [
            loop.create_task(loop.sendfile(connection.transport, file, 0, count))
            for file, count in (files_and_counts if first == 0 else reversed(files_and_counts))
        ]
        await connection.held(sending[0])
        connection.peer.transport.resume_reading()
        assert await sending[first] == len(LONG) // 2
        assert not sending[1 - first].done()
        assert connection.transport.get_protocol() is not connection.protocol
        whole.may_end.set()
        assert await sending[1 - first] == len(LONG)
        assert connection.transport.is_reading()
        assert connection.transport.get_protocol() is connection.protocol
        assert len(await connection.peer.wait_received(len(LONG) * 3 // 2)) == len(LONG) * 3 // 2


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("way", ["abort", "close", "peer"])
async def test_the_connection_ends(loop: asyncio.AbstractEventLoop, tls: bool, way: str) -> None:
    async with connected(tls) as connection:
        file = io.BytesIO(LONG)
        sending = loop.create_task(loop.sendfile(connection.transport, file))
        await connection.held(sending)
        if way == "peer":
            connection.peer.transport.abort()
        elif way == "abort":
            connection.transport.abort()
        else:
            connection.transport.close()
            connection.peer.transport.resume_reading()
        with pytest.raises(ConnectionError):
            await sending
        await connection.protocol.wait_lost()
        await settle()
        calls = connection.protocol.calls
        assert calls.count("connection_lost") == 1
        assert calls[-1] == "connection_lost"
        if way == "close":
            # What was written before arrives, and nothing else counts as sent.
            assert await connection.peer.wait_received(file.tell()) == LONG[: file.tell()]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_the_program_sets_another_protocol_meanwhile(loop: asyncio.AbstractEventLoop, tls: bool) -> None:
    async with connected(tls) as connection:
        sending = loop.create_task(loop.sendfile(connection.transport, io.BytesIO(LONG)))
        await connection.held(sending)
        await cancelled(connection, sending)
        sending = loop.create_task(loop.sendfile(connection.transport, io.BytesIO(LONG), 0, 1000))
        await settle(3)
        other = Recorder()
        connection.transport.set_protocol(other)
        await cancelled(connection, sending)
        assert connection.transport.get_protocol() is other
        connection.transport.set_protocol(connection.protocol)
