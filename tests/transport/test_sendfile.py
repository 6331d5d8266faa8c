"""loop.sendfile: the real system call on plain sockets, the fallback on TLS; the order with writes around it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import io
import os
import re
import socket
import weakref
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.certificates import client_context, server_context
from tests.conftest import cancelled, settle
from tests.loops import new_loop
from tests.protocols import Recorder

CONTENT = os.urandom(1000) * 2500


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_bytes(CONTENT)
    return made


async def connected(loop: asyncio.AbstractEventLoop, tls: bool) -> tuple[asyncio.Server, Any, Recorder, Recorder]:
    served: asyncio.Future[Recorder] = loop.create_future()

    class Sink(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            served.set_result(self)

    server = await loop.create_server(Sink, "127.0.0.1", 0, ssl=server_context() if tls else None)
    transport, protocol = await loop.create_connection(
        Recorder, *server.sockets[0].getsockname(), ssl=client_context() if tls else None
    )
    return server, transport, protocol, await served


async def ended(server: asyncio.Server, transport: Any, sink: Recorder) -> None:
    transport.close()
    await sink.wait_lost()
    server.close()
    await server.wait_closed()
    for _ in range(5):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(("offset", "count"), [(0, None), (10, 1000), (1_000_000, None)])
async def test_a_file_arrives(
    loop: asyncio.AbstractEventLoop, path: Path, tls: bool, offset: int, count: int | None
) -> None:
    server, transport, _, sink = await connected(loop, tls)
    expected = CONTENT[offset:] if count is None else CONTENT[offset : offset + count]
    with path.open("rb") as file:
        transport.write(b"before")
        assert await loop.sendfile(transport, file, offset, count) == len(expected)
        transport.write(b"after")
        assert file.tell() == offset + len(expected)
    received = await sink.wait_received(len(expected) + 11)
    assert received == b"before" + expected + b"after"
    await ended(server, transport, sink)


class Reads:
    """All that a file must have to be sent."""

    def __init__(self, file: Any) -> None:
        self.readinto = file.readinto


def by_sendfile(path: Path) -> Any:
    return path.open("rb", buffering=0)


def by_reading(path: Path) -> Any:
    return io.BytesIO(path.read_bytes())


def by_files(path: Path) -> Any:
    return files.open(path, "rb")


@contextlib.asynccontextmanager
async def opened(open_: Callable[[Path], Any], path: Path) -> AsyncIterator[Any]:
    file = open_(path)
    if hasattr(file, "__aenter__"):
        async with file as ours:
            yield ours
    else:
        with file:
            yield file


OFFSETS = [
    # What was read before, offset, count, what is sent.
    (0, 0, None, slice(0, None)),
    (100, 0, None, slice(0, None)),
    (100, 0, 10, slice(0, 10)),
    (100, 50, None, slice(50, None)),
    (100, 50, 10, slice(50, 60)),
    (100, 200, 10, slice(200, 210)),
]


@pytest.mark.parametrize(("before", "offset", "count", "part"), OFFSETS)
@pytest.mark.parametrize("open_", [by_sendfile, by_reading, by_files])
@pytest.mark.parametrize("tls", [False, True, None], ids=["plain", "tls", "sock_sendfile"])
@pytest.mark.oneloop_only("asyncio before 3.14.8 reads from the file's position if the offset is 0 and it has to read")
async def test_where_it_begins(
    loop: asyncio.AbstractEventLoop,
    path: Path,
    tls: bool | None,
    open_: Callable[[Path], Any],
    before: int,
    offset: int,
    count: int | None,
    part: slice,
) -> None:
    expected = CONTENT[part]
    async with opened(open_, path) as file:
        read = file.read(before)
        assert len(await read if asyncio.iscoroutine(read) else read) == before
        if tls is None:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.setblocking(False)
                reader, writer = await asyncio.open_connection(sock=theirs)
                receiving = asyncio.ensure_future(reader.readexactly(len(expected)))
                assert await loop.sock_sendfile(ours, file, offset, count) == len(expected)
                assert await receiving == expected
                writer.close()
                await writer.wait_closed()
        else:
            server, transport, _, sink = await connected(loop, tls)
            assert await loop.sendfile(transport, file, offset, count) == len(expected)
            assert await sink.wait_received(len(expected)) == expected
            await ended(server, transport, sink)
        position = file.tell()
        assert (await position if asyncio.iscoroutine(position) else position) == offset + len(expected)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_file_without_a_position(loop: asyncio.AbstractEventLoop, tls: bool) -> None:
    server, transport, _, sink = await connected(loop, tls)
    assert await loop.sendfile(transport, Reads(io.BytesIO(b"all")), 0) == 3  # type: ignore[arg-type]
    assert await sink.wait_received(3) == b"all"
    await ended(server, transport, sink)


REFUSED: list[tuple[Any, Any, type[Exception], str]] = [
    (-1, None, ValueError, "offset must be a non-negative integer (got -1)"),
    (-1, 5, ValueError, "offset must be a non-negative integer (got -1)"),
    (0.5, None, TypeError, "offset must be a non-negative integer (got 0.5)"),
    (0, 0, ValueError, "count must be a positive integer (got 0)"),
    (0, -1, ValueError, "count must be a positive integer (got -1)"),
    (0, "1", TypeError, "count must be a positive integer (got '1')"),
]


@pytest.mark.parametrize(("offset", "count", "kind", "text"), REFUSED)
@pytest.mark.parametrize("method", ["sendfile", "sock_sendfile"])
@pytest.mark.oneloop_only("asyncio's sendfile() sends something else")
async def test_wrong_arguments(
    loop: asyncio.AbstractEventLoop, path: Path, method: str, offset: Any, count: Any, kind: type[Exception], text: str
) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with path.open("rb") as file, theirs:
        if method == "sock_sendfile":
            with ours, pytest.raises(kind, match=re.escape(text)):
                await loop.sock_sendfile(ours, file, offset, count)
        else:
            transport, protocol = await loop.create_connection(Recorder, sock=ours)
            with pytest.raises(kind, match=re.escape(text)):
                await loop.sendfile(transport, file, offset, count)
            transport.close()
            await protocol.wait_lost()
        assert file.tell() == 0
        theirs.setblocking(False)
        assert await loop.sock_recv(theirs, 10) == b""


async def test_what_is_no_file_falls_back(loop: asyncio.AbstractEventLoop) -> None:
    server, transport, _, sink = await connected(loop, tls=False)
    assert await loop.sendfile(transport, io.BytesIO(CONTENT)) == len(CONTENT)
    assert await sink.wait_received(len(CONTENT)) == CONTENT
    with pytest.raises(RuntimeError, match=r"fallback is disabled|not supported|not available|not a regular file"):
        await loop.sendfile(transport, io.BytesIO(CONTENT), fallback=False)
    await ended(server, transport, sink)


async def test_the_peer_goes_away(loop: asyncio.AbstractEventLoop, path: Path) -> None:
    server, transport, protocol, sink = await connected(loop, tls=False)
    sink.transport.pause_reading()
    with path.open("rb") as file:
        sending = asyncio.ensure_future(loop.sendfile(transport, file))
        await settle(3)
        sink.transport.abort()
        # The buffers of both sockets may hold it all; otherwise it fails by name.
        with contextlib.suppress(ConnectionError):
            assert await sending == len(CONTENT)
    transport.abort()
    await protocol.wait_lost()
    server.close()
    await server.wait_closed()


async def test_an_error_in_the_middle(
    loop: asyncio.AbstractEventLoop, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is raised: reading and writing instead would begin anew, and send the first part twice."""
    sendfile, calls = os.sendfile, 0

    def fails_later(*args: Any) -> int:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return sendfile(*args[:3], 1000)

    monkeypatch.setattr(os, "sendfile", fails_later)
    server, transport, _, sink = await connected(loop, tls=False)
    with path.open("rb") as file:
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            await loop.sendfile(transport, file)
        assert file.tell() == 1000
    await ended(server, transport, sink)
    assert sink.received == CONTENT[:1000]


async def test_a_file_of_text_is_refused(loop: asyncio.AbstractEventLoop, path: Path) -> None:
    server, transport, _, sink = await connected(loop, tls=False)
    with path.open(encoding="latin-1") as file, pytest.raises(ValueError, match="binary mode"):
        await loop.sendfile(transport, file)  # type: ignore[arg-type]
    await ended(server, transport, sink)
    assert not sink.received


@pytest.mark.oneloop_only("asyncio says that sendfile is not available")
async def test_the_peer_is_gone_before(loop: asyncio.AbstractEventLoop, path: Path) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, path.open("rb") as file:
        ours.setblocking(False)
        with pytest.raises(BrokenPipeError):
            await loop.sock_sendfile(ours, file, fallback=False)
        assert file.tell() == 0


async def test_cancelled_in_the_middle(loop: asyncio.AbstractEventLoop, path: Path) -> None:
    server, transport, protocol, sink = await connected(loop, tls=False)
    sink.transport.pause_reading()
    with path.open("rb") as file:
        for steps in range(4):
            await cancelled(loop.sendfile(transport, file, 0), steps)
    transport.abort()
    sink.transport.abort()
    await protocol.wait_lost()
    await sink.wait_lost()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("ours", [False, True], ids=["file", "oneloop.files"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("was_paused", [False, True])
@pytest.mark.oneloop_only("asyncio's transport stays paused, and refuses writes: python/cpython#157025")
async def test_cancelled_while_it_waits_for_earlier_writes(
    loop: asyncio.AbstractEventLoop, path: Path, tls: bool, ours: bool, was_paused: bool
) -> None:
    """Afterwards the transport is as before, and nothing of the file was sent."""
    server, transport, protocol, sink = await connected(loop, tls)
    sink.transport.pause_reading()
    total = 0
    while not transport.get_write_buffer_size():
        transport.write(b"x" * 1_000_000)
        total += 1_000_000
    if was_paused:
        transport.pause_reading()
    async with contextlib.AsyncExitStack() as stack:
        file: Any = (
            await stack.enter_async_context(files.open(path, "rb")) if ours else stack.enter_context(path.open("rb"))
        )
        sending = asyncio.ensure_future(loop.sendfile(transport, file, 10))
        # It holds the transport: a plain one refuses writes now, the protocol of a TLS transport is another.
        while transport.is_reading() and not was_paused:
            await asyncio.sleep(0)
        await settle(3)
        assert not sending.done()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    assert transport.is_reading() is not was_paused
    assert transport.get_protocol() is protocol
    transport.write(b"after")
    transport.resume_reading()
    sink.transport.write(b"ping")
    sink.transport.resume_reading()
    assert await protocol.wait_received(4) == b"ping"
    assert await sink.wait_received(total + 5) == b"x" * total + b"after"
    await protocol.wait_call("resume_writing")
    assert [call for call in protocol.calls if call.endswith("writing")] == ["pause_writing", "resume_writing"]
    await ended(server, transport, sink)


@pytest.mark.parametrize("mode", ["r", "rb"])
async def test_a_closing_transport(loop: asyncio.AbstractEventLoop, path: Path, mode: str) -> None:
    server, transport, protocol, sink = await connected(loop, tls=False)
    transport.close()
    with path.open(mode) as file, pytest.raises(RuntimeError, match="Transport is closing"):
        await loop.sendfile(transport, file)
    await protocol.wait_lost()
    await ended(server, transport, sink)


async def test_the_socket_of_a_transport(loop: asyncio.AbstractEventLoop, path: Path) -> None:
    server, transport, _, sink = await connected(loop, tls=False)
    with path.open("rb") as file, pytest.raises(RuntimeError, match="is used by transport"):
        await loop.sock_sendfile(transport.get_extra_info("socket"), file)
    await ended(server, transport, sink)


NOTHING_LEFT = {"at the end": len(CONTENT), "behind the end": len(CONTENT) + 10}


@pytest.mark.parametrize("offset", NOTHING_LEFT.values(), ids=NOTHING_LEFT)
@pytest.mark.parametrize("method", ["sendfile", "sock_sendfile"])
def test_the_position_when_nothing_is_sent(path: Path, method: str, offset: int) -> None:
    """As with the running version's asyncio: older patch releases keep it, newer ones move it to the offset."""

    def position(loop: asyncio.AbstractEventLoop) -> int:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)

        async def send() -> int:
            with path.open("rb", 0) as file:
                file.seek(7)
                if method == "sock_sendfile":
                    assert await loop.sock_sendfile(ours, file, offset) == 0
                else:
                    transport, protocol = await loop.create_connection(Recorder, sock=ours)
                    assert await loop.sendfile(transport, file, offset) == 0
                    transport.close()
                    await protocol.wait_lost()
                return file.tell()

        with ours, theirs, contextlib.closing(loop):
            return loop.run_until_complete(send())

    assert position(new_loop("oneloop")) == position(new_loop("asyncio"))


@pytest.mark.parametrize("is_copied", [False, True])
@pytest.mark.oneloop_only("stock asyncio raises the same, and then tells the same waiter of the end of the connection")
async def test_what_ended_the_connection_while_earlier_writes_waited(
    loop: asyncio.AbstractEventLoop, path: Path, is_copied: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        transport, _ = await loop.create_connection(Recorder, *server.getsockname())
        accepted, _ = server.accept()
    transport.write(bytes(20_000_000))
    with path.open("rb") as file:
        sending = asyncio.ensure_future(loop.sendfile(transport, io.BytesIO(CONTENT) if is_copied else file))
        await settle()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        accepted.close()
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            await sending
    transport.abort()
    await settle()
    freed = weakref.ref(transport)
    gc.disable()
    try:
        # Without the collector: nothing that was raised refers to itself.
        del transport, sending
        await settle()
        assert freed() is None
    finally:
        gc.enable()
