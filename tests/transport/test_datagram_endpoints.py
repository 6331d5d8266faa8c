"""create_datagram_endpoint: connected, unconnected, Unix, IPv6, broadcast; errors that come back; flow control."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.ipv6 import NEEDS_IPV6


class Recorder(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.datagrams: asyncio.Queue[tuple[bytes, Any]] = asyncio.Queue()
        self.errors: asyncio.Queue[Exception] = asyncio.Queue()
        self.lost = asyncio.Event()
        self.calls: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("connection_made")

    def datagram_received(self, data: bytes, addr: Any) -> None:
        assert type(data) is bytes
        self.datagrams.put_nowait((data, addr))

    def error_received(self, exc: Exception) -> None:
        self.errors.put_nowait(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("connection_lost")
        self.lost.set()

    def pause_writing(self) -> None:
        self.calls.append("pause_writing")

    def resume_writing(self) -> None:
        self.calls.append("resume_writing")


async def endpoint(**options: Any) -> tuple[Any, Recorder]:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(Recorder, **options)
    return transport, protocol


async def closed(*endpoints: tuple[Any, Recorder]) -> None:
    for transport, protocol in endpoints:
        transport.close()
        await protocol.lost.wait()
        assert protocol.calls.count("connection_lost") == 1


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=NEEDS_IPV6)])
async def test_unconnected(loop: asyncio.AbstractEventLoop, host: str) -> None:
    one, two = await endpoint(local_addr=(host, 0)), await endpoint(local_addr=(host, 0))
    addresses = [each[0].get_extra_info("sockname") for each in (one, two)]
    for size in (0, 1, 64, 1400, 8192, 65000) if sys.version_info >= (3, 13) else (1, 64, 1400, 8192, 65000):
        data = os.urandom(size)
        one[0].sendto(data, addresses[1])
        assert await two[1].datagrams.get() == (data, addresses[0])
        two[0].sendto(memoryview(data), addresses[0])
        assert await one[1].datagrams.get() == (data, addresses[1])
    assert one[0].get_extra_info("peername") is None
    await closed(one, two)


async def test_connected(loop: asyncio.AbstractEventLoop) -> None:
    server = await endpoint(local_addr=("127.0.0.1", 0))
    address = server[0].get_extra_info("sockname")
    client = await endpoint(remote_addr=address)
    assert client[0].get_extra_info("peername") == address
    client[0].sendto(b"one")
    client[0].sendto(bytearray(b"two"), None)
    client[0].sendto(b"three", address)
    assert [(await server[1].datagrams.get())[0] for _ in range(3)] == [b"one", b"two", b"three"]
    with pytest.raises(ValueError, match="Invalid address"):
        client[0].sendto(b"x", ("127.0.0.1", 1))
    server[0].sendto(b"back", client[0].get_extra_info("sockname"))
    assert await client[1].datagrams.get() == (b"back", address)
    await closed(server, client)


async def test_unix(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]
    one = await endpoint(local_addr=paths[0], family=socket.AF_UNIX)
    two = await endpoint(local_addr=paths[1], remote_addr=paths[0], family=socket.AF_UNIX)
    two[0].sendto(b"hello")
    assert await one[1].datagrams.get() == (b"hello", paths[1])
    one[0].sendto(b"back", paths[1])
    assert await two[1].datagrams.get() == (b"back", paths[0])
    await closed(one, two)


async def test_a_ready_socket(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as other:
        sock = socket.socket(type=socket.SOCK_DGRAM)
        sock.bind(("127.0.0.1", 0))
        own = await endpoint(sock=sock)
        other.sendto(b"hello", sock.getsockname())
        assert (await own[1].datagrams.get())[0] == b"hello"
        await closed(own)


async def test_broadcast(loop: asyncio.AbstractEventLoop) -> None:
    own = await endpoint(local_addr=("127.0.0.1", 0), allow_broadcast=True)
    sock = own[0].get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST)
    await closed(own)


async def test_refused_comes_back_as_an_error(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as unused:
        unused.bind(("127.0.0.1", 0))
        address = unused.getsockname()
    own = await endpoint(remote_addr=address)
    own[0].sendto(b"x")
    assert isinstance(await own[1].errors.get(), ConnectionRefusedError)
    assert not own[0].is_closing()
    await closed(own)


async def test_too_large(loop: asyncio.AbstractEventLoop) -> None:
    own = await endpoint(local_addr=("127.0.0.1", 0))
    own[0].sendto(bytes(70_000), own[0].get_extra_info("sockname"))
    error = await own[1].errors.get()
    assert isinstance(error, OSError)
    own[0].sendto(b"works", own[0].get_extra_info("sockname"))
    assert (await own[1].datagrams.get())[0] == b"works"
    await closed(own)


@pytest.mark.parametrize("value", ["text", 1, None])
async def test_what_cannot_be_sent(loop: asyncio.AbstractEventLoop, value: Any) -> None:
    own = await endpoint(local_addr=("127.0.0.1", 0))
    with pytest.raises(TypeError, match="data argument must be"):
        own[0].sendto(value, ("127.0.0.1", 1))
    await closed(own)


async def test_a_queue_that_backs_up(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """A Unix socket whose receiver does not read: the queue grows, the protocol is paused, then all arrives."""
    path = str(tmp_path / "receiver")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        receiver.setblocking(False)
        own = await endpoint(remote_addr=path, family=socket.AF_UNIX)
        count = 400
        for number in range(count):
            own[0].sendto(b"%04d" % number + bytes(1000))
        assert own[0].get_write_buffer_size() > 65536
        assert "pause_writing" in own[1].calls
        received = [int((await loop.sock_recv(receiver, 2000))[:4]) for _ in range(count)]
        assert received == list(range(count))
        assert "resume_writing" in own[1].calls
        # Stock asyncio counts a header per datagram that it never takes off again.
        assert own[0].get_write_buffer_size() < 16 * 1024
        await closed(own)


async def test_datagram_received_that_raises(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    class Failing(Recorder):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            if data == b"fail":
                raise LookupError("in datagram_received")
            super().datagram_received(data, addr)

    transport, protocol = await loop.create_datagram_endpoint(Failing, local_addr=("127.0.0.1", 0))
    address = transport.get_extra_info("sockname")
    transport.sendto(b"fail", address)
    while not reported.contexts:
        await asyncio.sleep(0.001)
    reported.take_one(LookupError)
    transport.abort()
    await protocol.lost.wait()


async def test_wrong_arguments(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket() as stream:
        bad: list[tuple[dict[str, Any], type[Exception], str]] = [
            ({}, ValueError, "unexpected address family"),
            ({"sock": stream}, ValueError, "A datagram socket was expected|UDP Socket was expected"),
            ({"local_addr": "text"}, TypeError, "2-tuple is expected|expects? a|tuple"),
        ]
        for options, error, text in bad:
            with pytest.raises(error, match=text):
                await loop.create_datagram_endpoint(Recorder, **options)
    with pytest.raises(OSError, match="Cannot assign requested address"):
        await loop.create_datagram_endpoint(Recorder, local_addr=("192.0.2.1", 0))


async def test_after_close(loop: asyncio.AbstractEventLoop) -> None:
    own = await endpoint(local_addr=("127.0.0.1", 0))
    address = own[0].get_extra_info("sockname")
    own[0].close()
    own[0].close()
    assert own[0].is_closing()
    await own[1].lost.wait()
    own[0].abort()
    assert own[1].calls.count("connection_lost") == 1
    with socket.socket(type=socket.SOCK_DGRAM) as other:
        other.sendto(b"late", address)
    await asyncio.sleep(0)
    assert own[1].datagrams.empty()


class RefusedError(Exception):
    """One that can be referred to weakly."""


@pytest.mark.oneloop_only("asyncio leaves its own socket to the collector")
async def test_the_error_of_a_datagram_endpoints_factory_is_in_no_cycle(loop: asyncio.AbstractEventLoop) -> None:
    errors: weakref.WeakSet[RefusedError] = weakref.WeakSet()

    def factory() -> asyncio.DatagramProtocol:
        error = RefusedError()
        errors.add(error)
        try:
            raise error
        finally:
            del error

    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(RefusedError):
            await loop.create_datagram_endpoint(factory, local_addr=("127.0.0.1", 0))
        assert not errors
    finally:
        gc.enable()
