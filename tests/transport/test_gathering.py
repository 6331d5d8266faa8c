"""Writes of one callback that are sent together have left before anything else runs, as if each had gone at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.protocols import Recorder
from tests.transport.conftest import Connect

PIECES = (b"one ", b"two ", b"three")


def write(transport: asyncio.BaseTransport) -> None:
    assert isinstance(transport, asyncio.WriteTransport)
    for piece in PIECES:
        transport.write(piece)


class Writer(Recorder):
    """Writes when it is connected, or when something comes."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.when == "made":
            write(transport)

    def data_received(self, data: bytes) -> None:
        write(self.transport)
        asyncio.get_running_loop().stop()


class Scene:
    """A transport, its peer, and a second pair of sockets to start readers with."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ours: socket.socket, peer: socket.socket, when: str) -> None:
        self.loop, self.peer = loop, peer
        self.seen = b""
        self.transport: Any
        self.transport, _ = loop.run_until_complete(loop.create_connection(lambda: Writer(when), sock=ours))

    def look(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.seen = self.peer.recv(100)
        self.loop.stop()


@pytest.fixture
def pairs(audit: None) -> Iterator[list[socket.socket]]:
    made = [*socket.socketpair(), *socket.socketpair()]
    for each in made:
        each.setblocking(False)
    yield made
    for each in made:
        each.close()


@pytest.mark.parametrize("way", ["soon", "later", "reader", "protocol", "made"])
def test_the_next_callback_finds_them_gone(
    loop: asyncio.AbstractEventLoop, pairs: list[socket.socket], way: str
) -> None:
    ours, peer, watched, signalling = pairs
    scene = Scene(loop, ours, peer, way)

    def write_in_reader() -> None:
        loop.remove_reader(watched)
        write(scene.transport)
        loop.call_soon(scene.look)

    if way == "soon":
        loop.call_soon(write, scene.transport)
        loop.call_soon(scene.look)
    elif way == "later":
        due = loop.time() + 0.01
        loop.call_at(due, write, scene.transport)
        loop.call_at(due, scene.look)
    elif way == "reader":
        loop.add_reader(watched, write_in_reader)
        signalling.send(b"x")
    elif way == "protocol":
        peer.send(b"x")
        loop.run_forever()
        scene.look()
    else:
        scene.look()
    loop.run_forever()
    assert scene.seen == b"".join(PIECES)
    scene.transport.close()
    loop.run_until_complete(asyncio.sleep(0))


@pytest.mark.parametrize("ending", ["abort", "close", "write_eof"])
async def test_what_ends_a_connection_comes_after_what_was_written(
    loop: asyncio.AbstractEventLoop, connect: Connect, ending: str
) -> None:
    async with connect() as (transport, _, peer):
        await asyncio.sleep(0)
        write(transport)
        getattr(transport, ending)()
        received = b""
        while data := await loop.sock_recv(peer, 100):
            received += data
        assert received == b"".join(PIECES)


async def test_what_looks_at_a_connection_comes_after_what_was_written(
    loop: asyncio.AbstractEventLoop, connect: Connect
) -> None:
    async with connect() as (transport, _, peer):
        await asyncio.sleep(0)
        write(transport)
        assert transport.get_write_buffer_size() == 0
        assert peer.recv(100) == b"".join(PIECES)
        write(transport)
        os.write(transport.get_extra_info("socket").fileno(), b" four")
        assert peer.recv(100) == b"".join(PIECES) + b" four"
