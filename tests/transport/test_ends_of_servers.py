"""Servers that end in the way that nobody tries: dropped without a close, or while they accept."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import oneloop
from tests.conftest import settle
from tests.loops import LoopFactory
from tests.protocols import keeping

Serve = Callable[[Any, Path], Coroutine[Any, Any, Any]]


def listening(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


@pytest.fixture
def port() -> int:
    with listening(0) as sock:
        return int(sock.getsockname()[1])


async def serve_tcp(loop: asyncio.AbstractEventLoop, port: int, path: Path) -> None:
    await loop.create_server(asyncio.Protocol, "127.0.0.1", port)


async def serve_a_client(loop: asyncio.AbstractEventLoop, port: int, path: Path) -> None:
    lost = loop.create_future()

    class Waiting(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            lost.set_result(exc)

    await loop.create_server(Waiting, "127.0.0.1", port)
    socket.create_connection(("127.0.0.1", port)).close()
    await lost


async def serve_tls(loop: asyncio.AbstractEventLoop, port: int, path: Path) -> None:
    await loop.create_server(asyncio.Protocol, "127.0.0.1", port, ssl=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


async def serve_a_socket(loop: asyncio.AbstractEventLoop, port: int, path: Path) -> None:
    await loop.create_server(asyncio.Protocol, sock=listening(port))


async def serve_unix(loop: asyncio.AbstractEventLoop, port: int, path: Path) -> None:
    path.unlink(missing_ok=True)
    await loop.create_unix_server(asyncio.Protocol, str(path))


async def serve_streams(loop: asyncio.AbstractEventLoop, port: int, path: Path) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    await asyncio.start_server(connected, "127.0.0.1", port)


WAYS = {
    "tcp": serve_tcp,
    "a client": serve_a_client,
    "tls": serve_tls,
    "sock": serve_a_socket,
    "unix": serve_unix,
    "streams": serve_streams,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_is_dropped_goes_with_its_loop(
    loop_factory: LoopFactory, way: str, port: int, tmp_path: Path
) -> None:
    """Two `asyncio.run`, one after the other: the address is free without a garbage collection."""
    gc.collect()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            for _ in range(2):
                loop = loop_factory()
                loop.run_until_complete(WAYS[way](loop, port, tmp_path / "socket"))
                loop.close()
            if way == "unix" and isinstance(loop, oneloop.Loop):
                # asyncio's closed loop still holds the socket; its path is free in any case.
                with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
                    client.connect(str(tmp_path / "socket"))
            del loop
    finally:
        gc.enable()
        gc.collect()


class Connection(asyncio.Protocol):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.calls.append("made")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")


class Handled(Connection):
    """As aiosmtpd's: a task of its own closes it at its end, if it has begun."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.task = asyncio.get_running_loop().create_task(self.handle())

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.task.cancel()

    async def handle(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.transport.close()


def tasks_since(before: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """The tasks that the test has started. Before 3.12 `wait_for` around it has a task of its own, too."""
    return asyncio.all_tasks() - before


def cancel_all_since(before: set[asyncio.Task[Any]]) -> None:
    for task in tasks_since(before):
        task.cancel()


# asyncio drops the socket of a connection whose accepting task was cancelled before it began.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("ticks", range(8))
async def test_all_tasks_are_cancelled_while_a_connection_is_accepted(
    loop: asyncio.AbstractEventLoop, ticks: int
) -> None:
    """Whatever the step: somebody closes it (aiosmtpd's stop, and `wait_closed` behind it)."""
    made: list[Handled] = []
    before = asyncio.all_tasks()
    server = await loop.create_server(keeping(made, Handled), "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()):
        await settle(ticks)
        cancel_all_since(before)
        server.close()
        await server.wait_closed()
    for connection in made:
        while connection.calls and "lost" not in connection.calls:
            await asyncio.sleep(0)


async def test_a_connection_just_made_is_closed_with_all_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """A protocol without a task: the accepting task is there to be cancelled, and is gone a moment later."""
    before = asyncio.all_tasks()
    connection = Connection()
    server = await loop.create_server(lambda: connection, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()):
        while not connection.calls:
            await asyncio.sleep(0)
        assert len(tasks_since(before)) == 1
        cancel_all_since(before)
        while "lost" not in connection.calls:
            await asyncio.sleep(0)
        assert connection.calls == ["made", "lost"]
    connection = Connection()
    with socket.create_connection(server.sockets[0].getsockname()):
        while not connection.calls:
            await asyncio.sleep(0)
        while tasks_since(before):
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        assert connection.calls == ["made"]
    while "lost" not in connection.calls:
        await asyncio.sleep(0)
    server.close()
    await server.wait_closed()


async def test_debug_mode_reports_an_accept_that_was_cancelled(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    before = asyncio.all_tasks()
    connection = Connection()
    server = await loop.create_server(lambda: connection, "127.0.0.1", 0)
    loop.set_debug(True)
    with socket.create_connection(server.sockets[0].getsockname()):
        while not connection.calls:
            await asyncio.sleep(0)
        cancel_all_since(before)
        while "lost" not in connection.calls:
            await asyncio.sleep(0)
    context = reported.take_one(asyncio.CancelledError)
    assert context["message"] == "Error on transport creation for incoming connection"
    assert context["transport"] is connection.transport
    assert context["protocol"] is connection
    server.close()
    await server.wait_closed()
