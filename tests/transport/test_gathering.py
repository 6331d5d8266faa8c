"""Writes of one callback that are sent together have left before anything else runs, as if each had gone at once."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.protocols import Recorder

PIECES = (b"one ", b"two ", b"three")


@pytest.mark.parametrize("way", ["soon", "later", "reader", "protocol", "made"])
def test_the_next_callback_finds_them_gone(loop: asyncio.AbstractEventLoop, way: str) -> None:
    """However the callback came to run; the next one is of the same tick."""
    ours, peer = socket.socketpair()
    watched, signalling = socket.socketpair()
    for each in (peer, watched, signalling):
        each.setblocking(False)
    seen: list[bytes] = []

    def write(target: Any) -> None:
        for piece in PIECES:
            target.write(piece)

    def look() -> None:
        loop.remove_reader(watched)
        try:
            seen.append(peer.recv(100))
        except BlockingIOError:
            seen.append(b"")
        loop.stop()

    class Writer(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            if way == "made":
                write(transport)

        def data_received(self, data: bytes) -> None:
            write(transport)
            look()

    def write_in_reader() -> None:
        loop.remove_reader(watched)
        write(transport)

    transport, _ = loop.run_until_complete(loop.create_connection(Writer, sock=ours))
    if way == "soon":
        loop.call_soon(write, transport)
        loop.call_soon(look)
    elif way == "later":
        loop.call_later(0.01, write, transport)
        loop.call_later(0.01, look)
    elif way == "reader":
        loop.add_reader(watched, write_in_reader)
        loop.call_later(0.05, look)
        signalling.send(b"x")
    elif way == "protocol":
        # The second look, a tick later: within the callback they may still be gathered.
        peer.send(b"x")
        loop.run_forever()
        loop.call_soon(look)
    else:
        loop.call_soon(look)
    loop.run_forever()
    assert b"".join(seen) == b"".join(PIECES)
    transport.close()
    loop.run_until_complete(asyncio.sleep(0))
    for each in (peer, watched, signalling):
        each.close()
