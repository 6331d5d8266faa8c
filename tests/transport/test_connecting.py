"""create_connection and its relatives: arguments, happy eyeballs, failures, cancellation at every step."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import cancelled, settle
from tests.protocols import Echo, Recorder
from tests.transport.conftest import socket_pair


def resolve_to(loop: Any, *hosts: str) -> None:
    """Make the loop resolve every name to these addresses, in this order."""
    resolve = loop.getaddrinfo

    async def getaddrinfo(host: Any, port: Any, **options: Any) -> list[Any]:
        options["family"] = 0
        return [info for each in hosts for info in await resolve(each, port, **options)]

    loop.getaddrinfo = getaddrinfo


async def test_by_host_and_port(loop: asyncio.AbstractEventLoop) -> None:
    async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        for name in (host, "localhost"):
            transport, protocol = await loop.create_connection(Recorder, name, port, family=socket.AF_INET)
            transport.write(b"hello")
            assert await protocol.wait_received(5) == b"hello"
            transport.close()
            await protocol.wait_lost()


@pytest.mark.parametrize("delay", [None, 0.01])
async def test_local_address(loop: asyncio.AbstractEventLoop, delay: float | None) -> None:
    async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport, protocol = await loop.create_connection(
            Recorder, "127.0.0.1", port, local_addr=("127.0.0.2", 0), happy_eyeballs_delay=delay
        )
        assert transport.get_extra_info("sockname")[0] == "127.0.0.2"
        transport.close()
        await protocol.wait_lost()
        with pytest.raises(OSError, match=r"while attempting to bind|no matching local address"):
            await loop.create_connection(
                Recorder, "127.0.0.1", port, local_addr=("192.0.2.1", 0), happy_eyeballs_delay=delay
            )


async def test_refused(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, "127.0.0.1", port)
        resolve_to(loop, "127.0.0.1", "127.0.0.2")
        with pytest.raises(OSError, match="Multiple exceptions"):
            await loop.create_connection(Recorder, "a-name", port, happy_eyeballs_delay=None)


@pytest.mark.parametrize("delay", [None, 0, 0.01])
async def test_happy_eyeballs_finds_the_family_that_works(loop: asyncio.AbstractEventLoop, delay: float | None) -> None:
    """The name has an IPv6 and an IPv4 address; only the latter listens."""
    resolve_to(loop, "::1", "127.0.0.1")
    async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for interleave in (None, 1, 2):
            transport, protocol = await loop.create_connection(
                Recorder, "a-name", port, happy_eyeballs_delay=delay, interleave=interleave
            )
            assert transport.get_extra_info("peername") == ("127.0.0.1", port)
            transport.close()
            await protocol.wait_lost()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="all_errors came with Python 3.12")
async def test_all_errors(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ExceptionGroup) as group:
            await loop.create_connection(Recorder, *unused.getsockname(), all_errors=True)
        assert all(isinstance(error, ConnectionRefusedError) for error in group.value.exceptions)


async def test_wrong_arguments(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as datagram, socket.socket() as stream:
        bad: list[tuple[dict[str, Any], type[Exception], str]] = [
            ({"host": "h", "port": 1, "sock": stream}, ValueError, "host/port and sock can not be specified"),
            ({}, ValueError, "host and port was not specified and no sock specified"),
            ({"sock": datagram}, ValueError, "A Stream Socket was expected"),
            (
                {"host": "h", "port": 1, "server_hostname": "x"},
                ValueError,
                "server_hostname is only meaningful with ssl",
            ),
            ({"sock": stream, "ssl": True}, ValueError, "You must set server_hostname"),
            ({"host": "h", "port": 1, "ssl_handshake_timeout": 1}, ValueError, "ssl_handshake_timeout is only"),
            ({"host": "h", "port": 1, "ssl_shutdown_timeout": 1}, ValueError, "ssl_shutdown_timeout is only"),
        ]
        for options, error, text in bad:
            with pytest.raises(error, match=text):
                await loop.create_connection(Recorder, **options)


@pytest.mark.oneloop_only("stock asyncio leaves the socket to the garbage collector")
async def test_a_factory_that_raises(loop: asyncio.AbstractEventLoop) -> None:
    def factory() -> asyncio.Protocol:
        raise LookupError("in the factory")

    async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
        for _ in range(10):
            with pytest.raises(LookupError, match="in the factory"):
                await loop.create_connection(factory, *server.sockets[0].getsockname())
        for _ in range(3):
            await asyncio.sleep(0.001)


@pytest.mark.oneloop_only("asyncio before 3.14.8 leaves the socket open: python/cpython#153133")
@pytest.mark.parametrize("way", ["sock", "unix path", "unix sock", "accepted"])
async def test_a_socket_without_a_transport_is_closed(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, way: str
) -> None:
    def factory() -> asyncio.Protocol:
        raise LookupError("in the factory")

    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.setblocking(False)
        listener.bind(path)
        listener.listen()
        ours = socket.socket(socket.AF_UNIX)
        ours.setblocking(False)
        if way != "unix path":
            ours.connect(path)
        attempts: dict[str, Callable[[], Awaitable[Any]]] = {
            "sock": lambda: loop.create_connection(factory, sock=ours),
            "unix path": lambda: loop.create_unix_connection(factory, path),
            "unix sock": lambda: loop.create_unix_connection(factory, sock=ours),
            "accepted": lambda: loop.connect_accepted_socket(factory, ours),
        }
        with pytest.raises(LookupError, match="in the factory") as kept:
            await attempts[way]()
        peer, _ = listener.accept()
        with peer, ours:
            peer.setblocking(False)
            assert peer.recv(1) == b""
        del kept


async def test_connection_made_that_raises(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    made: list[Any] = []

    class Failing(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(transport)
            raise LookupError("in connection_made")

    ours, theirs = socket_pair("unix")
    transport, _ = await loop.create_connection(Failing, sock=ours)
    reported.take_one(LookupError)
    transport.abort()
    theirs.close()
    await settle(3)


async def test_unix(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with await loop.create_unix_server(Echo, path):
        for address in (path, str(path), str(path).encode()):
            transport, protocol = await loop.create_unix_connection(Recorder, address)  # type: ignore[arg-type]
            transport.write(b"hello")
            assert await protocol.wait_received(5) == b"hello"
            transport.close()
            await protocol.wait_lost()
    with pytest.raises(FileNotFoundError):
        await loop.create_unix_connection(Recorder, str(tmp_path / "nobody"))
    with pytest.raises(ValueError, match="no path and sock were specified"):
        await loop.create_unix_connection(Recorder)


async def test_connect_accepted_socket(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("tcp")
    _transport, protocol = await loop.connect_accepted_socket(Recorder, ours)
    await loop.sock_sendall(theirs, b"hello")
    assert await protocol.wait_received(5) == b"hello"
    theirs.close()
    await protocol.wait_lost()
    with socket.socket(type=socket.SOCK_DGRAM) as datagram, pytest.raises(ValueError, match="Stream Socket"):
        await loop.connect_accepted_socket(Recorder, datagram)


async def test_cancelling_a_connection_at_every_step(loop: asyncio.AbstractEventLoop) -> None:
    """After each number of ticks; the descriptors of both sides are audited."""
    async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        # Not with happy eyeballs: the staggered_race of several of the supported Python versions loses cancellations.
        for options in ({}, {"local_addr": ("127.0.0.1", 0)}):
            for steps in range(12):
                task = await cancelled(loop.create_connection(Recorder, "127.0.0.1", port, **options), steps)
                if not task.cancelled():
                    task.result()[0].abort()
        for _ in range(5):
            await asyncio.sleep(0.001)


@pytest.mark.oneloop_only("cancelled in its last turn, asyncio's create_server() leaves a server that listens")
@pytest.mark.parametrize("hosts", [["127.0.0.1"], ["127.0.0.1", "localhost"]], ids=["numeric", "resolved"])
async def test_cancelling_a_server_at_every_step(loop: asyncio.AbstractEventLoop, hosts: list[str]) -> None:
    for steps in range(8):
        task = await cancelled(loop.create_server(Echo, hosts, 0), steps)
        if not task.cancelled() and task.exception() is None:
            task.result().close()
        await asyncio.sleep(0.001)


async def test_cancelling_streams_at_every_step(loop: asyncio.AbstractEventLoop) -> None:
    async def whole(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(bytes(300_000))
            await writer.drain()
            await reader.readexactly(300_000)
        finally:
            writer.close()
            await writer.wait_closed()

    async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
        for steps in range(30):
            task = await cancelled(whole(server.sockets[0].getsockname()[1]), steps)
            assert task.cancelled() or task.exception() is None
        for _ in range(5):
            await asyncio.sleep(0.001)
