"""Handshakes with faults in them: 10,000 mutations, and peers that are slow. None spins, leaks, or lies about the data.

The peer is OpenSSL in memory, alive, so that faults in late flights are reached, too: one flight of it is mutated, and
what it sends afterwards fits or does not. Time is virtual: what waits for more than comes ends by the handshake's limit
at once; so these tests are no coroutines, which have a limit in the loop's time.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import socket
import ssl
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from oneloop import testing
from tests import descriptors
from tests.conftest import settle
from tests.protocols import Recorder
from tests.tls.authority import HOST, Authority
from tests.tls.buffers import ViewRecorder
from tests.tls.endpoint import BLOCK, settled
from tests.tls.mutations import MUTATIONS

WORDS = b"the words of a peer " * 100
COUNT = 2500
"""Of mutations, for each side and version: 10,000 in all."""
MOST_FLIGHTS = 8
MOST_TICKS = 300
"""A handshake takes some 20; a bad one may wait for a limit or two."""

SIDES = pytest.mark.parametrize("server_side", [True, False], ids=["our server", "our client"])


class Faulty:
    """A peer in memory; what it sends in its flight number `at` is mutated."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, at: int, chance: random.Random) -> None:
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_client = context.protocol is ssl.PROTOCOL_TLS_CLIENT
        host = HOST if is_client else None
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=not is_client, server_hostname=host)
        self.at = at
        self.chance = chance
        self.mutation = chance.choice(MUTATIONS)
        self.flights = 0
        self.has_said_words = False
        self.is_broken = False

    def step(self) -> None:
        """As far as it comes with what is there; its words and its goodbye follow its handshake."""
        try:
            if not self.has_said_words:
                self.tls.do_handshake()
                self.tls.write(WORDS)
                self.has_said_words = True
                self.tls.unwrap()
            while self.tls.read(BLOCK):
                pass
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            # It has found our answer wrong. The alert is its last word.
            self.is_broken = True

    def flight(self) -> bytes:
        data = self.outgoing.read()
        if data:
            if self.flights == self.at:
                data = self.mutation(data, self.chance)
            self.flights += 1
        return data

    async def run(self) -> None:
        """Until the other side closes; or it closes itself, in half of the cases after its faulty flight."""
        loop = asyncio.get_running_loop()
        ends_early = self.chance.random() < 0.5
        with contextlib.suppress(ConnectionError), self.sock:
            while self.flights <= MOST_FLIGHTS:
                self.step()
                if data := self.flight():
                    await loop.sock_sendall(self.sock, data)
                if self.is_broken or (ends_early and self.flights > self.at):
                    break
                async with asyncio.timeout(100):
                    data = await loop.sock_recv(self.sock, BLOCK)
                if not data:
                    break
                self.incoming.write(data)


@pytest.fixture
def loop_name() -> str:
    return "oneloop"


@pytest.fixture
def loop_factory() -> Any:
    """Virtual time, which stock asyncio does not have."""
    return testing.new_event_loop


def is_clear(error: BaseException | None) -> bool:
    """What a program may be told: the fault as TLS has it, or that the connection is gone, or that it took too long."""
    return error is None or isinstance(error, (ssl.SSLError, ConnectionError, TimeoutError))


async def attempt(
    loop: Any, contexts: tuple[ssl.SSLContext, ssl.SSLContext], server_side: bool, number: int
) -> tuple[str, Recorder]:
    """One connection with a fault in it; what became of it."""
    chance = random.Random(number)
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    protocol = chance.choice([Recorder, ViewRecorder])()
    peer = Faulty(theirs, contexts[1 if server_side else 0], chance.choice([0, 0, 1, 1, 2]), chance)
    if server_side:
        making = loop.connect_accepted_socket(lambda: protocol, ours, ssl=contexts[0])
    else:
        making = loop.create_connection(lambda: protocol, sock=ours, ssl=contexts[1], server_hostname=HOST)
    task = loop.create_task(making)
    talking = loop.create_task(peer.run())
    await asyncio.wait([task, talking])
    if talking.exception() is not None:
        assert isinstance(talking.exception(), TimeoutError)
    error = task.exception()
    assert is_clear(error), error
    if error is None:
        transport = task.result()[0]
        transport.close()
        assert is_clear(await protocol.wait_lost()), protocol.error
        del transport
    assert WORDS.startswith(protocol.received)
    assert protocol.calls == [] or protocol.calls.count("connection_made") == 1
    assert protocol.calls.count("connection_lost") == protocol.calls.count("connection_made")
    protocol.transport = None
    what = type(error or protocol.error).__name__ if error or protocol.error else "no error"
    return what, protocol


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.time_limit(180)
@SIDES
def test_mutations(loop: Any, authority: Authority, version: str, server_side: bool) -> None:
    gc.collect()
    contexts = authority.server_context(version), authority.client_context(version)
    seen: Counter[str] = Counter()
    living: weakref.WeakSet[Recorder] = weakref.WeakSet()
    before = 0, 0
    open_before: dict[int, str] = {}
    for number in range(COUNT):
        if number == COUNT // 2:
            # What a first half has left in caches, the second does not leave again.
            gc.collect()
            before = len(gc.get_objects()), resident_bytes()
            open_before = descriptors.open_descriptors()
        ticks = loop.statistics().ticks
        try:
            what, protocol = loop.run_until_complete(attempt(loop, contexts, server_side, number))
        except BaseException as exc:
            exc.add_note(f"mutation {number}")
            raise
        living.add(protocol)
        del protocol
        seen[what] += 1
        assert loop.statistics().ticks - ticks < MOST_TICKS, f"mutation {number} spins"
    loop.run_until_complete(settled())
    gc.collect()
    assert not descriptors.opened_since(open_before)
    assert loop.statistics().open_transports == 0
    assert not living
    assert len(gc.get_objects()) - before[0] < 200
    assert resident_bytes() - before[1] < 8 << 20
    # Faults were found, some by waiting in vain; and some were none.
    assert seen["SSLError"] > COUNT // 10, seen
    assert seen["ConnectionResetError"], seen
    assert seen["ConnectionAbortedError"], seen
    assert seen["no error"], seen


@SIDES
@pytest.mark.parametrize("piece", [1, 4, 5, 6, 100])
async def test_a_peer_that_speaks_slowly(
    loop: Any, authority: Authority, version: str, server_side: bool, piece: int
) -> None:
    """Its handshake, its words and its goodbye come in pieces; a turn of the loop or more lies between them."""
    contexts = authority.server_context(version), authority.client_context(version)
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    if server_side:
        making = loop.connect_accepted_socket(Recorder, ours, ssl=contexts[0])
    else:
        making = loop.create_connection(Recorder, sock=ours, ssl=contexts[1], server_hostname=HOST)
    task = loop.create_task(making)
    peer = Faulty(theirs, contexts[1 if server_side else 0], -1, random.Random(0))
    with theirs:
        while not (peer.has_said_words and task.done()):
            peer.step()
            data = peer.flight()
            for start in range(0, len(data), piece):
                theirs.send(data[start : start + piece])
                await asyncio.sleep(0)
            await settle(4)
            with contextlib.suppress(BlockingIOError):
                peer.incoming.write(theirs.recv(BLOCK))
        transport, protocol = task.result()
        assert await protocol.wait_received(len(WORDS)) == WORDS
        transport.abort()
        await protocol.wait_lost()


@SIDES
def test_a_stream_that_ends_anywhere(loop: Any, authority: Authority, version: str, server_side: bool) -> None:
    """At each byte of the peer's first flight, and at many of its second."""
    loop.run_until_complete(end_anywhere(loop, authority, version, server_side))


async def end_anywhere(loop: Any, authority: Authority, version: str, server_side: bool) -> None:
    contexts = authority.server_context(version), authority.client_context(version)
    for at in (0, 1):
        cut = 0
        is_whole = False
        while not is_whole:
            ours, theirs = socket.socketpair()
            for end in (ours, theirs):
                end.setblocking(False)
            protocol = Recorder()
            if server_side:
                making = loop.connect_accepted_socket(lambda p=protocol: p, ours, ssl=contexts[0])
            else:
                making = loop.create_connection(lambda p=protocol: p, sock=ours, ssl=contexts[1], server_hostname=HOST)
            task = loop.create_task(making)
            peer = Faulty(theirs, contexts[1 if server_side else 0], at, random.Random(0))
            sizes: list[int] = []

            def shortened(data: bytes, _chance: Any, sizes: list[int] = sizes, cut: int = cut) -> bytes:
                sizes.append(len(data))
                return data[:cut]

            peer.mutation = shortened
            peer.chance.random = lambda: 0.0  # type: ignore[method-assign]
            await peer.run()
            await asyncio.wait([task])
            error = task.exception()
            assert is_clear(error)
            if error is None:
                task.result()[0].abort()
                assert is_clear(await protocol.wait_lost())
            is_whole = not sizes or cut >= sizes[0]
            cut += 1 if at == 0 else 7
    await settled()
