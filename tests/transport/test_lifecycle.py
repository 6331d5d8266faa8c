"""The end of every kind of transport: once, and to its last step, whatever fails on the way, in whatever order."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import settle
from tests.loops import LoopFactory
from tests.peers import Peer, connect
from tests.protocols import Recorder
from tests.transport.conftest import socket_pair

HARD_CLOSE = struct.pack("ii", 1, 0)
KINDS = ("unix", "tcp", "datagram", "read pipe", "write pipe")


class Everything(Recorder, asyncio.DatagramProtocol):
    """A recorder for datagrams too."""


async def opened(kind: str) -> tuple[Any, Everything, Any, Any]:
    """A transport, its protocol, the object that it was made of, and the other end."""
    loop = asyncio.get_running_loop()
    if kind in ("read pipe", "write pipe"):
        ends = os.pipe()
        reading, writing = os.fdopen(ends[0], "rb", buffering=0), os.fdopen(ends[1], "wb", buffering=0)
        if kind == "read pipe":
            made: Any = await loop.connect_read_pipe(Everything, reading)
            return (*made, reading, writing)
        made = await loop.connect_write_pipe(Everything, writing)
        return (*made, writing, reading)
    if kind == "datagram":
        ours, theirs = socket.socketpair(type=socket.SOCK_DGRAM)
        ours.setblocking(False)
        made = await loop.create_datagram_endpoint(Everything, sock=ours)
        return (*made, ours, theirs)
    ours, theirs = socket_pair(kind)
    made = await loop.create_connection(Everything, sock=ours)
    return (*made, ours, theirs)


def write(kind: str, transport: Any) -> None:
    if kind == "datagram":
        transport.sendto(b"for nobody")
    elif kind != "read pipe":
        transport.write(b"for nobody")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ends", [["close"], ["abort"], ["write", "close"], ["write", "abort"], ["close", "abort"]])
async def test_a_descriptor_that_is_closed_behind_a_transport(
    loop: asyncio.AbstractEventLoop, reported: Any, kind: str, ends: list[str]
) -> None:
    """No call raises, and connection_lost comes once. What stock asyncio reports of its own close does not count."""
    transport, protocol, ours, theirs = await opened(kind)
    os.close(ours.fileno())
    if isinstance(ours, socket.socket):
        ours.detach()  # as the number is gone
    for end in ends:
        end_by(end, kind, transport)
    await protocol.wait_lost()
    await settle()
    assert protocol.calls.count("connection_lost") == 1
    theirs.close()
    reported.take()
    with contextlib.suppress(OSError):
        ours.close()
    if "pipe" in kind:
        transport._pipe = None  # stock asyncio's has not come to that line


def pair_at(number: int) -> tuple[socket.socket, socket.socket]:
    """A new pair of sockets of which the first has this number, which is free."""
    ours, theirs = sorted(socket.socketpair(), key=lambda end: end.fileno() != number)
    if ours.fileno() != number:
        with ours:
            os.dup2(ours.fileno(), number, inheritable=False)
        ours = socket.socket(fileno=number)
    for end in (ours, theirs):
        end.setblocking(False)
    return ours, theirs


def end_by(end: str, kind: str, transport: Any) -> None:
    if end == "write":
        write(kind, transport)
    elif end == "close" or kind in ("read pipe", "write pipe"):
        transport.close()
    else:
        transport.abort()


@pytest.mark.oneloop_only("stock asyncio's transport goes on to use the number, whoever has it by then")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ends", [["close"], ["abort"], ["write", "close"], ["write", "write"]])
async def test_the_next_owner_of_a_number_is_left_alone(
    loop: asyncio.AbstractEventLoop, reported: Any, kind: str, ends: list[str]
) -> None:
    """The transport's object is closed and somebody else has its number: no byte, no close, no end for them."""
    transport, protocol, ours, theirs = await opened(kind)
    number = ours.fileno()
    ours.close()
    next_ours, next_theirs = pair_at(number)
    with next_ours, next_theirs:
        for end in ends:
            end_by(end, kind, transport)
        await settle()
        transport.close()
        await protocol.wait_lost()
        await settle()
        assert protocol.calls.count("connection_lost") == 1
        with pytest.raises(BlockingIOError):
            next_theirs.recv(100)
        next_theirs.send(b"hello")
        assert next_ours.recv(100) == b"hello"
    theirs.close()
    reported.take()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["close", "abort"])
async def test_a_number_that_goes_on_before_connection_lost(
    loop: asyncio.AbstractEventLoop, reported: Any, kind: str, end: str
) -> None:
    """The next owner is a transport of the same loop: its registration stands when the old one takes its last step."""
    _, protocol, ours, theirs = made = await opened(kind)
    number = ours.fileno()
    end_by(end, kind, made[0])
    ours.close()
    next_ours, next_theirs = pair_at(number)
    transport, next_protocol = await loop.create_connection(Recorder, sock=next_ours)
    await protocol.wait_lost()
    await settle()
    assert protocol.calls.count("connection_lost") == 1
    next_theirs.send(b"hello")
    assert await next_protocol.wait_received(5) == b"hello"
    transport.write(b"answer")
    assert Peer(next_theirs).take(6) == b"answer"
    transport.close()
    await next_protocol.wait_lost()
    next_theirs.close()
    theirs.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_out_of_pause_writing(
    loop: asyncio.AbstractEventLoop, loop_name: str, reported: Any, error: type[BaseException]
) -> None:
    """Another transport's writes of the same callback leave all the same, and so do the interrupted one's."""

    class Interrupting(Recorder):
        def pause_writing(self) -> None:
            raise error

    first, _, first_peer = loop.run_until_complete(connect("unix", Interrupting))
    second, _, second_peer = loop.run_until_complete(connect("unix"))
    size = 3_000_000

    def act() -> None:
        second.write(b"one,")
        second.write(b"two,")
        first.write(bytes(size))

    loop.call_soon(act)
    with pytest.raises(error):
        loop.run_forever()
    second.write(b"three")
    assert second_peer.take(13) == b"one,two,three"

    async def read() -> int:
        total = 0
        while total < size:
            total += len(await loop.sock_recv(first_peer.end, 1 << 20))
        return total

    assert loop.run_until_complete(read()) == size
    for transport, peer in ((first, first_peer), (second, second_peer)):
        transport.close()
        peer.close()
    loop.run_until_complete(settle())
    if loop_name == "asyncio":
        reported.take()  # its empty queue is still watched: "Data should not be empty"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_out_of_resume_writing(
    loop: asyncio.AbstractEventLoop, loop_name: str, reported: Any, error: type[BaseException]
) -> None:
    """Several blocked transports, of which each interrupts the loop: all of every queue arrives."""

    class Interrupting(Recorder):
        def resume_writing(self) -> None:
            raise error

    size = 1_000_000
    made = [loop.run_until_complete(connect("unix", Interrupting)) for _ in range(3)]
    for transport, _, _ in made:
        transport.write(bytes(size))
        transport.write(b"end")

    async def read(peer: Peer) -> int:
        total = 0
        while total < size + 3:
            total += len(await loop.sock_recv(peer.end, 1 << 20))
        return total

    reads = [loop.create_task(read(peer)) for _, _, peer in made]
    gathered = asyncio.gather(*reads)
    interrupts = 0
    while not gathered.done():
        try:
            loop.run_until_complete(gathered)
        except error:
            interrupts += 1
    assert interrupts == 3
    assert gathered.result() == [size + 3] * 3
    for transport, _, peer in made:
        assert transport.get_write_buffer_size() == 0
        transport.close()
        peer.close()
    loop.run_until_complete(settle())
    if loop_name == "asyncio":
        reported.take()  # as above


@pytest.mark.oneloop_only("asyncio calls the writer of an empty queue, which fails")
def test_an_interrupt_out_of_resume_writing_of_a_closing_transport(loop: asyncio.AbstractEventLoop) -> None:
    class Interrupting(Recorder):
        def resume_writing(self) -> None:
            raise SystemExit

    size = 1_000_000
    transport, protocol, peer = loop.run_until_complete(connect("unix", Interrupting))
    transport.write(bytes(size))
    transport.close()

    async def read() -> None:
        total = 0
        while total < size:
            total += len(await loop.sock_recv(peer.end, 1 << 20))

    reading = loop.create_task(read())
    with pytest.raises(SystemExit):
        loop.run_until_complete(protocol.wait_lost())
    loop.run_until_complete(protocol.wait_lost())
    loop.run_until_complete(reading)
    peer.close()
    loop.run_until_complete(settle())


STEPS = ("close", "abort", "write_eof", "write", "large write", "peer closes", "peer resets", "peer sends")


def take_step(step: str, transport: Any, peer: Peer) -> None:
    if step in ("close", "abort"):
        getattr(transport, step)()
    elif step == "write_eof":
        with contextlib.suppress(OSError):  # the peer may have gone
            transport.write_eof()
    elif step in ("write", "large write"):
        with contextlib.suppress(RuntimeError):  # after write_eof()
            transport.write(bytes(3_000_000 if step == "large write" else 3))
    elif peer.end.fileno() >= 0:
        if step == "peer resets":
            peer.end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, HARD_CLOSE)
        if step == "peer sends":
            with contextlib.suppress(OSError):
                peer.end.send(b"question")
        else:
            peer.close()


@pytest.mark.parametrize("kind", ["unix", "tcp"])
@pytest.mark.parametrize("pauses", [0, 1, 3])
@pytest.mark.parametrize("first", STEPS)
async def test_connection_lost_comes_once_in_all_orders(
    loop: asyncio.AbstractEventLoop, reported: Any, kind: str, pauses: int, first: str
) -> None:
    for rest in itertools.permutations(STEPS, 2):
        transport, protocol, peer = await connect(kind)
        for step in (first, *rest):
            take_step(step, transport, peer)
            await settle(pauses)
        peer.close()
        transport.abort() if not transport.is_closing() or transport.get_write_buffer_size() else None
        await protocol.wait_lost()
        await settle()
        assert protocol.calls.count("connection_lost") == 1, (first, rest)
        assert protocol.calls.count("connection_made") == 1
        assert protocol.calls[-1] == "connection_lost", (first, rest)
    # A half-close whose peer has gone may be reported.
    assert all(isinstance(context.get("exception"), OSError) for context in reported.take())


async def test_connection_lost_comes_with_the_last_byte(loop: asyncio.AbstractEventLoop) -> None:
    """close() that waits for its queue: within the callback that sends the end of it, as on asyncio."""
    order: list[str] = []

    class Noting(Recorder):
        def resume_writing(self) -> None:
            order.append("resume_writing")
            loop.call_soon(order.append, "scheduled by resume_writing")

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            order.append("connection_lost")

    transport, protocol, peer = await connect("unix", Noting)
    transport.set_write_buffer_limits(low=0)
    transport.write(bytes(1_000_000))
    transport.close()
    assert order == []
    total = 0
    while data := await loop.sock_recv(peer.end, 1 << 20):
        total += len(data)
    await protocol.wait_lost()
    await settle()
    assert total == 1_000_000
    assert order == ["resume_writing", "connection_lost", "scheduled by resume_writing"]
    peer.close()


MADE: dict[str, tuple[int, Callable[[Any, socket.socket, Any], Any]]] = {
    "stream": (socket.SOCK_STREAM, lambda loop, sock, protocol: loop._make_socket_transport(sock, protocol)),
    "datagram": (socket.SOCK_DGRAM, lambda loop, sock, protocol: loop._make_datagram_transport(sock, protocol)),
}


@pytest.mark.parametrize("kind", MADE)
async def test_connection_lost_follows_the_beginning_of_one_that_is_closed_before(
    loop: asyncio.AbstractEventLoop, kind: str
) -> None:
    number, make = MADE[kind]
    ours, theirs = socket.socketpair(socket.AF_UNIX, number)
    ours.setblocking(False)
    protocol = Everything()
    transport = make(loop, ours, protocol)
    transport.close()
    await asyncio.sleep(0)
    assert protocol.calls == ["connection_made", "connection_lost"]
    theirs.close()


@pytest.mark.oneloop_only("the statistics")
@pytest.mark.parametrize("is_closed", [False, True])
def test_transports_of_a_loop_that_never_runs_are_not_counted_for_ever(
    loop_factory: LoopFactory, is_closed: bool
) -> None:
    loop: Any = loop_factory()
    ours, theirs = socket.socketpair()
    made = [loop._make_socket_transport(ours, Everything())]
    if is_closed:
        made[0].close()
    loop.close()
    with pytest.warns(ResourceWarning, match="unclosed transport"):
        made.clear()
    assert loop.statistics().open_transports == 0
    theirs.close()


@pytest.mark.oneloop_only("the statistics")
def test_a_transport_that_could_not_begin_is_not_counted(loop_factory: LoopFactory) -> None:
    loop: Any = loop_factory()
    ours, theirs = socket.socketpair()
    with (
        pytest.warns(ResourceWarning, match="unclosed transport"),
        pytest.raises(AttributeError, match="connection_made"),
    ):
        loop._make_socket_transport(ours, object())
    assert loop.statistics().open_transports == 0
    loop.close()
    theirs.close()
