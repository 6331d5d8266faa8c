"""How much one readiness brings: all that a stream has, up to 256 KiB, but a single datagram. As on stock asyncio."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from typing import Any

import pytest

from tests.transport.conftest import socket_pair

SIZES = [8192, 200_000, 20_000, 150_000, 1, 100_000]


class Sizes(asyncio.Protocol):
    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.content = b""
        self.lost = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        self.sizes.append(len(data))
        self.content += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


def wide_pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket_pair("unix")
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return ours, theirs


async def test_a_read_takes_all_there_is_whatever_came_before(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = wide_pair()
    transport, protocol = await loop.create_connection(Sizes, sock=ours)
    expected = b""
    for n, size in enumerate(SIZES):
        message = bytes([65 + n]) * (size - 1) + b"."
        expected += message
        assert theirs.send(message) == size
        await asyncio.sleep(0.001)
    assert protocol.sizes == SIZES
    assert protocol.content == expected
    transport.close()
    await protocol.lost
    theirs.close()


async def test_a_read_pipe_takes_all_there_is(loop: asyncio.AbstractEventLoop) -> None:
    reading, writing = os.pipe()
    transport, protocol = await loop.connect_read_pipe(Sizes, os.fdopen(reading, "rb", 0))
    for size in (8192, 60_000, 20_000, 50_000):
        assert os.write(writing, bytes(size)) == size
        await asyncio.sleep(0.001)
    assert protocol.sizes == [8192, 60_000, 20_000, 50_000]
    os.close(writing)
    await protocol.lost
    transport.close()


async def test_a_stream_reader_has_all_there_is(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = wide_pair()
    reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 20)
    for n, size in enumerate(SIZES):
        message = bytes([65 + n]) * (size - 1) + b"."
        assert theirs.send(message) == size
        await asyncio.sleep(0.001)
        assert await reader.read(1 << 20) == message
    writer.close()
    await writer.wait_closed()
    theirs.close()


async def test_an_error_behind_long_reads_is_not_lost(loop: asyncio.AbstractEventLoop) -> None:
    """A reset that comes with the data is told of, though the read before it was long and had room left."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours = listener.accept()[0]
    ours.setblocking(False)
    _, protocol = await loop.create_connection(Sizes, sock=ours)
    theirs.sendall(bytes(100_000))
    while sum(protocol.sizes) < 100_000:
        await asyncio.sleep(0.001)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    theirs.close()
    assert isinstance(await protocol.lost, ConnectionResetError)


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, order: list[Any], act: Any) -> None:
        self.order, self.act = order, act

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.order.append(data)
        self.act(self, data)


async def received(loop: asyncio.AbstractEventLoop, act: Any, *, has_all: Any = lambda: True) -> list[Any]:
    """What happens when three datagrams wait at once; `act` is called with each. Waits for `has_all`."""
    order: list[Any] = []
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    transport, _ = await loop.create_datagram_endpoint(lambda: Datagrams(order, act), sock=ours)
    for data in (b"1", b"2", b"3"):
        theirs.send(data)
    # Not in one go: stock asyncio reads one in each tick, and each of these waits has a tick of its own.
    for _ in range(20):
        await asyncio.sleep(0.001)
    while not has_all():
        await asyncio.sleep(0.001)
    transport.close()
    await asyncio.sleep(0)
    theirs.close()
    return order


async def test_what_a_datagram_schedules_runs_before_the_next(loop: asyncio.AbstractEventLoop) -> None:
    order = await received(loop, lambda self, data: loop.call_soon(self.order.append, b"after " + data))
    assert order == [b"1", b"after 1", b"2", b"after 2", b"3", b"after 3"]


async def test_a_datagram_whose_callback_closes_soon_is_the_last(loop: asyncio.AbstractEventLoop) -> None:
    assert await received(loop, lambda self, _: loop.call_soon(self.transport.abort)) == [b"1"]


async def test_a_datagram_whose_callback_aborts_is_the_last(loop: asyncio.AbstractEventLoop) -> None:
    assert await received(loop, lambda self, _: self.transport.abort()) == [b"1"]


async def test_a_timer_that_falls_due_comes_before_the_next_datagram(loop: asyncio.AbstractEventLoop) -> None:
    def act(self: Datagrams, data: bytes) -> None:
        if data == b"1":
            loop.call_later(0, self.order.append, b"timer")

    order = await received(loop, act)
    assert order.index(b"timer") in (1, 2), "asyncio's timers are due at the next poll"


async def test_other_readers_come_between_slow_datagrams(loop: asyncio.AbstractEventLoop) -> None:
    """A callback that takes a while is followed by a poll: nobody waits for sixteen of them."""
    reading, writing = socket_pair("unix")

    def act(self: Datagrams, data: bytes) -> None:
        if data == b"1":
            writing.send(b"x")
        end = loop.time() + 0.002
        while loop.time() < end:
            pass

    order: list[Any] = []

    def read() -> None:
        order.append(reading.recv(10))
        loop.remove_reader(reading)

    loop.add_reader(reading, read)

    def note(self: Datagrams, data: bytes) -> None:
        act(self, data)
        order.append(data)

    await received(loop, note, has_all=lambda: b"3" in order)
    assert order.index(b"x") < order.index(b"3")
    reading.close()
    writing.close()


def test_stop_leaves_further_datagrams_to_the_next_run(loop: asyncio.AbstractEventLoop) -> None:
    order: list[Any] = []
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    made = loop.create_datagram_endpoint(lambda: Datagrams(order, lambda self, _: loop.stop()), sock=ours)
    transport, _ = loop.run_until_complete(made)
    for data in (b"1", b"2"):
        theirs.send(data)
    loop.run_forever()
    assert order == [b"1"]
    loop.run_forever()
    assert order == [b"1", b"2"]
    transport.close()
    loop.run_until_complete(asyncio.sleep(0))
    theirs.close()


# asyncio's transport, half made, says that it was not closed.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_protocol_without_connection_made(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("unix")
    with pytest.raises(AttributeError, match="connection_made"):
        await loop.create_connection(object, sock=ours)  # type: ignore[type-var]
    gc.collect()
    ours.close()
    assert await loop.sock_recv(theirs, 1) == b""
    theirs.close()


async def test_a_pipe_is_resumed_when_all_is_written(loop: asyncio.AbstractEventLoop) -> None:
    resumed: list[int] = []

    class Writer(asyncio.Protocol):
        def resume_writing(self) -> None:
            resumed.append(transport.get_write_buffer_size())

    reading, writing = os.pipe()
    transport, _ = await loop.connect_write_pipe(Writer, os.fdopen(writing, "wb", 0))
    transport.write(bytes(200_000))
    received = 0
    while received < 200_000:
        received += len(os.read(reading, 50_000))
        await asyncio.sleep(0.001)
        assert not resumed or received >= 200_000 - 65536
    assert resumed == [0]
    transport.close()
    await asyncio.sleep(0.001)
    os.close(reading)


async def test_nothing_is_asked_for(loop: asyncio.AbstractEventLoop) -> None:
    """A receive of no bytes does not wait, as the socket's own does not."""
    ours, theirs = socket_pair("unix")
    assert await asyncio.wait_for(loop.sock_recv(ours, 0), 60) == b""
    assert await asyncio.wait_for(loop.sock_recv_into(ours, bytearray()), 60) == 0
    theirs.send(b"x")
    assert await loop.sock_recv(ours, 10) == b"x"
    ours.close()
    theirs.close()


@pytest.mark.parametrize("buffer", [b"read only", memoryview(bytearray(10))[::2]])
async def test_receiving_into_what_cannot_be_written(loop: asyncio.AbstractEventLoop, buffer: Any) -> None:
    ours, theirs = socket_pair("unix")
    theirs.send(b"x")
    with pytest.raises((TypeError, BufferError)) as raised:
        await loop.sock_recv_into(ours, buffer)
    # recv_into() has its own word for gaps, which differs between versions.
    assert raised.type is TypeError or not isinstance(buffer, bytes)
    ours.close()
    theirs.close()


class Ends(asyncio.Protocol):
    """Keeps the connection open at its end, and raises at the first one if told to."""

    def __init__(self, raises: type[BaseException] | None = None) -> None:
        self.raises, self.ends = raises, 0
        self.lost = False

    def eof_received(self) -> bool:
        self.ends += 1
        if self.raises is not None and self.ends == 1:
            raise self.raises
        return self.raises is None

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit])
def test_an_end_that_left_the_loop_is_told_again(loop: asyncio.AbstractEventLoop, leaving: type[BaseException]) -> None:
    ours, theirs = socket_pair("unix")
    protocol = Ends(leaving)
    transport, _ = loop.run_until_complete(loop.create_connection(lambda: protocol, sock=ours))
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(leaving):
        loop.run_forever()
    loop.run_until_complete(asyncio.sleep(0.01))
    assert (protocol.ends, protocol.lost, transport.is_closing()) == (2, True, True)
    theirs.close()


async def test_who_resumes_reading_after_the_end_hears_of_it_again(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("unix")
    transport, protocol = await loop.create_connection(Ends, sock=ours)
    theirs.shutdown(socket.SHUT_WR)
    await asyncio.sleep(0.01)
    assert (protocol.ends, transport.is_reading()) == (1, True)
    transport.pause_reading()
    assert not transport.is_reading()
    await asyncio.sleep(0.01)
    assert protocol.ends == 1
    transport.resume_reading()
    assert transport.is_reading()
    await asyncio.sleep(0.01)
    assert protocol.ends == 2
    transport.close()
    await asyncio.sleep(0.01)
    theirs.close()


@pytest.mark.parametrize("act", ["close", "abort", "pause_reading"])
async def test_a_buffer_that_was_given_is_filled(loop: asyncio.AbstractEventLoop, act: str) -> None:
    """Whatever `get_buffer` has done to its transport before."""
    updates: list[int] = []

    class Buffered(asyncio.BufferedProtocol):
        def get_buffer(self, sizehint: int) -> bytearray:
            getattr(transport, act)()
            return bytearray(100)

        def buffer_updated(self, nbytes: int) -> None:
            updates.append(nbytes)

    ours, theirs = socket_pair("unix")
    transport, _ = await loop.create_connection(Buffered, sock=ours)
    theirs.send(b"hello")
    await asyncio.sleep(0.01)
    assert updates == [5]
    transport.abort()
    await asyncio.sleep(0.01)
    theirs.close()


async def test_water_marks_are_numbers(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("unix")
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    for high, low in ((64 * 1024 / 2, None), (10, 1.5), (2**64, None), (2**64, 2**63), (None, 100.0)):
        transport.set_write_buffer_limits(high, low)  # type: ignore[arg-type]
    for high, low in ((-1, None), (1.5, 2), (10, -0.5)):
        with pytest.raises(ValueError, match="must be >="):
            transport.set_write_buffer_limits(high, low)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        transport.set_write_buffer_limits("10")  # type: ignore[arg-type]
    transport.close()
    await asyncio.sleep(0.01)
    theirs.close()


async def test_a_reply_is_read_before_what_comes_behind_it(loop: asyncio.AbstractEventLoop) -> None:
    """A relay in one process with both its ends: siosocks throws away what it reads together with the last reply.

    The server behind the relay speaks first. It must not have spoken before the relay has answered its client, so a
    connection does not begin in the tick in which it is accepted.
    """

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"greeting")
        await reader.read()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        inner_reader, inner_writer = await asyncio.open_connection(*greeter.sockets[0].getsockname())
        writer.write(b"reply")
        await writer.drain()

        async def pump() -> None:
            writer.write(await inner_reader.read(100))

        await asyncio.ensure_future(pump())
        await reader.read()
        for end in (inner_writer, writer):
            end.close()

    tasks = len(asyncio.all_tasks())
    greeter = await asyncio.start_server(greet, "127.0.0.1", 0)
    relaying = await asyncio.start_server(relay, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*relaying.sockets[0].getsockname())
    writer.write(b"request")
    assert await reader.read(100) == b"reply"
    assert await reader.read(100) == b"greeting"
    writer.close()
    assert await reader.read() == b""
    for server in (relaying, greeter):
        server.close()
        await server.wait_closed()
    while len(asyncio.all_tasks()) > tasks:
        await asyncio.sleep(0.001)
