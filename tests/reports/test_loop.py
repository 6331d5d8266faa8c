"""Event loops: connections, datagrams and pipes. The sources are in `records/loop.toml`."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests import descriptors
from tests.certificates import server_context
from tests.conftest import Reported, cancelled, settle
from tests.protocols import Echo, Recorder, keeping
from tests.transport.conftest import socket_pair

LARGE = 4 << 20
"""More than the buffers of a socket hold."""


def bound(family: int = socket.AF_INET, address: Any = ("127.0.0.1", 0)) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.bind(address)
    sock.setblocking(False)
    return sock


async def until(is_reached: Callable[[], Any]) -> None:
    while not is_reached():
        await asyncio.sleep(0)


class Datagrams(asyncio.DatagramProtocol):
    """Keeps what comes."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.received: list[tuple[bytes, Any]] = []
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.append((data, addr))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


# -- endpoints that cannot be made -------------------------------------------------------------------


def refuses() -> asyncio.Protocol:
    raise LookupError("no protocol")


@pytest.mark.oneloop_only("asyncio leaves the accepted socket to the collector, and is silent about the error")
@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_server_whose_factory_raises(loop: asyncio.AbstractEventLoop, reported: Reported, is_tls: bool) -> None:
    context = server_context() if is_tls else None
    async with await loop.create_server(refuses, "127.0.0.1", 0, ssl=context) as server:
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            client.setblocking(False)
            assert await loop.sock_recv(client, 1) == b""
        reported.take_one(LookupError)


@pytest.mark.oneloop_only("asyncio leaves its own socket to the collector")
@pytest.mark.parametrize("options", [{"local_addr": ("127.0.0.1", 0)}, {"remote_addr": ("127.0.0.1", 9)}])
async def test_a_datagram_endpoint_whose_factory_raises(
    loop: asyncio.AbstractEventLoop, options: dict[str, Any]
) -> None:
    before = descriptors.open_descriptors()
    with pytest.raises(LookupError, match="no protocol") as raised:
        await loop.create_datagram_endpoint(refuses, **options)
    # While somebody looks at the error, with all frames that it has passed.
    assert raised.value.__traceback__ is not None
    assert not [target for target in descriptors.opened_since(before).values() if target.startswith("socket:")]


async def test_a_socket_of_the_program_whose_factory_raises(loop: asyncio.AbstractEventLoop) -> None:
    """It stays the program's."""
    with bound() as sock:
        with pytest.raises(LookupError, match="no protocol"):
            await loop.create_datagram_endpoint(refuses, sock=sock)
        assert sock.getsockname()[1]


# -- the ends of a stream ----------------------------------------------------------------------------


@pytest.mark.oneloop_only("asyncio ends the connection twice, and reports an AttributeError")
async def test_resume_writing_that_closes_the_transport(loop: asyncio.AbstractEventLoop) -> None:
    class Source(Recorder):
        """Writes until its source has nothing more."""

        left = 3

        def resume_writing(self) -> None:
            super().resume_writing()
            if self.left:
                self.left -= 1
                self.transport.write(bytes(LARGE))
            else:
                self.transport.close()

    ours, theirs = socket_pair("unix")
    transport, protocol = await loop.create_connection(Source, sock=ours)
    transport.set_write_buffer_limits(high=0)
    transport.write(bytes(LARGE))
    received = 0
    while data := await loop.sock_recv(theirs, 1 << 20):
        received += len(data)
    assert await protocol.wait_lost() is None
    await settle()
    assert received == 4 * LARGE
    assert protocol.calls.count("connection_lost") == 1
    theirs.close()


async def test_pause_writing_that_gives_the_peer_up(loop: asyncio.AbstractEventLoop) -> None:
    class Impatient(Recorder):
        def pause_writing(self) -> None:
            super().pause_writing()
            self.transport.abort()

    ours, theirs = socket_pair("unix")
    transport, protocol = await loop.create_connection(Impatient, sock=ours)
    transport.write(bytes(LARGE))
    await protocol.wait_lost()
    await settle()
    assert protocol.calls == ["connection_made", "pause_writing", "connection_lost"]
    theirs.close()


async def test_an_abort_is_no_error(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("unix")
    transport, protocol = await loop.create_connection(Recorder, sock=ours)
    transport.write(bytes(LARGE))
    transport.abort()
    assert await protocol.wait_lost() is None
    theirs.close()


async def test_data_received_that_raises_ends_the_connection(
    loop: asyncio.AbstractEventLoop, reported: Reported
) -> None:
    class Failing(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            theirs.send(b"more")
            raise LookupError("in data_received")

    ours, theirs = socket_pair("unix")
    transport, protocol = await loop.create_connection(Failing, sock=ours)
    theirs.send(b"some")
    assert isinstance(await protocol.wait_lost(), LookupError)
    assert transport.is_closing()
    await settle()
    assert protocol.received == b"some"
    reported.take_one(LookupError)
    theirs.close()


@pytest.mark.oneloop_only(
    "asyncio's writelines() raises TypeError in some releases: python/cpython#136234", before=(3, 14)
)
async def test_writes_after_close_are_dropped(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("unix")
    transport, protocol = await loop.create_connection(Recorder, sock=ours)
    endpoint, _ = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
    transport.close()
    endpoint.close()
    transport.write(b"late")
    transport.writelines([b"late"])
    endpoint.sendto(b"late", endpoint.get_extra_info("sockname"))
    await protocol.wait_lost()
    assert await loop.sock_recv(theirs, 10) == b""
    theirs.close()


@pytest.mark.oneloop_only("asyncio from 3.12 on sends what the buffer has become")
async def test_a_buffer_that_changes_after_the_write(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("unix")
    transport, protocol = await loop.create_connection(Recorder, sock=ours)
    transport.write(bytes(LARGE))
    first, second = bytearray(b"a" * 1000), bytearray(b"b" * 1000)
    transport.write(first)
    transport.writelines([memoryview(second)])
    first[:] = second[:] = b"x" * 1000
    transport.close()
    received = bytearray()
    while data := await loop.sock_recv(theirs, 1 << 20):
        received += data
    assert received[LARGE:] == b"a" * 1000 + b"b" * 1000
    await protocol.wait_lost()
    theirs.close()


@pytest.mark.parametrize("limits", [{"high": 1, "low": 2}, {"high": -1}, {"low": -1}, {"high": 0, "low": 1}])
async def test_limits_that_make_no_sense(loop: asyncio.AbstractEventLoop, limits: dict[str, int]) -> None:
    ours, theirs = socket_pair("unix")
    transport, protocol = await loop.create_connection(Recorder, sock=ours)
    before = transport.get_write_buffer_limits()
    with pytest.raises(ValueError, match="must be >="):
        transport.set_write_buffer_limits(**limits)
    assert transport.get_write_buffer_limits() == before
    transport.abort()
    await protocol.wait_lost()
    theirs.close()


# What becomes of a server's connections when its `serve_forever()` is cancelled depends on CPython's patch release.
CLOSES_CLIENTS = "close_clients" in asyncio.Server.serve_forever.__code__.co_names


async def test_the_clients_of_a_cancelled_server(loop: asyncio.AbstractEventLoop) -> None:
    """They are kept, or closed as by `close_clients()`: what has been written arrives."""
    made: list[Echo] = []
    server = await loop.create_server(keeping(made, Echo), "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    serving = asyncio.ensure_future(server.serve_forever())
    transport, protocol = await loop.create_connection(Recorder, *address)
    transport.write(b"1")
    assert await protocol.wait_received(1) == b"1"
    if CLOSES_CLIENTS:
        made[0].transport.write(bytes(LARGE))
        serving.cancel()
        assert len(await protocol.wait_received(1 + LARGE)) == 1 + LARGE
    else:
        serving.cancel()
        await settle()
        transport.write(b"2")
        assert await protocol.wait_received(2) == b"12"
    with socket.socket() as late:
        late.setblocking(False)
        with pytest.raises(ConnectionRefusedError):
            await loop.sock_connect(late, address)
    transport.close()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    await protocol.wait_lost()


# -- who owns a descriptor ---------------------------------------------------------------------------


class Watched(io.FileIO):
    """Notes whether its descriptor was still its own when it was closed."""

    was_open: bool | None = None

    def close(self) -> None:
        if not self.closed:
            try:
                os.fstat(self.fileno())
                self.was_open = True
            except OSError:
                self.was_open = False
        super().close()


@pytest.mark.parametrize("is_reading", [True, False])
async def test_a_pipe_is_closed_once(loop: asyncio.AbstractEventLoop, is_reading: bool) -> None:
    reading, writing = os.pipe()
    file = Watched(reading, "r") if is_reading else Watched(writing, "w")
    protocol = Recorder()
    connect: Any = loop.connect_read_pipe if is_reading else loop.connect_write_pipe
    transport, _ = await connect(lambda: protocol, file)
    transport.close()
    await protocol.wait_lost()
    file.close()
    assert file.was_open
    os.close(writing if is_reading else reading)


@pytest.mark.parametrize("method", ["create_connection", "create_unix_connection"])
async def test_a_cancelled_connection_leaves_its_socket_to_nobody(loop: asyncio.AbstractEventLoop, method: str) -> None:
    ours, theirs = socket_pair("unix")
    number = ours.fileno()
    task = await cancelled(getattr(loop, method)(asyncio.Protocol, sock=ours), ticks=1)
    assert task.cancelled()
    await settle()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    # The number is another one's now, whom the socket object must not close.
    os.dup2(theirs.fileno(), number)
    ours.close()
    del ours
    os.fstat(number)
    os.close(number)
    theirs.close()


# -- datagrams ---------------------------------------------------------------------------------------


@contextmanager
def at_port_4464() -> Iterator[socket.socket]:
    """70000 without its highest bit. An address of this test alone, where nobody else has the port."""
    sock = bound(address=("127.46.44.64", 4464))
    with sock:
        yield sock


async def test_a_port_that_does_not_fit(loop: asyncio.AbstractEventLoop, reported: Reported) -> None:
    with at_port_4464() as wrong:
        endpoint, protocol = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
        with contextlib.suppress(OverflowError):
            endpoint.sendto(b"x", (wrong.getsockname()[0], 70000))
            reported.take_one(OverflowError)
        with pytest.raises(BlockingIOError):
            wrong.recv(10)
        with pytest.raises(OverflowError):
            await loop.create_connection(asyncio.Protocol, "127.0.0.1", 70000)
        endpoint.close()
        await until(lambda: protocol.is_lost)


async def test_datagrams_wait_for_resume_reading(loop: asyncio.AbstractEventLoop) -> None:
    endpoint, protocol = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
    with bound() as peer:
        endpoint.pause_reading()  # type: ignore[attr-defined]
        peer.sendto(b"x", endpoint.get_extra_info("sockname"))
        await settle(10)
        assert protocol.received == []
        endpoint.resume_reading()  # type: ignore[attr-defined]
        await until(lambda: protocol.received)
        assert protocol.received == [(b"x", peer.getsockname())]
    endpoint.close()
    await until(lambda: protocol.is_lost)


async def test_no_datagram_after_close(loop: asyncio.AbstractEventLoop) -> None:
    class Once(Datagrams):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, addr)
            self.transport.close()

    endpoint, protocol = await loop.create_datagram_endpoint(Once, local_addr=("127.0.0.1", 0))
    with bound() as peer:
        for _ in range(5):
            peer.sendto(b"x", endpoint.get_extra_info("sockname"))
        await until(lambda: protocol.is_lost)
        await settle()
    assert [data for data, _ in protocol.received] == [b"x"]


async def test_addresses_of_the_abstract_namespace(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = (f"\0oneloop-{os.getpid()}-{id(loop)}-{name}" for name in ("ours", "theirs"))
    endpoint, protocol = await loop.create_datagram_endpoint(Datagrams, local_addr=ours, family=socket.AF_UNIX)  # type: ignore[arg-type]
    with bound(socket.AF_UNIX, theirs) as peer:
        peer.sendto(b"there", ours)
        await until(lambda: protocol.received)
        ((data, address),) = protocol.received
        assert data == b"there"
        assert os.fsencode(address) == theirs.encode()
        endpoint.sendto(b"back", address)
        assert await loop.sock_recv(peer, 10) == b"back"
    endpoint.close()
    await until(lambda: protocol.is_lost)


async def test_a_reader_hears_again_after_an_error(loop: asyncio.AbstractEventLoop) -> None:
    """A connected socket whose datagram was refused (ICMP), and whose peer comes back."""
    heard: list[bytes | OSError] = []
    peer = bound()
    sock = bound()
    sock.connect(peer.getsockname())
    peer.close()

    def hear() -> None:
        try:
            heard.append(sock.recv(10))
        except OSError as exc:
            heard.append(exc)

    loop.add_reader(sock, hear)
    sock.send(b"x")
    await until(lambda: heard)
    assert isinstance(heard[0], ConnectionRefusedError)
    with bound(address=sock.getpeername()) as peer:
        peer.sendto(b"back", sock.getsockname())
        await until(lambda: len(heard) == 2)
    assert heard[1] == b"back"
    loop.remove_reader(sock)
    sock.close()


# -- timers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay_s", [1e10, 1e18, 1e300, float("inf")])
async def test_a_delay_longer_than_a_clock_can_say(loop: asyncio.AbstractEventLoop, delay_s: float) -> None:
    called: list[float] = []
    timer = loop.call_later(delay_s, called.append, delay_s)
    loop.call_later(0.001, called.append, 0)
    await until(lambda: called)
    assert called == [0]
    timer.cancel()
