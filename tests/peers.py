"""The other end of a connection, read without the loop: what a peer can read at a certain moment.

A peer reads in the test's own thread while the loop waits for it. So what it gets was sent before, and not by anything
that the loop does later. What never comes ends the wait after `LIMIT_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.conftest import settle
from tests.protocols import Recorder
from tests.transport.conftest import socket_pair

LIMIT_S = 60.0
KINDS = ("unix", "tcp", "pipe")


class Peer:
    """The reading side of a descriptor that a transport of the loop writes to."""

    def __init__(self, end: socket.socket | Any) -> None:
        self.end = end
        os.set_blocking(end.fileno(), False)

    def take(self, count: int) -> bytes:
        """The next `count` bytes; fewer at the end of the stream, or if no more come within the limit."""
        taken = bytearray()
        while len(taken) < count and self.is_readable(LIMIT_S):
            data = os.read(self.end.fileno(), count - len(taken))
            if not data:
                break
            taken += data
        return bytes(taken)

    def take_all(self) -> bytes:
        """All bytes up to the end of the stream, or up to a reset."""
        taken = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while True:
                if not self.is_readable(LIMIT_S):
                    raise TimeoutError(f"no end of the stream after {bytes(taken)[-100:]!r}")
                data = os.read(self.end.fileno(), 1 << 16)
                if not data:
                    break
                taken += data
        return bytes(taken)

    def is_readable(self, limit_s: float = 0) -> bool:
        return bool(select.select([self.end], [], [], limit_s)[0])

    def send(self, data: bytes) -> None:
        assert os.write(self.end.fileno(), data) == len(data)

    def close(self) -> None:
        self.end.close()


async def connect(kind: str, factory: Callable[[], Any] = Recorder) -> tuple[Any, Any, Peer]:
    """A transport to write to, its protocol, and the peer."""
    loop = asyncio.get_running_loop()
    if kind == "pipe":
        reading, writing = os.pipe()
        transport, protocol = await loop.connect_write_pipe(factory, os.fdopen(writing, "wb", buffering=0))
        return transport, protocol, Peer(os.fdopen(reading, "rb", buffering=0))
    ours, theirs = socket_pair(kind)
    made, protocol = await loop.create_connection(factory, sock=ours)
    return made, protocol, Peer(theirs)


@asynccontextmanager
async def connected(kind: str, factory: Callable[[], Any] = Recorder) -> AsyncIterator[tuple[Any, Any, Peer]]:
    """The same, closed afterwards."""
    transport, protocol, peer = await connect(kind, factory)
    try:
        yield transport, protocol, peer
    finally:
        peer.close()
        if not transport.is_closing() or transport.get_write_buffer_size():
            transport.abort()
        await settle(4)
