"""Stream transports: reading, writing, ends, closing; as CPython's, call by call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import settle
from tests.protocols import BufferedRecorder, Echo, Recorder
from tests.transport.conftest import Connect

PROTOCOLS = [Recorder, BufferedRecorder]


async def read_exactly(sock: socket.socket, count: int) -> bytes:
    loop = asyncio.get_running_loop()
    received = bytearray()
    while len(received) < count:
        data = await loop.sock_recv(sock, 1 << 16)
        if not data:
            break
        received += data
    return bytes(received)


@pytest.mark.parametrize("factory", PROTOCOLS)
@pytest.mark.parametrize("size", [1, 1000, 65536, 65537, 300_000, 3_000_000])
async def test_bytes_arrive(loop: asyncio.AbstractEventLoop, connect: Connect, factory: Any, size: int) -> None:
    data = os.urandom(997) * (size // 997 + 1)
    async with connect(factory) as (_, protocol, peer):
        await loop.sock_sendall(peer, data)
        assert await protocol.wait_received(len(data)) == data


@pytest.mark.parametrize("size", [0, 1, 1000, 65536, 300_000, 5_000_000])
@pytest.mark.parametrize("shape", [bytes, bytearray, memoryview])
async def test_bytes_leave(loop: asyncio.AbstractEventLoop, connect: Connect, size: int, shape: Any) -> None:
    data = (os.urandom(997) * (size // 997 + 1))[:size]
    async with connect() as (transport, _, peer):
        transport.write(shape(data))
        assert await read_exactly(peer, size) == data
        assert transport.get_write_buffer_size() == 0


@pytest.mark.oneloop_only("stock asyncio since 3.12 keeps a view of the caller's bytearray, and sends what it becomes")
async def test_a_bytearray_may_be_changed_after_write(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, _, peer):
        data = bytearray(b"a" * 2_000_000)
        transport.write(data)
        data[:] = b"b" * 10
        assert await read_exactly(peer, 2_000_000) == b"a" * 2_000_000


async def test_writes_keep_their_order(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    expected = bytearray()
    async with connect() as (transport, _, peer):
        for number in range(2000):
            text = b"%d," % number
            expected += text
            if number % 3 == 0:
                transport.write(text)
            elif number % 3 == 1:
                transport.writelines([text[:1], bytearray(text[1:2]), memoryview(text)[2:]])
            else:
                transport.write(memoryview(text))
        big = os.urandom(1_000_000)
        transport.write(big)
        transport.write(b"end")
        expected += big + b"end"
        assert await read_exactly(peer, len(expected)) == bytes(expected)


async def test_writes_from_several_ticks(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, _, peer):
        for number in range(100):
            transport.write(bytes([number]))
            await asyncio.sleep(0)
        assert await read_exactly(peer, 100) == bytes(range(100))


async def test_writelines_takes_an_iterable_once(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, _, peer):
        asked = 0

        def pieces() -> Iterator[bytes]:
            nonlocal asked
            for number in range(200):
                asked += 1
                yield bytes([number])

        transport.writelines([])
        transport.writelines(iter([b"a", b"", b"b"]))
        transport.writelines(pieces())
        transport.write(b"end")
        assert await read_exactly(peer, 205) == b"ab" + bytes(range(200)) + b"end"
        assert asked == 200
        with pytest.raises(BlockingIOError):
            peer.recv(1)


@pytest.mark.parametrize("value", ["text", 1, None, object(), [b"x"]])
async def test_what_cannot_be_written(loop: asyncio.AbstractEventLoop, connect: Connect, value: Any) -> None:
    async with connect() as (transport, _, peer):
        with pytest.raises(TypeError, match="data argument must be a bytes"):
            transport.write(value)
        transport.write(b"works")
        assert await read_exactly(peer, 5) == b"works"


async def test_what_cannot_be_written_as_lines(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, _, peer):
        for value in (1, ["text"]):
            with pytest.raises(TypeError):
                transport.writelines(value)
        transport.write(b"works")
        assert await read_exactly(peer, 5) == b"works"


async def test_write_eof(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, peer):
        assert transport.can_write_eof() is True
        data = bytes(3_000_000)
        transport.write(data)
        transport.write_eof()
        transport.write_eof()
        with pytest.raises(RuntimeError, match=r"Cannot call write\(\) after write_eof\(\)"):
            transport.write(b"more")
        with pytest.raises(RuntimeError, match=r"Cannot call writelines\(\) after write_eof\(\)|after write_eof"):
            transport.writelines([b"more"])
        assert await read_exactly(peer, len(data) + 1) == data
        # Half closed: the other direction still works.
        await loop.sock_sendall(peer, b"answer")
        assert await protocol.wait_received(6) == b"answer"
        assert not transport.is_closing()


async def test_peer_half_close_closes(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, peer):
        await loop.sock_sendall(peer, b"last")
        peer.shutdown(socket.SHUT_WR)
        assert await protocol.wait_lost() is None
        assert protocol.received == b"last"
        assert protocol.calls == ["connection_made", "data_received", "eof_received", "connection_lost"]
        assert transport.is_closing()
        assert await read_exactly(peer, 1) == b""


async def test_peer_half_close_kept_open(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, peer):
        protocol.keeps_open_at_eof = True
        peer.shutdown(socket.SHUT_WR)
        await protocol.wait_call("eof_received")
        await settle(3)
        assert not transport.is_closing()
        transport.write(b"still here")
        assert await read_exactly(peer, 10) == b"still here"
        transport.close()
        assert await protocol.wait_lost() is None
        assert protocol.calls.count("eof_received") == 1


async def test_what_is_queued_at_peer_half_close_still_leaves(
    loop: asyncio.AbstractEventLoop, connect: Connect
) -> None:
    async with connect() as (transport, protocol, peer):
        data = bytes(4_000_000)
        transport.write(data)
        peer.shutdown(socket.SHUT_WR)
        assert await read_exactly(peer, len(data) + 1) == data
        assert await protocol.wait_lost() is None


async def test_close_sends_what_is_queued(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, peer):
        data = bytes(4_000_000)
        transport.write(data)
        transport.close()
        assert transport.is_closing()
        transport.close()
        assert "connection_lost" not in protocol.calls
        assert await read_exactly(peer, len(data) + 1) == data
        assert await protocol.wait_lost() is None
        assert protocol.calls.count("connection_lost") == 1


async def test_connection_lost_comes_in_a_later_tick(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, _):
        transport.close()
        assert "connection_lost" not in protocol.calls
        await protocol.wait_lost()


async def test_no_data_after_close(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, peer):
        transport.write(bytes(4_000_000))
        transport.close()
        await loop.sock_sendall(peer, b"too late")
        # The kernel resets a connection that is closed with unread data.
        with contextlib.suppress(ConnectionResetError):
            await read_exactly(peer, 4_000_001)
        await protocol.wait_lost()
        assert protocol.received == b""


async def test_abort_drops_what_is_queued(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, _):
        transport.write(bytes(50_000_000))
        assert transport.get_write_buffer_size() > 0
        transport.abort()
        assert transport.is_closing()
        assert await protocol.wait_lost() is None
        assert transport.get_write_buffer_size() == 0


async def test_writes_after_close_are_dropped(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, peer):
        transport.close()
        for _ in range(10):
            transport.write(b"into the void")
        await protocol.wait_lost()
        transport.write(b"into the void")
        transport.close()
        transport.abort()
        assert await loop.sock_recv(peer, 1) == b""


async def test_operations_on_a_closed_transport(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, _):
        transport.close()
        await protocol.wait_lost()
        transport.pause_reading()
        transport.resume_reading()
        transport.set_write_buffer_limits(10)
        assert transport.get_write_buffer_limits() == (2, 10)
        assert transport.get_write_buffer_size() == 0
        assert not transport.is_reading()
        assert "closed" in repr(transport) or "closing" in repr(transport)


async def test_pausing(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, peer):
        assert transport.is_reading()
        assert not transport._paused
        transport.pause_reading()
        transport.pause_reading()
        assert not transport.is_reading()
        assert transport._paused
        await loop.sock_sendall(peer, b"held")
        await settle()
        assert protocol.received == b""
        transport.resume_reading()
        transport.resume_reading()
        assert transport.is_reading()
        assert not transport._paused
        assert await protocol.wait_received(4) == b"held"


async def test_pausing_from_data_received(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    class Pausing(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(0.001, self.transport.resume_reading)

    async with connect(Pausing) as (_, protocol, peer):
        data = os.urandom(1_000_000)
        sending = asyncio.ensure_future(loop.sock_sendall(peer, data))
        assert await protocol.wait_received(len(data)) == data
        await sending


async def test_closing_from_data_received(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    class Closing(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.close()

    async with connect(Closing) as (_, protocol, peer):
        await loop.sock_sendall(peer, bytes(200_000))
        assert await protocol.wait_lost() is None
        assert protocol.calls.count("data_received") == 1


async def test_writing_from_connection_made(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    class Greeting(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.write(b"hello")

    async with connect(Greeting) as (_, _, peer):
        assert await read_exactly(peer, 5) == b"hello"


async def test_water_marks(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, protocol, peer):
        transport.set_write_buffer_limits(high=1000, low=100)
        assert transport.get_write_buffer_limits() == (100, 1000)
        transport.write(bytes(10_000_000))
        assert protocol.calls[-1] == "pause_writing"
        size = transport.get_write_buffer_size()
        assert 1000 < size <= 10_000_000
        transport.write(b"more")
        assert transport.get_write_buffer_size() == size + 4
        assert protocol.calls.count("pause_writing") == 1
        await read_exactly(peer, 10_000_004)
        await protocol.wait_call("resume_writing")
        assert transport.get_write_buffer_size() <= 100
        assert protocol.calls.count("resume_writing") == 1


async def test_default_water_marks(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, _, _):
        assert transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
        transport.set_write_buffer_limits(high=100)
        assert transport.get_write_buffer_limits() == (25, 100)
        transport.set_write_buffer_limits(low=100)
        assert transport.get_write_buffer_limits() == (100, 400)
        transport.set_write_buffer_limits(0)
        assert transport.get_write_buffer_limits() == (0, 0)
        for high, low in ((1, 2), (-1, None), (None, -1)):
            with pytest.raises(ValueError, match="must be >= low"):
                transport.set_write_buffer_limits(high=high, low=low)


async def test_a_protocol_that_closes_in_pause_writing(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    class Giving(Recorder):
        def pause_writing(self) -> None:
            super().pause_writing()
            self.transport.abort()

    async with connect(Giving) as (transport, protocol, _):
        transport.write(bytes(10_000_000))
        assert await protocol.wait_lost() is None


async def test_extra_info(loop: asyncio.AbstractEventLoop, connect: Connect, kind: str) -> None:
    async with connect() as (transport, _, peer):
        sock = transport.get_extra_info("socket")
        assert sock.fileno() > 0
        assert sock.family == peer.family
        assert transport.get_extra_info("sockname") == peer.getpeername()
        assert transport.get_extra_info("peername") == peer.getsockname()
        assert transport.get_extra_info("nothing") is None
        assert transport.get_extra_info("nothing", "default") == "default"
        if kind == "tcp":
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        assert transport.get_protocol() is not None
        assert f"fd={sock.fileno()}" in repr(transport)


async def test_set_protocol(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect() as (transport, first, peer):
        await loop.sock_sendall(peer, b"one")
        await first.wait_received(3)
        second = BufferedRecorder()
        transport.set_protocol(second)
        assert transport.get_protocol() is second
        await loop.sock_sendall(peer, b"two")
        assert await second.wait_received(3) == b"two"
        transport.set_protocol(first)
        await loop.sock_sendall(peer, b"three")
        assert await first.wait_received(8) == b"onethree"
        transport.close()
        await first.wait_lost()
        assert "connection_lost" not in second.calls


async def test_echo_of_many_sizes(loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
    async with connect(Echo) as (_, _, peer):
        for size in (1, 2, 100, 1023, 1024, 4096, 10_000, 65535, 65536, 65537, 100_000, 1 << 18, (1 << 18) + 1):
            data = os.urandom(size)
            sending = asyncio.ensure_future(loop.sock_sendall(peer, data))
            assert await read_exactly(peer, size) == data
            await sending
