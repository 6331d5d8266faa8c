"""Protocols and endpoints for the datagram tests."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any


class Recorder(asyncio.DatagramProtocol):
    """Keeps everything that it is told."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.received: list[tuple[bytes, Any]] = []
        self.errors: list[Exception] = []
        self.flow: list[str] = []
        self.lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.arrived = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.append((data, addr))
        self.arrived.set()

    def error_received(self, exc: Exception) -> None:
        self.errors.append(exc)
        self.arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)

    def pause_writing(self) -> None:
        self.flow.append("pause")

    def resume_writing(self) -> None:
        self.flow.append("resume")
        self.arrived.set()

    async def wait_received(self, count: int) -> list[tuple[bytes, Any]]:
        while len(self.received) < count:
            self.arrived.clear()
            await self.arrived.wait()
        return self.received


class Echo(Recorder):
    def datagram_received(self, data: bytes, addr: Any) -> None:
        super().datagram_received(data, addr)
        self.transport.sendto(data, addr)


async def endpoint(factory: Any = Recorder, **kwargs: Any) -> tuple[Any, Any]:
    return await asyncio.get_running_loop().create_datagram_endpoint(factory, **kwargs)


async def finish(*protocols: Recorder) -> None:
    for protocol in protocols:
        protocol.transport.close()
        await protocol.lost


def bound(name: Any) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if name is not None:
        sock.bind(name)
    sock.setblocking(False)
    return sock


def fill(transport: Any, size: int = 1000) -> int:
    """Send until something is queued; returns how many datagrams were sent or queued."""
    count = 0
    while not transport.get_write_buffer_size():
        transport.sendto(count.to_bytes(4, "big") + b"x" * (size - 4))
        count += 1
        assert count < 10_000
    return count


async def blocked_pair(factory: Any = Recorder) -> tuple[Any, Any, socket.socket]:
    """A connected Unix datagram transport whose peer reads only when the test does."""
    name = f"\0oneloop-blocked-{os.getpid()}".encode()
    peer = bound(name)
    ours = bound(None)
    ours.connect(name)
    transport, recorder = await endpoint(factory, sock=ours)
    return transport, recorder, peer


def drain(peer: socket.socket) -> list[int]:
    numbers = []
    while True:
        try:
            numbers.append(int.from_bytes(peer.recv(65536)[:4], "big"))
        except BlockingIOError:
            return numbers
