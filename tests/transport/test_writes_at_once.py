"""When a peer can read what a callback has written: the first write at once, the others when the callback ends.

A peer reads inside the callback here, or inside the next one, while the loop can do nothing.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import pytest

from tests.certificates import HOST, client_context, server_context
from tests.conftest import settle
from tests.loops import LoopFactory
from tests.peers import KINDS, LIMIT_S, Peer, connect, connected
from tests.protocols import Recorder
from tests.transport.conftest import socket_pair
from tests.transport.places import PLACES, run_in

SHAPES: tuple[Any, ...] = (bytes, bytearray, memoryview)
# Longer than writes are gathered for.
SPIN_S = 0.005


def spin(duration_s: float = SPIN_S) -> None:
    """Work of a callback."""
    end = time.perf_counter() + duration_s
    while time.perf_counter() < end:
        pass


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("place", PLACES)
async def test_the_first_write_of_a_callback_goes_at_once(
    loop: asyncio.AbstractEventLoop, kind: str, place: str
) -> None:
    async with connected(kind) as (transport, _, peer):

        def act(text: Any) -> bytes:
            transport.write(text)
            return peer.take(len(text))

        for shape in SHAPES:
            assert await run_in(place, lambda shape=shape: act(shape(b"answer"))) == b"answer"


@pytest.mark.parametrize("place", PLACES)
async def test_the_first_writelines_of_a_callback_goes_at_once(
    loop: asyncio.AbstractEventLoop, kind: str, place: str
) -> None:
    async with connected(kind) as (transport, _, peer):

        def act() -> bytes:
            transport.writelines([b"ans", bytearray(b"w"), memoryview(b"er")])
            return peer.take(6)

        assert await run_in(place, act) == b"answer"


@pytest.mark.parametrize("kind", ["unix", "tcp"])
@pytest.mark.parametrize("method", ["connection_made", "data_received", "buffer_updated", "eof_received"])
async def test_a_protocol_that_answers_its_own_peer(loop: asyncio.AbstractEventLoop, kind: str, method: str) -> None:
    ours, theirs = socket_pair(kind)
    peer = Peer(theirs)
    seen: list[bytes] = []

    class Answering(Recorder):
        def _note(self, call: str) -> None:
            super()._note(call)
            if call == method:
                self.transport.write(b"answer")
                seen.append(peer.take(6))

    class Buffered(Answering, asyncio.BufferedProtocol):
        def get_buffer(self, sizehint: int) -> bytearray:
            return bytearray(100)

        def buffer_updated(self, nbytes: int) -> None:
            self._note("buffer_updated")

    factory = Buffered if method == "buffer_updated" else Answering
    _, protocol = await loop.create_connection(factory, sock=ours)
    peer.send(b"question")
    theirs.shutdown(socket.SHUT_WR)
    await protocol.wait_lost()
    peer.close()
    assert seen == [b"answer"]


def test_outside_of_callbacks(loop_factory: LoopFactory, kind: str) -> None:
    """A loop that stands still has no end of a callback to wait for."""
    loop = loop_factory()
    transport, _, peer = loop.run_until_complete(connect(kind))
    for _ in range(3):
        transport.write(b"one")
        transport.write(b"two")
        assert peer.take(6) == b"onetwo"
    transport.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    peer.close()
    loop.close()


@pytest.mark.parametrize("count", [2, 3, 16, 200])
async def test_further_writes_are_there_before_the_next_callback(
    loop: asyncio.AbstractEventLoop, kind: str, count: int
) -> None:
    texts = [b"%d," % number for number in range(count)]
    expected = b"".join(texts)

    def act(transport: Any) -> None:
        for number, text in enumerate(texts):
            transport.write(SHAPES[number % 3](text))

    async with connected(kind) as (transport, _, peer):
        seen = loop.create_future()
        loop.call_soon(act, transport)
        loop.call_soon(lambda: seen.set_result(peer.take(len(expected))))
        assert await seen == expected


async def test_between_two_timers(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    async with connected(kind) as (transport, _, peer):
        seen = loop.create_future()
        deadline = loop.time() + 0.001

        def act() -> None:
            transport.write(b"header")
            transport.write(b"body")

        loop.call_at(deadline, act)
        loop.call_at(deadline, lambda: seen.set_result(peer.take(10)))
        assert await seen == b"headerbody"


async def test_between_two_steps_of_tasks(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    async with connected(kind) as (transport, _, peer):

        async def answer() -> None:
            transport.write(b"header")
            transport.write(b"body")

        async def look() -> bytes:
            return peer.take(10)

        _, seen = await asyncio.gather(answer(), look())
        assert seen == b"headerbody"


async def test_between_protocol_methods_of_one_poll(loop: asyncio.AbstractEventLoop) -> None:
    """Two connections that one poll finds readable: whoever comes second sees all of the first one's answer."""
    peers: list[Peer] = []
    order: list[int] = []
    seen: list[bytes] = []

    class Answering(asyncio.Protocol):
        def __init__(self, number: int) -> None:
            self.number = number

        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            seen.extend(peers[earlier].take(10) for earlier in order)
            order.append(self.number)
            self.transport.write(b"header")
            self.transport.write(b"body")

    transports = []
    for number in range(2):
        transport, _, peer = await connect("unix", lambda number=number: Answering(number))
        transports.append(transport)
        peers.append(peer)
    await asyncio.sleep(0)
    for peer in peers:
        peer.send(b"question")
    while len(order) < 2:
        await asyncio.sleep(0)
    assert seen == [b"headerbody"]
    for transport, peer in zip(transports, peers, strict=True):
        transport.close()
        peer.close()
    await asyncio.sleep(0)


async def test_a_later_write_of_a_callback_goes_at_once_again(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    async with connected(kind) as (transport, _, peer):

        def act() -> list[bytes]:
            seen = []
            transport.write(b"header")
            for number in range(3):
                transport.write(b"%d" % number)
                spin()
                transport.write(b"late")
                seen.append(peer.take(11 if number == 0 else 5))
            return seen

        assert await run_in("call_soon", act) == [b"header0late", b"1late", b"2late"]


async def test_a_handler_that_writes_and_works_in_turn(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    """Progress reports: at most one of them is behind."""
    async with connected(kind) as (transport, _, peer):

        def act() -> list[int]:
            missing = []
            total = 0
            for number in range(1, 11):
                transport.write(b"%03d" % number)
                total += len(peer.take(3))
                missing.append(3 * number - total)
                spin()
            return missing

        assert await run_in("call_soon", act) == [0] * 10


async def answers_while_computing(loop: asyncio.AbstractEventLoop, serve: Any, count: int = 20) -> list[int]:
    """Handlers that answer and then compute; for each, how many peers had their answer while it computed."""
    peers: list[Peer] = []
    answered: list[int] = []

    def compute(number: int) -> None:
        answered.append(number)
        assert peers[number].is_readable(5), "the handler's own answer"
        readable.append(sum(peer.is_readable() for peer in peers))

    readable: list[int] = []
    transports = await serve(peers, compute, count)
    for peer in peers:
        peer.send(b"question")
    while len(readable) < count:
        await asyncio.sleep(0)
    for transport, peer in zip(transports, peers, strict=True):
        transport.close()
        peer.close()
    await settle()
    return readable


async def test_answers_of_protocols_that_compute(loop: asyncio.AbstractEventLoop) -> None:
    async def serve(peers: list[Peer], compute: Any, count: int) -> list[Any]:
        class Computing(asyncio.Protocol):
            def __init__(self, number: int) -> None:
                self.number = number

            def connection_made(self, transport: Any) -> None:
                self.transport = transport

            def data_received(self, data: bytes) -> None:
                self.transport.write(b"answer")
                compute(self.number)

        transports = []
        for number in range(count):
            transport, _, peer = await connect("tcp", lambda number=number: Computing(number))
            transports.append(transport)
            peers.append(peer)
        await asyncio.sleep(0)
        return transports

    assert await answers_while_computing(loop, serve) == list(range(1, 21))


@pytest.mark.parametrize("drains", [False, True])
@pytest.mark.parametrize("texts", [[b"answer"], [b"header", b"body"]])
async def test_answers_of_streams_that_compute(
    loop: asyncio.AbstractEventLoop, drains: bool, texts: list[bytes]
) -> None:
    async def serve(peers: list[Peer], compute: Any, count: int) -> list[Any]:
        async def handle(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(8)
            for text in texts:
                writer.write(text)
            if drains:
                await writer.drain()
            compute(number)

        for number in range(count):
            ours, theirs = socket_pair("tcp")
            peers.append(Peer(theirs))
            reader, writer = await asyncio.open_connection(sock=ours)
            tasks.append(asyncio.create_task(handle(number, reader, writer)))
            writers.append(writer)
        await asyncio.sleep(0)
        return writers

    tasks: list[asyncio.Task[None]] = []
    writers: list[asyncio.StreamWriter] = []
    assert await answers_while_computing(loop, serve) == list(range(1, 21))
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
@pytest.mark.parametrize("texts", [[b"answer"], [b"header", b"body"], [b"%d," % number for number in range(50)]])
async def test_what_is_drained_is_readable(loop: asyncio.AbstractEventLoop, kind: str, texts: list[bytes]) -> None:
    ours, theirs = socket_pair(kind)
    peer = Peer(theirs)
    _, writer = await asyncio.open_connection(sock=ours)

    async def answer() -> bytes:
        for text in texts:
            writer.write(text)
        await writer.drain()
        return peer.take(len(b"".join(texts)))

    assert await asyncio.create_task(answer()) == b"".join(texts)
    peer.close()
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("texts", [[b"answer"], [b"header", b"body"]])
async def test_what_is_drained_through_tls_arrives(loop: asyncio.AbstractEventLoop, texts: list[bytes]) -> None:
    """The loop stands still until the client, in a thread, has read it."""
    arrived = threading.Event()
    served = loop.create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        for text in texts:
            writer.write(text)
        await writer.drain()
        served.set_result(arrived.wait(LIMIT_S))
        writer.close()

    def ask(address: tuple[str, int]) -> bytes:
        raw = socket.create_connection(address, LIMIT_S)
        with client_context().wrap_socket(raw, server_hostname=HOST) as sock:
            sock.sendall(b"question")
            received = b""
            while len(received) < len(b"".join(texts)):
                received += sock.recv(100)
            arrived.set()
        return received

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context()) as server:
        assert await asyncio.to_thread(ask, server.sockets[0].getsockname()) == b"".join(texts)
        assert await served
        await asyncio.sleep(0.01)
    await loop.shutdown_default_executor()
