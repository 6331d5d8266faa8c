"""S4: no byte ever reaches another connection, whatever is closed, aborted and cancelled while numbers are reused.

Random interleavings of opening, writing, closing, aborting, resetting and cancelling over many connections, on plain
transports, sock_* calls and readers, in one process with few descriptors, so that the kernel hands out each number
again and again. Every connection writes only its own letter pattern; a receiver that sees another pattern has got
another connection's bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import descriptors
from tests.conftest import settle
from tests.loops import LoopFactory

HARD_CLOSE = struct.pack("ii", 1, 0)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.integers(0, 7), st.sampled_from(["transport", "sock", "reader"])),
        st.tuples(st.just("write"), st.integers(0, 7), st.sampled_from([1, 100, 5000, 300_000])),
        st.tuples(st.just("answer"), st.integers(0, 7), st.sampled_from([1, 100, 5000, 300_000])),
        st.tuples(st.just("close"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("abort"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("reset"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("pause"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("resume"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("cancel"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("tick"), st.integers(0, 2), st.just(0)),
    ),
    min_size=5,
    max_size=80,
)


class Connection:
    """One end on the loop under test, the other a plain socket; both only ever send this connection's pattern."""

    def __init__(self, world: World, serial: int, style: str) -> None:
        self.world = world
        self.loop = world.loop
        self.pattern = struct.pack("!I", serial)
        self.style = style
        self.is_open = True
        self.received = 0
        self.sent_by_peer = 0
        self.task: asyncio.Task[None] | None = None
        self.transport: Any = None
        self.ours, self.theirs = socket.socketpair()
        for end in (self.ours, self.theirs):
            end.setblocking(False)

    async def start(self) -> None:
        if self.style == "transport":
            self.transport, _ = await self.loop.create_connection(lambda: Watcher(self), sock=self.ours)
        elif self.style == "sock":
            self.task = self.loop.create_task(self.receive())
        else:
            self.loop.add_reader(self.ours.fileno(), self.on_readable)

    async def receive(self) -> None:
        with contextlib.suppress(OSError):
            while data := await self.loop.sock_recv(self.ours, 65536):
                self.check(data)

    def on_readable(self) -> None:
        with contextlib.suppress(OSError):
            data = self.ours.recv(65536)
            if not data:
                self.loop.remove_reader(self.ours.fileno())
            self.check(data)

    def check(self, data: bytes) -> None:
        """Every byte is the one that this connection's pattern has at this place."""
        start = self.received % 4
        expected = (self.pattern * (len(data) // 4 + 2))[start : start + len(data)]
        if data != expected:
            self.world.strangers.append((self.pattern, data[:20]))
        self.received += len(data)
        if not self.is_open and self.style != "transport":
            self.world.strangers.append((self.pattern, b"called after it was closed"))

    def answer(self, size: int) -> None:
        """The peer sends; what it cannot send at once it does not."""
        start = self.sent_by_peer % 4
        data = (self.pattern * (size // 4 + 2))[start : start + size]
        with contextlib.suppress(OSError):
            self.sent_by_peer += self.theirs.send(data)

    def write(self, size: int) -> None:
        if self.style == "transport" and not self.transport.is_closing():
            self.transport.write(self.pattern * (size // 4 + 1))
        elif self.style != "transport" and self.is_open:
            with contextlib.suppress(OSError):
                self.ours.send(self.pattern)

    def drain_peer(self, collected: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := self.theirs.recv(1 << 20):
                collected += data

    def close(self, how: str) -> None:
        """Close our end in one of several ways; descriptors are free for reuse at once or soon after."""
        if not self.is_open:
            return
        self.is_open = False
        if how == "reset":
            with contextlib.suppress(OSError):
                self.theirs.close()
        if self.style == "transport":
            if how == "abort":
                self.transport.abort()
            else:
                self.transport.close()
        elif self.style == "sock":
            assert self.task is not None
            self.task.cancel()
            # The order that a program must not use, and does: the socket goes while the loop still waits on it.
            self.ours.close()
        else:
            self.loop.remove_reader(self.ours.fileno())
            self.ours.close()
        # What the peer got so far is ours alone.
        collected = bytearray()
        if how != "reset":
            self.drain_peer(collected)
            stranger = collected.replace(self.pattern, b"")
            if len(stranger) >= 4:
                self.world.strangers.append((self.pattern, bytes(stranger[:20])))
            self.theirs.close()


class Watcher(asyncio.Protocol):
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        if self.is_lost:
            self.connection.world.strangers.append((self.connection.pattern, b"data after connection_lost"))
        self.connection.check(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_lost:
            self.connection.world.strangers.append((self.connection.pattern, b"lost twice"))
        self.is_lost = True


class World:
    """Eight places for connections; a place that is opened again gets a new connection with a new pattern."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.places: dict[int, Connection] = {}
        self.serial = 0x41424300
        self.strangers: list[tuple[bytes, bytes]] = []
        self.all: list[Connection] = []

    async def step(self, name: str, place: int, argument: Any) -> None:
        if name == "tick":
            await settle(place + 1)
            return
        connection = self.places.get(place)
        if name == "open":
            if connection is not None:
                connection.close("close")
            self.serial += 1
            connection = self.places[place] = Connection(self, self.serial, argument)
            self.all.append(connection)
            await connection.start()
        elif connection is None or not connection.is_open:
            return
        elif name == "write":
            connection.write(argument)
        elif name == "answer":
            connection.answer(argument)
        elif name in ("close", "abort", "reset"):
            connection.close(name)
        elif name == "cancel" and connection.task is not None:
            connection.task.cancel()
            connection.task = self.loop.create_task(connection.receive())
        elif name in ("pause", "resume") and connection.style == "transport":
            getattr(connection.transport, f"{name}_reading")()

    async def end(self) -> None:
        for connection in self.places.values():
            connection.close("abort")
        tasks = [connection.task for connection in self.all if connection.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for connection in self.all:
            # A transport that closes with a queue which nobody reads would wait for ever.
            if connection.transport is not None and connection.transport.get_write_buffer_size():
                connection.transport.abort()
        await settle()


async def play(loop: asyncio.AbstractEventLoop, steps: list[tuple[str, int, Any]]) -> None:
    world = World(loop)
    try:
        for step in steps:
            await world.step(*step)
    finally:
        await world.end()
    assert world.strangers == []
    # Bytes are not lost either: a transport that was open saw everything, or was closed before.
    for connection in world.all:
        assert connection.received <= connection.sent_by_peer


@pytest.mark.parametrize("examples", [150])
def test_no_byte_reaches_another_connection(loop_factory: LoopFactory, examples: int) -> None:
    loop = loop_factory()
    loop.set_exception_handler(lambda _, context: None)
    # What the loop opens at its first run is open before the count.
    loop.run_until_complete(asyncio.sleep(0))
    before: dict[int, str] = {}

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(STEPS)
    def property_holds(steps: list[tuple[str, int, Any]]) -> None:
        gc.collect(0)
        before.clear()
        before.update(descriptors.open_descriptors())
        loop.run_until_complete(play(loop, steps))
        gc.collect(0)
        assert not descriptors.opened_since(before)

    try:
        property_holds()
    finally:
        loop.close()


def test_numbers_are_reused_hard(loop_factory: LoopFactory) -> None:
    """Thousands of connections over a handful of numbers, each closed while its events are on the way."""
    loop = loop_factory()
    loop.set_exception_handler(lambda _, context: None)
    styles = ("transport", "sock", "reader")
    ways = ("close", "abort", "reset")

    async def churn() -> int:
        world = World(loop)
        numbers: set[int] = set()
        for turn in range(3000):
            place = turn % 5
            await world.step("open", place, styles[turn % 3])
            numbers.add(world.places[place].ours.fileno())
            world.places[place].answer(1 + turn % 700)
            await world.step("write", (turn + 2) % 5, 100)
            if turn % 2:
                await asyncio.sleep(0)
            # Another connection's end is closed just when its bytes are about to be told of.
            other = (turn + 3) % 5
            if other in world.places:
                world.places[other].answer(50)
                world.places[other].close(ways[turn % 3])
        await world.end()
        assert world.strangers == []
        return len(numbers)

    try:
        assert loop.run_until_complete(churn()) < 100
    finally:
        loop.close()
