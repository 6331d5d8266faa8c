"""Streams fed natively against their plain twins: asyncio's loop, and a subclass of the protocol on ours.

A subclass, however empty, has the transport call `data_received()`; asyncio's own class is fed without a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import random
import socket
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from types import FrameType
from typing import Any, SupportsIndex

import pytest

from oneloop import stock_streams
from tests.conftest import Reported, settle
from tests.loops import FACTORIES


class Subclass(asyncio.StreamReaderProtocol):
    """The plain way."""


PROTOCOLS = {"stock": asyncio.StreamReaderProtocol, "subclass": Subclass}
LARGE = 100_000


@pytest.fixture(params=list(PROTOCOLS))
def protocol_class(request: pytest.FixtureRequest) -> type[asyncio.StreamReaderProtocol]:
    return PROTOCOLS[request.param]


@contextlib.asynccontextmanager
async def stream(
    protocol_class: type[asyncio.StreamReaderProtocol] = asyncio.StreamReaderProtocol, limit: int = 1 << 16
) -> AsyncIterator[tuple[Any, asyncio.Transport, socket.socket]]:
    """A reader (its private attributes are looked at), its transport, and the peer's plain socket."""
    loop = asyncio.get_running_loop()
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    peer.setblocking(False)
    reader = asyncio.StreamReader(limit=limit)
    transport, _ = await loop.create_connection(lambda: protocol_class(reader), sock=ours)
    try:
        yield reader, transport, peer
    finally:
        peer.close()
        transport.abort()
        await settle()


async def buffered(reader: Any, count: int) -> None:
    """Wait until so much is in the reader's buffer."""
    while len(reader._buffer) < count:
        await asyncio.sleep(0)


@contextlib.contextmanager
def functions_called() -> Iterator[list[str]]:
    """The names of the Python functions that are called meanwhile."""
    names: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield names
    finally:
        sys.setprofile(None)


def test_the_standard_library_is_the_known_one() -> None:
    """If this fails, a new Python does something else: read its streams.py, then change feeding.rs and the digest."""
    assert stock_streams.known() is not None


@pytest.mark.oneloop_only("asyncio calls every protocol")
@pytest.mark.parametrize("size", [100, LARGE])
async def test_only_stock_protocols_are_fed_without_a_call(
    loop: asyncio.AbstractEventLoop, protocol_class: Any, size: int
) -> None:
    async with stream(protocol_class, limit=10 * LARGE) as (reader, _, peer):
        with functions_called() as names:
            for _ in range(3):
                await loop.sock_sendall(peer, bytes(size))
                assert await reader.readexactly(size) == bytes(size)
    expected = {"feed_data", "data_received", "_wakeup_waiter"} if protocol_class is Subclass else set()
    assert {"feed_data", "data_received", "_wakeup_waiter"} & set(names) == expected


async def taken(transport: asyncio.Transport) -> None:
    """Wait until the reader has what has come, unless it is paused."""
    sock = transport.get_extra_info("socket")
    while transport.is_reading() and int.from_bytes(fcntl.ioctl(sock, termios.FIONREAD, bytes(4)), sys.byteorder):
        await asyncio.sleep(0)


async def result_of(wait: Awaitable[bytes], transport: asyncio.Transport) -> object:
    """What a reader gives, or that it waits for more than has been sent."""
    reading = asyncio.ensure_future(wait)
    for _ in range(10):
        await taken(transport)
        await asyncio.sleep(0)
    reading.cancel()
    try:
        return await reading
    except (asyncio.CancelledError, ValueError, asyncio.IncompleteReadError) as error:
        return repr(error)


async def follow_script(script: list[tuple[str, int]], protocol_class: Any, limit: int) -> list[object]:
    """What a reader gives, and in which state it is, step by step."""
    loop = asyncio.get_running_loop()
    log: list[object] = []
    letters = b"abcdefg\nhij"
    async with stream(protocol_class, limit) as (reader, transport, peer):
        for step, count in script:
            if step == "send":
                await loop.sock_sendall(peer, (letters * (count // len(letters) + 1))[:count])
            else:
                wait: Awaitable[bytes] = reader.readline() if step == "readline" else getattr(reader, step)(count)
                log.append((step, await result_of(wait, transport)))
            await taken(transport)
            log.append((len(reader._buffer), reader._paused, transport.is_reading(), reader._waiter))
        peer.shutdown(socket.SHUT_WR)
        await settle()
        log.append((await reader.read(), reader.at_eof(), reader._eof))
    return log


@pytest.mark.parametrize("seed", range(12))
def test_scripts_end_the_same(seed: int) -> None:
    chance = random.Random(seed)
    limit = chance.choice([8, 100, 5000, 1 << 16])
    steps = ["send", "send", "read", "readexactly", "readline"]
    script = [(chance.choice(steps), chance.choice([1, 7, 50, 900, 6000])) for _ in range(15)]
    logs = []
    for loop_name in FACTORIES:
        for protocol_class in PROTOCOLS.values():
            with asyncio.Runner(loop_factory=FACTORIES[loop_name]) as runner:
                logs.append(runner.run(follow_script(script, protocol_class, limit)))
    assert all(log == logs[0] for log in logs), script


async def test_long_reads_arrive_whole(loop: asyncio.AbstractEventLoop, protocol_class: Any) -> None:
    data = bytes(range(256)) * 8000
    async with stream(protocol_class) as (reader, _, peer):
        sending = loop.create_task(loop.sock_sendall(peer, data))
        rest = data
        for size in (1, 300_000, 5, 70_000, 1_000_000):
            assert await reader.readexactly(size) == rest[:size]
            rest = rest[size:]
        assert await reader.readexactly(len(rest)) == rest
        await sending


async def test_a_full_buffer_pauses_and_a_read_resumes(loop: asyncio.AbstractEventLoop, protocol_class: Any) -> None:
    async with stream(protocol_class, limit=10) as (reader, transport, peer):
        await loop.sock_sendall(peer, b"x" * 20)
        await buffered(reader, 20)
        assert transport.is_reading()
        await loop.sock_sendall(peer, b"x")
        await buffered(reader, 21)
        assert (reader._paused, transport.is_reading()) == (True, False)
        assert await reader.read(11) == b"x" * 11
        assert (reader._paused, transport.is_reading()) == (False, True)


async def test_a_transport_that_cannot_pause_is_forgotten(loop: asyncio.AbstractEventLoop, protocol_class: Any) -> None:
    class Unpausable:
        def pause_reading(self) -> None:
            raise NotImplementedError

    async with stream(protocol_class, limit=1) as (reader, transport, peer):
        reader._transport = Unpausable()
        await loop.sock_sendall(peer, b"abc")
        await buffered(reader, 3)
        assert (reader._transport, reader._paused, transport.is_reading()) == (None, False, True)


async def test_data_after_feed_eof_ends_the_connection(
    loop: asyncio.AbstractEventLoop, protocol_class: Any, reported: Reported
) -> None:
    async with stream(protocol_class) as (reader, transport, peer):
        reader.feed_eof()
        await loop.sock_sendall(peer, b"late")
        while not transport.is_closing():
            await asyncio.sleep(0)
    context = reported.take_one(AssertionError)
    assert context["message"] == "Fatal error: protocol.data_received() call failed."


@pytest.mark.parametrize("first", [10, LARGE])
async def test_a_view_of_the_buffer_ends_the_connection(
    loop: asyncio.AbstractEventLoop, protocol_class: Any, reported: Reported, first: int
) -> None:
    async with stream(protocol_class) as (reader, transport, peer):
        await loop.sock_sendall(peer, bytes(first))
        await buffered(reader, first)
        with memoryview(reader._buffer):
            await loop.sock_sendall(peer, b"more")
            while not transport.is_closing():
                await asyncio.sleep(0)
        assert len(reader._buffer) == first
    context = reported.take_one(BufferError)
    assert context["message"] == "Fatal error: protocol.data_received() call failed."


async def test_a_cancelled_reader_loses_nothing(loop: asyncio.AbstractEventLoop, protocol_class: Any) -> None:
    async with stream(protocol_class) as (reader, _, peer):
        task = loop.create_task(reader.read(10))
        await settle()
        waiter = reader._waiter
        await loop.sock_sendall(peer, b"kept")
        # The future is cancelled, and the reader's task has not heard of it yet.
        waiter.cancel()
        await buffered(reader, 4)
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert await reader.read(10) == b"kept"


async def test_waiters_of_another_kind_are_woken(loop: asyncio.AbstractEventLoop, protocol_class: Any) -> None:
    class Waiter:
        result: object = "none yet"

        def cancelled(self) -> bool:
            return False

        def set_result(self, result: object) -> None:
            self.result = result

    async with stream(protocol_class) as (reader, _, peer):
        reader._waiter = waiter = Waiter()
        await loop.sock_sendall(peer, b"data")
        await buffered(reader, 4)
        assert (reader._waiter, waiter.result) == (None, None)


async def test_a_waiter_that_is_done_already_ends_the_connection(
    loop: asyncio.AbstractEventLoop, protocol_class: Any, reported: Reported
) -> None:
    async with stream(protocol_class) as (reader, transport, peer):
        reader._waiter = loop.create_future()
        reader._waiter.set_result(None)
        await loop.sock_sendall(peer, b"data")
        while not transport.is_closing():
            await asyncio.sleep(0)
        assert (reader._waiter, bytes(reader._buffer)) == (None, b"data")
    reported.take_one(asyncio.InvalidStateError)


async def test_data_for_a_reader_that_is_gone_is_dropped(loop: asyncio.AbstractEventLoop, protocol_class: Any) -> None:
    async with stream(protocol_class) as (_, transport, peer):
        protocol: Any = transport.get_protocol()
        protocol._stream_reader_wr = None
        await loop.sock_sendall(peer, b"data")
        await settle()
        assert not transport.is_closing()
        protocol._stream_reader_wr = lambda: None
        await loop.sock_sendall(peer, b"data")
        await settle()
        assert not transport.is_closing()


Patch = Callable[[pytest.MonkeyPatch, Any, list[bytes]], None]


def patch_feed_data(monkeypatch: pytest.MonkeyPatch, reader: Any, seen: list[bytes]) -> None:
    original = asyncio.StreamReader.feed_data

    def feed_data(self: Any, data: bytes) -> None:
        seen.append(data)
        original(self, data)

    monkeypatch.setattr(asyncio.StreamReader, "feed_data", feed_data)


def patch_wakeup(monkeypatch: pytest.MonkeyPatch, reader: Any, seen: list[bytes]) -> None:
    original = asyncio.StreamReader._wakeup_waiter  # type: ignore[attr-defined]

    def wakeup_waiter(self: Any) -> None:
        seen.append(bytes(self._buffer))
        original(self)

    monkeypatch.setattr(asyncio.StreamReader, "_wakeup_waiter", wakeup_waiter)


def patch_property(monkeypatch: pytest.MonkeyPatch, reader: Any, seen: list[bytes]) -> None:
    class Tee:
        def feed_data(self, data: bytes) -> None:
            seen.append(data)
            reader.feed_data(data)

    tee = Tee()
    monkeypatch.setattr(asyncio.StreamReaderProtocol, "_stream_reader", tee)


def patch_attribute(monkeypatch: pytest.MonkeyPatch, reader: Any, seen: list[bytes]) -> None:
    class Tee(bytearray):
        def extend(self, data: Any) -> None:
            seen.append(bytes(data))
            super().extend(data)

    reader._buffer = Tee(reader._buffer)


@pytest.mark.parametrize("patch", [patch_feed_data, patch_wakeup, patch_property, patch_attribute])
async def test_a_patched_class_is_noticed_while_data_flow(
    loop: asyncio.AbstractEventLoop, protocol_class: Any, patch: Patch
) -> None:
    async with stream(protocol_class) as (reader, _, peer):
        for word in (b"before", b"again"):
            await loop.sock_sendall(peer, word)
            await buffered(reader, len(word))
            assert await reader.read(100) == word
        seen: list[bytes] = []
        with pytest.MonkeyPatch.context() as monkeypatch:
            patch(monkeypatch, reader, seen)
            for word in (b"one", b"two"):
                await loop.sock_sendall(peer, word)
                await buffered(reader, 3)
                assert await reader.read(100) == word
        assert seen == [b"one", b"two"]
        reader._buffer = bytearray(reader._buffer)
        for _ in range(2):
            with functions_called() as names:
                await loop.sock_sendall(peer, b"after")
                assert await reader.readexactly(5) == b"after"
        assert seen == [b"one", b"two"]
        native = protocol_class is not Subclass and hasattr(loop, "statistics")
        assert ("feed_data" in names) is not native


async def test_a_readers_own_method_is_noticed_at_the_first_data(
    loop: asyncio.AbstractEventLoop, protocol_class: Any
) -> None:
    async with stream(protocol_class) as (reader, _, peer):
        seen: list[bytes] = []
        original = reader.feed_data

        def feed_data(data: bytes) -> None:
            seen.append(data)
            original(data)

        reader.feed_data = feed_data
        for word in (b"one", b"two"):
            await loop.sock_sendall(peer, word)
            await buffered(reader, 3)
            assert await reader.read(100) == word
        assert seen == [b"one", b"two"]


async def test_a_reader_of_a_subclass_is_called(loop: asyncio.AbstractEventLoop, protocol_class: Any) -> None:
    class Reader(asyncio.StreamReader):
        seen: list[bytes]

        def feed_data(self, data: Iterable[SupportsIndex]) -> None:
            self.seen.append(bytes(data))
            super().feed_data(data)

    async with stream(protocol_class) as (_, transport, peer):
        reader = Reader()
        reader.seen = []
        transport.set_protocol(protocol_class(reader))
        await loop.sock_sendall(peer, b"data")
        await buffered(reader, 4)
        assert reader.seen == [b"data"]


async def test_debug_mode_calls(loop: asyncio.AbstractEventLoop, protocol_class: Any) -> None:
    loop.set_debug(True)
    async with stream(protocol_class) as (reader, _, peer):
        with functions_called() as names:
            await loop.sock_sendall(peer, b"data")
            assert await reader.readexactly(4) == b"data"
        assert "feed_data" in names
    loop.set_debug(False)
