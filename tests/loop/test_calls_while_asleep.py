"""Calls from another thread while the loop sleeps in its poll: each does what it does on asyncio, and nothing spins.

asyncio's `call_soon` and what stands on it do not wake a loop; `sleeping.wake()` does that where it matters.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import warnings
from typing import Any

import pytest

from tests import descriptors
from tests.loop.conftest import Pair
from tests.loop.sleeping import FEW_POLLS, LIMIT_S, Sleeping
from tests.peers import Peer, connect
from tests.protocols import Recorder


@pytest.fixture
def sleeping(loop: asyncio.AbstractEventLoop) -> Sleeping:
    return Sleeping(loop)


class Threadsafe(Recorder):
    """A recorder whose calls other threads can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.told = {"data_received": threading.Event(), "connection_lost": threading.Event()}

    def _note(self, call: str) -> None:
        super()._note(call)
        if call in self.told:
            self.told[call].set()


def connected(loop: asyncio.AbstractEventLoop, kind: str = "unix") -> tuple[Any, Threadsafe, Peer]:
    return loop.run_until_complete(connect(kind, Threadsafe))


def finish(loop: asyncio.AbstractEventLoop, transport: Any, peer: Peer) -> None:
    transport.abort() if not transport.is_closing() else None
    peer.close()

    async def settle() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    loop.run_until_complete(settle())


@pytest.mark.parametrize("kind", ["reader", "writer"])
def test_adding(loop: asyncio.AbstractEventLoop, sleeping: Sleeping, pair: Pair, kind: str) -> None:
    ours, theirs = pair
    called = threading.Event()

    def ready() -> None:
        getattr(loop, f"remove_{kind}")(ours)
        called.set()

    def act() -> None:
        getattr(loop, f"add_{kind}")(ours, ready)
        theirs.send(b"x")
        assert called.wait(LIMIT_S)

    sleeping.while_asleep(act)


def test_adding_to_a_descriptor_that_is_watched_already(
    loop: asyncio.AbstractEventLoop, sleeping: Sleeping, pair: Pair
) -> None:
    ours, theirs = pair
    called: list[str] = []
    both = threading.Event()

    def ready(kind: str) -> None:
        called.append(kind)
        getattr(loop, f"remove_{kind}")(ours)
        if len(called) == 2:
            both.set()

    def act() -> None:
        loop.add_writer(ours, ready, "writer")
        theirs.send(b"x")
        assert both.wait(LIMIT_S)

    loop.add_reader(ours, ready, "reader")
    sleeping.while_asleep(act)
    assert sorted(called) == ["reader", "writer"]


def test_removing_a_reader(loop: asyncio.AbstractEventLoop, sleeping: Sleeping, pair: Pair) -> None:
    ours, theirs = pair

    def act() -> None:
        assert loop.remove_reader(ours) is True
        theirs.send(b"x")
        sleeping.wake()
        assert loop.remove_reader(ours) is False

    loop.add_reader(ours, pytest.fail, "removed, but called")
    sleeping.while_asleep(act)


def test_removing_a_writer(loop: asyncio.AbstractEventLoop, sleeping: Sleeping, pair: Pair) -> None:
    ours, theirs = pair
    with pytest.raises(BlockingIOError):
        while True:
            ours.send(bytes(1 << 16))

    def act() -> None:
        assert loop.remove_writer(ours) is True
        with pytest.raises(BlockingIOError):
            while True:
                theirs.recv(1 << 16)
        sleeping.wake()

    loop.add_writer(ours, pytest.fail, "removed, but called")
    sleeping.while_asleep(act)


def test_removing_and_closing(loop: asyncio.AbstractEventLoop, sleeping: Sleeping) -> None:
    """The number may be somebody else's a moment later."""
    ours, theirs = socket.socketpair()

    def act() -> None:
        loop.remove_reader(ours)
        theirs.send(b"x")
        ours.close()
        theirs.close()

    loop.add_reader(ours, pytest.fail, "removed, but called")
    ours.setblocking(False)
    sleeping.while_asleep(act)


def test_pausing_and_resuming(loop: asyncio.AbstractEventLoop, sleeping: Sleeping) -> None:
    transport, protocol, peer = connected(loop)

    def act() -> None:
        transport.pause_reading()
        peer.send(b"held")
        sleeping.wake()
        assert protocol.received == b""
        sleeping.wait()
        transport.resume_reading()
        assert protocol.told["data_received"].wait(LIMIT_S)
        assert protocol.received == b"held"

    sleeping.while_asleep(act)
    finish(loop, transport, peer)


@pytest.mark.parametrize("kind", ["unix", "tcp", "pipe"])
@pytest.mark.parametrize("size", [1, 5_000, 5_000_000])
def test_writing(loop: asyncio.AbstractEventLoop, sleeping: Sleeping, kind: str, size: int) -> None:
    """What the kernel does not take at once the loop sends when it can."""
    transport, _, peer = connected(loop, kind)
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    def act() -> None:
        transport.write(data)
        assert peer.take(size) == data

    # A large write polls as often as the peer makes room.
    sleeping.while_asleep(act, 10_000 if size > 1_000_000 else FEW_POLLS)
    finish(loop, transport, peer)


def test_several_writes(loop: asyncio.AbstractEventLoop, sleeping: Sleeping) -> None:
    transport, _, peer = connected(loop)

    def act() -> None:
        for _ in range(3):
            transport.write(b"one,")
            transport.write(b"two,")
            assert peer.take(8) == b"one,two,"

    sleeping.while_asleep(act)
    finish(loop, transport, peer)


@pytest.mark.parametrize("kind", ["unix", "tcp", "pipe"])
@pytest.mark.parametrize("end", ["close", "abort"])
def test_ending(loop: asyncio.AbstractEventLoop, sleeping: Sleeping, kind: str, end: str) -> None:
    transport, protocol, peer = connected(loop, kind)

    def act() -> None:
        transport.write(b"last words")
        getattr(transport, end)()
        assert transport.is_closing()
        sleeping.wake()
        assert protocol.told["connection_lost"].wait(LIMIT_S)
        assert peer.take_all() == b"last words"

    sleeping.while_asleep(act)
    assert protocol.calls.count("connection_lost") == 1
    finish(loop, transport, peer)


def test_ending_while_the_peer_sends(loop: asyncio.AbstractEventLoop, sleeping: Sleeping) -> None:
    transport, protocol, peer = connected(loop)

    def act() -> None:
        peer.send(b"x")
        transport.abort()
        sleeping.wake()
        assert protocol.told["connection_lost"].wait(LIMIT_S)

    sleeping.while_asleep(act)
    finish(loop, transport, peer)


@pytest.mark.parametrize("call", ["call_soon", "call_later", "call_at"])
def test_scheduling(loop: asyncio.AbstractEventLoop, sleeping: Sleeping, call: str) -> None:
    ran = threading.Event()

    def act() -> None:
        if call == "call_soon":
            loop.call_soon(ran.set)
        elif call == "call_later":
            loop.call_later(0.001, ran.set)
        else:
            loop.call_at(loop.time(), ran.set)
        sleeping.wake()
        assert ran.wait(LIMIT_S)

    sleeping.while_asleep(act)


def test_cancelling(loop: asyncio.AbstractEventLoop, sleeping: Sleeping) -> None:
    timer = loop.call_later(3600, print)
    sleeping.while_asleep(timer.cancel)
    assert timer.cancelled()


@pytest.mark.parametrize("call", ["call_soon", "call_later", "call_at"])
def test_debug_mode_refuses(loop: asyncio.AbstractEventLoop, sleeping: Sleeping, call: str) -> None:
    def act() -> None:
        arguments = (print,) if call == "call_soon" else (0, print)
        with pytest.raises(RuntimeError, match="Non-thread-safe operation"):
            getattr(loop, call)(*arguments)

    loop.set_debug(True)
    sleeping.while_asleep(act)
    loop.set_debug(False)


@pytest.mark.skipif(not hasattr(asyncio.StreamWriter, "__del__"), reason="StreamWriter closes itself from 3.11.5 on")
def test_a_forgotten_stream_writer_is_collected_in_a_thread(
    loop: asyncio.AbstractEventLoop, sleeping: Sleeping, pair: Pair
) -> None:
    ours, theirs = pair
    kept: list[Any] = []
    lost = threading.Event()
    copy = ours.dup()
    number = copy.fileno()
    target = descriptors.open_descriptors()[number]

    class Noting(asyncio.StreamReaderProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    async def start() -> None:
        reader = asyncio.StreamReader()
        transport, protocol = await loop.create_connection(lambda: Noting(reader), sock=copy)
        cycle: list[Any] = [asyncio.StreamWriter(transport, protocol, reader, loop)]
        cycle.append(cycle)
        kept.append(cycle)  # the collector finds it, in whatever thread it runs
        await asyncio.sleep(0)

    def act() -> None:
        kept.clear()
        gc.collect()
        sleeping.wake()
        assert lost.wait(LIMIT_S)
        sleeping.wake()
        assert descriptors.open_descriptors().get(number) != target
        theirs.send(b"for nobody")

    loop.run_until_complete(start())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        sleeping.while_asleep(act)
