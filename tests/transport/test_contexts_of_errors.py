"""What a protocol raises reaches the loop's exception handler in the connection's context: it knows whose it was.

asyncio calls the handler in the context of whoever has caused the call, as it calls the methods.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from tests.certificates import HOST, client_context, server_context
from tests.conftest import settle

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")

pytestmark = pytest.mark.oneloop_only("asyncio calls the handler in the context of whoever has caused the call")


def as_(who: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call in a copy of the current context in which WHO is set."""
    context = contextvars.copy_context()
    context.run(WHO.set, who)
    return context.run(function, *arguments)


class Fails:
    """Fails in one of its methods."""

    def __init__(self, failing: str) -> None:
        self.failing = failing
        self.calls: list[str] = []
        self.transport: Any = None

    def note(self, call: str) -> None:
        self.calls.append(call)
        if call == self.failing:
            raise ValueError(call)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.note("connection_made")

    def eof_received(self) -> None:
        self.note("eof_received")

    def pause_writing(self) -> None:
        self.note("pause_writing")

    def resume_writing(self) -> None:
        self.note("resume_writing")

    def connection_lost(self, exc: Exception | None) -> None:
        self.note("connection_lost")


class Failing(Fails, asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        self.note("data_received")


class FailingBuffered(Fails, asyncio.BufferedProtocol):
    def get_buffer(self, sizehint: int) -> Any:
        self.note("get_buffer")
        return bytearray(100)

    def buffer_updated(self, nbytes: int) -> None:
        self.note("buffer_updated")


class FailingPost(Fails, asyncio.DatagramProtocol):
    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.note("datagram_received")

    def error_received(self, exc: Exception) -> None:
        self.note("error_received")


@contextmanager
def reports() -> Iterator[list[tuple[str, str]]]:
    """For each call of the loop's exception handler: the error, and in whose context it was."""
    loop = asyncio.get_running_loop()
    seen: list[tuple[str, str]] = []
    loop.set_exception_handler(lambda _, details: seen.append((str(details["exception"]), WHO.get())))
    yield seen
    loop.set_exception_handler(None)


Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def over_unix(protocol: Any) -> AsyncIterator[Peer]:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    await as_("maker", loop.create_task, loop.create_connection(lambda: protocol, sock=ours))
    yield await asyncio.open_connection(sock=theirs)


@asynccontextmanager
async def over_tls(protocol: Any) -> AsyncIterator[Peer]:
    loop = asyncio.get_running_loop()
    accepted = loop.create_future()
    options: dict[str, Any] = {"ssl": client_context(), "server_hostname": HOST}
    server = await asyncio.start_server(lambda *pair: accepted.set_result(pair), "127.0.0.1", 0, ssl=server_context())
    making = loop.create_connection(lambda: protocol, *server.sockets[0].getsockname(), **options)
    await as_("maker", loop.create_task, making)
    yield await accepted
    server.close()
    await server.wait_closed()


async def feeds(transport: Any, peer: Peer) -> None:
    peer[1].write(b"x")


async def ends(transport: Any, peer: Peer) -> None:
    peer[1].close()


async def closes(transport: Any, peer: Peer) -> None:
    as_("somebody", transport.close)


async def aborts(transport: Any, peer: Peer) -> None:
    as_("somebody", transport.abort)


async def writes(transport: Any, peer: Peer) -> None:
    as_("somebody", transport.write, bytes(5_000_000))
    await peer[0].readexactly(5_000_000)


STREAMS = [
    (Failing, "connection_made", closes),
    (Failing, "data_received", feeds),
    (FailingBuffered, "get_buffer", feeds),
    (FailingBuffered, "buffer_updated", feeds),
    (Failing, "eof_received", ends),
    (Failing, "pause_writing", writes),
    (Failing, "resume_writing", writes),
    (Failing, "connection_lost", closes),
    (Failing, "connection_lost", aborts),
]
# Over TLS these are called before the peer's handshake has ended, and end the transport below.
EARLY = ("connection_made", "get_buffer")
CELLS = [(over, *row) for over in (over_unix, over_tls) for row in STREAMS if over is over_unix or row[1] not in EARLY]


@pytest.mark.parametrize(("over", "kind", "failing", "action"), CELLS)
async def test_streams(
    loop: asyncio.AbstractEventLoop, over: Callable[[Any], Any], kind: Any, failing: str, action: Callable[..., Any]
) -> None:
    if sys.version_info < (3, 12) and over is over_tls and failing == "connection_lost":
        pytest.skip("it is called by a handle, in whose context asyncio calls its handler from 3.12 on")
    protocol = kind(failing)
    with reports() as seen:
        async with over(protocol) as peer:
            await action(protocol.transport, peer)
            while not seen:
                await asyncio.sleep(0)
            protocol.transport.abort()
            while "connection_lost" not in protocol.calls:
                await asyncio.sleep(0)
            peer[1].transport.abort()
        await settle()
    assert seen == [(failing, "maker")]


async def test_the_factory_of_a_server(loop: asyncio.AbstractEventLoop) -> None:
    def fail() -> Any:
        raise ValueError("factory")

    with reports() as seen:
        server = await as_("maker", loop.create_task, loop.create_server(fail, "127.0.0.1", 0))
        with socket.create_connection(server.sockets[0].getsockname()):
            while not seen:
                await asyncio.sleep(0)
        server.close()
        await server.wait_closed()
    assert seen == [("factory", "maker")]


@pytest.mark.parametrize("failing", ["connection_made", "datagram_received", "error_received", "connection_lost"])
async def test_datagrams(loop: asyncio.AbstractEventLoop, failing: str) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as nobody:
        nobody.bind(("127.0.0.1", 0))
        options: dict[str, Any] = {"remote_addr": nobody.getsockname()}
    protocol = FailingPost(failing)
    theirs = None
    if failing != "error_received":
        ours, theirs = socket.socketpair(type=socket.SOCK_DGRAM)
        options = {"sock": ours}
    with reports() as seen:
        making = loop.create_datagram_endpoint(lambda: protocol, **options)
        transport, _ = await as_("maker", loop.create_task, making)
        if failing == "connection_lost":
            as_("somebody", transport.close)
        elif failing == "datagram_received" and theirs is not None:
            theirs.send(b"x")
        elif failing == "error_received":
            as_("somebody", transport.sendto, b"x")
        while not seen:
            await asyncio.sleep(0)
        transport.abort()
        await settle()
    assert seen == [(failing, "maker")]
    if theirs is not None:
        theirs.close()


@pytest.mark.parametrize("failing", ["connection_made", "data_received", "eof_received", "connection_lost"])
async def test_reading_pipes(loop: asyncio.AbstractEventLoop, failing: str) -> None:
    protocol = Failing(failing)
    reading, writing = os.pipe()
    with reports() as seen:
        making = loop.connect_read_pipe(lambda: protocol, open(reading, "rb", 0))
        transport, _ = await as_("maker", loop.create_task, making)
        os.write(writing, b"x")
        os.close(writing)
        while "connection_lost" not in protocol.calls:
            await asyncio.sleep(0)
        transport.close()
        await settle()
    assert seen == [(failing, "maker")]


@pytest.mark.parametrize("failing", ["connection_made", "pause_writing", "resume_writing", "connection_lost"])
async def test_writing_pipes(loop: asyncio.AbstractEventLoop, failing: str) -> None:
    protocol = Failing(failing)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with reports() as seen, open(reading, "rb", 0) as peer:
        making = loop.connect_write_pipe(lambda: protocol, open(writing, "wb", 0))
        transport, _ = await as_("maker", loop.create_task, making)
        as_("somebody", transport.write, bytes(300_000))
        while "resume_writing" not in protocol.calls:
            peer.read(1 << 16)
            await asyncio.sleep(0)
        as_("somebody", transport.close)
        while "connection_lost" not in protocol.calls:
            await asyncio.sleep(0)
        await settle()
    assert seen == [(failing, "maker")]
