"""In which context the methods of a protocol run: the connection's.

The tests here run on asyncio too: before Python 3.15 that takes the context of who resumed, wrote to or ended the
transport. `test_contexts_of_callbacks` has all methods and all that may cause their call.
"""

from __future__ import annotations

import asyncio
import contextvars
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.certificates import HOST, client_context, server_context
from tests.conftest import settle
from tests.protocols import Recorder
from tests.transport.conftest import socket_pair

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


def is_asyncio() -> bool:
    return isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop)


def heard(before: str, *, on_asyncio_in_context_of: str) -> str:
    """What a method sees: in the connection's only context, what the call `before` has set."""
    is_old = is_asyncio() and sys.version_info < (3, 15)
    return on_asyncio_in_context_of if is_old else f"set by {before}"


class Seeing(Recorder):
    """Notes in whose context each method was called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, str] = {}

    def _note(self, call: str) -> None:
        self.seen[call] = WHO.get()
        # Nobody else sees what a callback sets.
        WHO.set(f"set by {call}")
        super()._note(call)


def as_(who: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call as somebody: in a copy of the current context in which WHO is set."""

    def call() -> Any:
        WHO.set(who)
        return function(*arguments)

    return contextvars.copy_context().run(call)


async def made_by(who: str, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> tuple[Any, Seeing]:
    async def make() -> Any:
        WHO.set(who)
        return await loop.create_connection(Seeing, sock=sock)

    return await loop.create_task(make())  # type: ignore[return-value]


async def test_from_connection_made_to_connection_lost(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("unix")
    transport, protocol = await made_by("maker", loop, ours)
    theirs.send(b"x")
    await protocol.wait_received(1)
    assert protocol.seen == {
        "connection_made": "maker",
        "data_received": heard("connection_made", on_asyncio_in_context_of="maker"),
    }
    as_("closer", transport.close)
    await protocol.wait_lost()
    assert protocol.seen["connection_lost"] == heard("data_received", on_asyncio_in_context_of="closer")
    theirs.close()


async def test_eof_and_the_loss_after_it(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("unix")
    _, protocol = await made_by("maker", loop, ours)
    theirs.close()
    await protocol.wait_lost()
    assert protocol.seen == {
        "connection_made": "maker",
        "eof_received": heard("connection_made", on_asyncio_in_context_of="maker"),
        "connection_lost": "set by eof_received",
    }


async def test_data_after_resume_reading(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("unix")
    transport, protocol = await made_by("maker", loop, ours)
    as_("pauser", transport.pause_reading)
    as_("resumer", transport.resume_reading)
    theirs.send(b"x")
    await protocol.wait_received(1)
    assert protocol.seen["data_received"] == heard("connection_made", on_asyncio_in_context_of="resumer")
    transport.close()
    await protocol.wait_lost()
    theirs.close()


async def test_writes_that_wait(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket_pair("unix")
    transport, protocol = await made_by("maker", loop, ours)
    as_("writer", transport.write, bytes(3_000_000))
    # Called within write(): on asyncio in the context of its caller, on all versions.
    assert protocol.seen["pause_writing"] == ("writer" if is_asyncio() else "set by connection_made")
    as_("second writer", transport.write, b"x")
    total = 0
    while total < 3_000_001:
        total += len(await loop.sock_recv(theirs, 1 << 20))
    await protocol.wait_call("resume_writing")
    before = "connection_made" if is_asyncio() else "pause_writing"
    assert protocol.seen["resume_writing"] == heard(before, on_asyncio_in_context_of="writer")
    transport.close()
    await protocol.wait_lost()
    theirs.close()


async def test_a_close_that_waits_for_the_queue(loop: asyncio.AbstractEventLoop) -> None:
    """connection_lost comes within the callback that sends the last byte."""
    ours, theirs = socket_pair("unix")
    transport, protocol = await made_by("maker", loop, ours)
    transport.set_write_buffer_limits(100_000_000)
    as_("writer", transport.write, bytes(3_000_000))
    as_("closer", transport.close)
    while await loop.sock_recv(theirs, 1 << 20):
        pass
    await protocol.wait_lost()
    assert protocol.seen["connection_lost"] == heard("connection_made", on_asyncio_in_context_of="writer")
    theirs.close()


async def serve_as(who: str, loop: asyncio.AbstractEventLoop, **options: Any) -> tuple[asyncio.Server, list[Any]]:
    made: list[Any] = []

    def factory() -> Seeing:
        protocol = Seeing()
        made.append((WHO.get(), protocol))
        return protocol

    async def start() -> asyncio.Server:
        WHO.set(who)
        return await loop.create_server(factory, "127.0.0.1", 0, **options)

    return await loop.create_task(start()), made


@pytest.mark.parametrize("tls", [False, True])
async def test_connections_of_a_server(loop: asyncio.AbstractEventLoop, tls: bool) -> None:
    """All in the context in which the server was started, whoever connects and whatever the handshake ran in."""
    server, made = await serve_as("server", loop, ssl=server_context() if tls else None)
    options: dict[str, Any] = {"ssl": client_context(), "server_hostname": HOST} if tls else {}
    async with server:
        for turn in range(2):
            WHO.set(f"client {turn}")
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), **options)
            writer.write(b"hello")
            while len(made) <= turn:
                await asyncio.sleep(0)
            who, protocol = made[turn]
            await protocol.wait_received(5)
            writer.close()
            await writer.wait_closed()
            await protocol.wait_lost()
            del reader
            assert who == "server"
            assert protocol.seen["connection_made"] == "server"
            assert protocol.seen["data_received"].split()[-1] in ("server", "connection_made")
        await settle()


async def test_streams_of_a_tls_server(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[str] = []
    ended = loop.create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(WHO.get())
        writer.write(await reader.readexactly(5))
        writer.close()
        await writer.wait_closed()
        ended.set_result(None)

    async def start() -> asyncio.Server:
        WHO.set("server")
        return await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context())

    async with await loop.create_task(start()) as server:
        WHO.set("client")
        reader, writer = await asyncio.open_connection(
            *server.sockets[0].getsockname(), ssl=client_context(), server_hostname=HOST
        )
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()
        await writer.wait_closed()
        await ended
        await settle()
    assert seen == ["server"]


@pytest.mark.parametrize("kind", ["reader", "writer"])
async def test_readers_and_writers(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    """Each call in the context of add_reader(), the same for all: what one call sets the next one sees."""
    ours, theirs = socket_pair("unix")
    seen: list[str] = []
    ended = loop.create_future()

    def ready() -> None:
        seen.append(WHO.get())
        WHO.set("set by the call before")
        if len(seen) == 3:
            ended.set_result(None)
            getattr(loop, f"remove_{kind}")(ours)

    as_("adder", getattr(loop, f"add_{kind}"), ours, ready)
    theirs.send(b"x")
    await ended
    assert seen == ["adder", "set by the call before", "set by the call before"]
    ours.close()
    theirs.close()
