"""Every method of a protocol × what has caused its call: always in the context in which the connection was made.

Everything is done in the context of somebody else, as in a server where the task of one user's request resumes reading,
and the next user's is received. asyncio gives the methods the context of that task: always before Python 3.15, from
there on for datagrams, pipes and `pause_writing`. Source: Kludex/uvicorn#2167 and #3158.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from tests.certificates import HOST, client_context, server_context
from tests.conftest import settle
from tests.protocols import BufferedRecorder, Recorder
from tests.transport.conftest import socket_pair

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")
LONG = 3_000_000

pytestmark = pytest.mark.oneloop_only("asyncio runs them in the context of whoever has caused the call")


def as_(who: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call in a copy of the current context in which WHO is set."""
    context = contextvars.copy_context()
    context.run(WHO.set, who)
    return context.run(function, *arguments)


async def made_by_maker(making: Coroutine[Any, Any, Any]) -> Any:
    return await as_("maker", asyncio.get_running_loop().create_task, making)


async def until(is_reached: Callable[[], object]) -> None:
    while not is_reached():
        await asyncio.sleep(0)


class Seen:
    """In whose context each method was called."""

    seen: dict[str, set[str]]

    def note(self, call: str) -> None:
        self.__dict__.setdefault("seen", {}).setdefault(call, set()).add(WHO.get())


class Seeing(Seen, Recorder):
    # Within data_received().
    then: Callable[[], object] | None = None

    def _note(self, call: str) -> None:
        self.note(call)
        if call == "data_received" and self.then is not None:
            self.then()
        super()._note(call)


class SeeingBuffered(Seeing, BufferedRecorder):
    """`buffer_updated` is noted as data_received."""

    def get_buffer(self, sizehint: int) -> Any:
        self.note("get_buffer")
        return super().get_buffer(sizehint)


@dataclass
class Connection:
    transport: Any
    protocol: Any
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def fill(self) -> None:
        """Write until the kernel takes no more."""
        while not self.transport.get_write_buffer_size():
            as_("writer", self.transport.write, bytes(LONG))

    async def read_all(self) -> None:
        """As the peer, read to the end, which is a reset if something was not read."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(1 << 20):
                pass


Factory = Callable[[], Any]


async def make_unix(factory: Factory, stack: list[Any]) -> tuple[Any, Any]:
    loop = asyncio.get_running_loop()
    ours, theirs = socket_pair("unix")
    _, protocol = await made_by_maker(loop.create_connection(factory, sock=ours))
    return protocol, await asyncio.open_connection(sock=theirs)


async def make_client(factory: Factory, stack: list[Any], tls: bool = False) -> tuple[Any, Any]:
    loop = asyncio.get_running_loop()
    accepted = loop.create_future()
    server = await asyncio.start_server(
        lambda *pair: accepted.set_result(pair), "127.0.0.1", 0, ssl=server_context() if tls else None
    )
    stack.append(server)
    options: dict[str, Any] = {"ssl": client_context(), "server_hostname": HOST} if tls else {}
    address = server.sockets[0].getsockname()
    _, protocol = await made_by_maker(loop.create_connection(factory, *address, **options))
    return protocol, await accepted


async def make_server(
    factory: Factory, stack: list[Any], tls: bool = False, started_by_another: bool = False
) -> tuple[Any, Any]:
    loop = asyncio.get_running_loop()
    made = []

    def make() -> Any:
        made.append(factory())
        made[-1].note("the factory")
        return made[-1]

    server = await made_by_maker(
        loop.create_server(
            make, "127.0.0.1", 0, ssl=server_context() if tls else None, start_serving=not started_by_another
        )
    )
    stack.append(server)
    if started_by_another:
        await as_("somebody", loop.create_task, server.start_serving())
    options: dict[str, Any] = {"ssl": client_context(), "server_hostname": HOST} if tls else {}
    peer = await asyncio.open_connection(*server.sockets[0].getsockname(), **options)
    await until(lambda: made)
    await made[0].wait_made()
    return made[0], peer


async def make_upgraded(factory: Factory, stack: list[Any]) -> tuple[Any, Any]:
    """A connection whose TLS is begun by somebody else."""
    loop = asyncio.get_running_loop()
    protocol, (reader, writer) = await make_unix(factory, stack)
    below = protocol.transport
    server_side = loop.create_task(writer.start_tls(client_context(), server_hostname=HOST))
    upgrading = loop.start_tls(below, protocol, server_context(), server_side=True)
    protocol.transport = await as_("somebody", loop.create_task, upgrading)
    await server_side
    return protocol, (reader, writer)


async def make_tls_in_tls(factory: Factory, stack: list[Any]) -> tuple[Any, Any]:
    loop = asyncio.get_running_loop()
    protocol, (reader, writer) = await make_client(factory, stack, tls=True)
    server_side = loop.create_task(writer.start_tls(server_context()))
    upgrading = loop.start_tls(protocol.transport, protocol, client_context(), server_hostname=HOST)
    protocol.transport = await as_("somebody", loop.create_task, upgrading)
    await server_side
    return protocol, (reader, writer)


KINDS: dict[str, Any] = {
    "unix": make_unix,
    "client": make_client,
    "server": make_server,
    "server started by another": lambda factory, stack: make_server(factory, stack, started_by_another=True),
    "TLS client": lambda factory, stack: make_client(factory, stack, tls=True),
    "TLS server": lambda factory, stack: make_server(factory, stack, tls=True),
    "start_tls": make_upgraded,
    "TLS in TLS": make_tls_in_tls,
}


@contextlib.asynccontextmanager
async def connected(kind: str, factory: Factory = Seeing) -> AsyncIterator[Connection]:
    stack: list[Any] = []
    protocol, (reader, writer) = await KINDS[kind](factory, stack)
    connection = Connection(protocol.transport, protocol, reader, writer)
    try:
        yield connection
    finally:
        writer.transport.abort()
        connection.transport.abort()
        await protocol.wait_lost()
        for server in stack:
            server.close()
            await server.wait_closed()
        await settle()
    assert protocol.seen.pop("the factory", {"maker"}) == {"maker"}
    for call, seen in protocol.seen.items():
        assert seen == {"maker"}, call


# -- what somebody does, by the method that is called for it ------------------------------------------


async def resumes_reading(on: Connection) -> None:
    as_("somebody", on.transport.pause_reading)
    on.writer.write(b"x")
    if hasattr(on.transport, "get_read_buffer_size"):
        # TLS: it is decrypted when reading is resumed.
        await until(on.transport.get_read_buffer_size)
    as_("somebody", on.transport.resume_reading)
    await on.protocol.wait_received(1)


async def resumes_reading_at_the_end(on: Connection) -> None:
    as_("somebody", on.transport.pause_reading)
    on.writer.close()
    as_("somebody", on.transport.resume_reading)
    await on.protocol.wait_call("eof_received")
    await on.protocol.wait_lost()


async def closes(on: Connection) -> None:
    as_("somebody", on.transport.close)
    await on.read_all()
    on.writer.close()
    await on.protocol.wait_lost()


async def closes_with_data_unread(on: Connection) -> None:
    """TLS may deliver it within close()."""
    on.writer.write(b"x" * 100_000)
    await until(lambda: on.writer.transport.get_write_buffer_size() == 0)
    await closes(on)


async def closes_before_all_is_sent(on: Connection) -> None:
    on.transport.set_write_buffer_limits(10 * LONG)
    on.fill()
    as_("somebody", on.transport.close)
    await on.read_all()
    on.writer.close()
    await on.protocol.wait_lost()


async def aborts(on: Connection) -> None:
    as_("somebody", on.transport.abort)
    await on.protocol.wait_lost()


async def writes_to_nobody(on: Connection) -> None:
    as_("somebody", on.transport.pause_reading)
    on.writer.transport.abort()
    while "connection_lost" not in on.protocol.calls:
        as_("somebody", on.transport.write, b"x" * 100_000)
        await asyncio.sleep(0)


async def writes_too_much(on: Connection) -> None:
    on.fill()
    assert "pause_writing" in on.protocol.calls
    reading = asyncio.ensure_future(on.read_all())
    await on.protocol.wait_call("resume_writing")
    reading.cancel()


async def lowers_the_limits(on: Connection) -> None:
    on.transport.set_write_buffer_limits(10 * LONG)
    on.fill()
    as_("somebody", on.transport.set_write_buffer_limits, 1)
    assert "pause_writing" in on.protocol.calls


async def writes_within_a_callback(on: Connection) -> None:
    on.protocol.then = on.fill
    on.writer.write(b"x")
    await on.protocol.wait_call("pause_writing")


async def writes_twice_within_a_callback(on: Connection) -> None:
    """What is gathered is sent when the callback ends."""

    def write() -> None:
        for _ in range(100):
            as_("somebody", on.transport.write, bytes(1000))

    on.protocol.then = write
    while "pause_writing" not in on.protocol.calls:
        on.writer.write(b"x")
        await asyncio.sleep(0)
    on.protocol.then = None
    reading = asyncio.ensure_future(on.read_all())
    await on.protocol.wait_call("resume_writing")
    reading.cancel()


async def closes_within_a_callback(on: Connection) -> None:
    on.protocol.then = lambda: as_("somebody", on.transport.close)
    on.writer.write(b"x")
    await on.read_all()
    on.writer.close()
    await on.protocol.wait_lost()


ACTIONS: list[tuple[Callable[[Connection], Coroutine[Any, Any, None]], set[str]]] = [
    (resumes_reading, {"data_received"}),
    (resumes_reading_at_the_end, {"eof_received", "connection_lost"}),
    (closes, {"connection_lost"}),
    (closes_with_data_unread, {"connection_lost"}),
    (closes_before_all_is_sent, {"connection_lost"}),
    (aborts, {"connection_lost"}),
    (writes_to_nobody, {"connection_lost"}),
    (writes_too_much, {"pause_writing", "resume_writing"}),
    (lowers_the_limits, {"pause_writing"}),
    (writes_within_a_callback, {"data_received", "pause_writing"}),
    (writes_twice_within_a_callback, {"pause_writing", "resume_writing"}),
    (closes_within_a_callback, {"data_received", "connection_lost"}),
]


@pytest.mark.parametrize("factory", [Seeing, SeeingBuffered])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("action", "calls"), ACTIONS, ids=[action.__name__ for action, _ in ACTIONS])
async def test_streams(
    loop: asyncio.AbstractEventLoop,
    kind: str,
    factory: Factory,
    action: Callable[[Connection], Any],
    calls: set[str],
) -> None:
    async with connected(kind, factory) as connection:
        await action(connection)
        assert {"connection_made", *calls} <= connection.protocol.seen.keys()


# -- datagrams --------------------------------------------------------------------------------------


class Post(Seen, asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.calls = asyncio.Condition()

    def connection_made(self, transport: Any) -> None:
        self.note("connection_made")

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.note("datagram_received")

    def error_received(self, exc: Exception) -> None:
        self.note("error_received")

    def pause_writing(self) -> None:
        self.note("pause_writing")

    def resume_writing(self) -> None:
        self.note("resume_writing")

    def connection_lost(self, exc: Exception | None) -> None:
        self.note("connection_lost")


@contextlib.asynccontextmanager
async def posting(**options: Any) -> AsyncIterator[tuple[Any, Post]]:
    transport, post = await made_by_maker(asyncio.get_running_loop().create_datagram_endpoint(Post, **options))
    yield transport, post
    as_("somebody", transport.abort)
    await until(lambda: "connection_lost" in post.seen)
    assert all(seen == {"maker"} for seen in post.seen.values()), post.seen


async def test_datagrams_after_resume_reading(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket.socketpair(type=socket.SOCK_DGRAM)
    with theirs:
        async with posting(sock=ours) as (transport, post):
            as_("somebody", transport.pause_reading)
            theirs.send(b"x")
            as_("somebody", transport.resume_reading)
            await until(lambda: "datagram_received" in post.seen)


async def test_errors_of_datagrams(loop: asyncio.AbstractEventLoop) -> None:
    """Within sendto(), which is told of the error of the datagram before, and from the loop."""
    with socket.socket(type=socket.SOCK_DGRAM) as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = nobody.getsockname()
    for is_paused in (True, False):
        async with posting(remote_addr=address) as (transport, post):
            if is_paused:
                transport.pause_reading()
            while "error_received" not in post.seen:
                as_("somebody", transport.sendto, b"x")
                if not is_paused:
                    await asyncio.sleep(0)


async def test_flow_of_datagrams(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket.socketpair(type=socket.SOCK_DGRAM)
    theirs.setblocking(False)
    with theirs:
        async with posting(sock=ours) as (transport, post):
            while "pause_writing" not in post.seen:
                as_("somebody", transport.sendto, bytes(10_000))
            while "resume_writing" not in post.seen:
                await loop.sock_recv(theirs, 1 << 16)


# -- pipes --------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def piping(way: str) -> AsyncIterator[tuple[Any, Seeing, int]]:
    """Gives the transport, its protocol and the descriptor of the other end."""
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    if way == "in":
        transport, protocol = await made_by_maker(loop.connect_read_pipe(Seeing, open(reading, "rb", 0)))
    else:
        transport, protocol = await made_by_maker(loop.connect_write_pipe(Seeing, open(writing, "wb", 0)))
    other = writing if way == "in" else reading
    os.set_blocking(other, False)
    try:
        yield transport, protocol, other
    finally:
        as_("somebody", transport.close if way == "in" else transport.abort)
        await protocol.wait_lost()
        os.close(other)
    assert all(seen == {"maker"} for seen in protocol.seen.values()), protocol.seen


async def test_pipe_after_resume_reading(loop: asyncio.AbstractEventLoop) -> None:
    async with piping("in") as (transport, protocol, other):
        as_("somebody", transport.pause_reading)
        os.write(other, b"x")
        as_("somebody", transport.resume_reading)
        await protocol.wait_received(1)


async def test_end_of_a_pipe_after_resume_reading(loop: asyncio.AbstractEventLoop) -> None:
    async with piping("in") as (transport, protocol, other):
        as_("somebody", transport.pause_reading)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), other)
        as_("somebody", transport.resume_reading)
        await protocol.wait_lost()
        assert "eof_received" in protocol.seen


async def test_flow_of_a_pipe(loop: asyncio.AbstractEventLoop) -> None:
    async with piping("out") as (transport, protocol, other):
        as_("somebody", transport.write, bytes(LONG))
        while "resume_writing" not in protocol.seen:
            with contextlib.suppress(BlockingIOError):
                os.read(other, 1 << 16)
            await asyncio.sleep(0)
        assert "pause_writing" in protocol.seen


# -- child processes ----------------------------------------------------------------------------------


class Parent(Seen, asyncio.SubprocessProtocol):
    def connection_made(self, transport: Any) -> None:
        self.note("connection_made")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.note("pipe_data_received")

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self.note("pipe_connection_lost")

    def process_exited(self) -> None:
        self.note("process_exited")

    def pause_writing(self) -> None:
        self.note("pause_writing")

    def resume_writing(self) -> None:
        self.note("resume_writing")

    def connection_lost(self, exc: Exception | None) -> None:
        self.note("connection_lost")


def ends_its_input(transport: Any) -> None:
    transport.get_pipe_transport(0).close()


def kills(transport: Any) -> None:
    transport.kill()


def closes_the_transport(transport: Any) -> None:
    transport.close()


@pytest.mark.parametrize("has_pidfds", [True, False])
@pytest.mark.parametrize("ends", [ends_its_input, kills, closes_the_transport])
async def test_child_processes(
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
    has_pidfds: bool,
    ends: Callable[[Any], None],
) -> None:
    if not has_pidfds:
        monkeypatch.delattr(os, "pidfd_open")
    program = "import sys; [sys.stdout.buffer.write(data[:1]) for data in iter(lambda: sys.stdin.buffer.read1(), b'')]"
    transport, parent = await made_by_maker(loop.subprocess_exec(Parent, sys.executable, "-uc", program))
    as_("writer", transport.get_pipe_transport(0).write, bytes(LONG))
    await until(lambda: {"pause_writing", "resume_writing", "pipe_data_received"} <= parent.seen.keys())
    as_("somebody", ends, transport)
    await until(lambda: "connection_lost" in parent.seen)
    assert {"pipe_connection_lost", "process_exited"} <= parent.seen.keys()
    assert all(seen == {"maker"} for seen in parent.seen.values()), parent.seen
    transport.close()
    await settle()
