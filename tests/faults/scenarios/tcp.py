"""Echo servers over TCP and Unix sockets: by protocol, by streams, by `sock_*`. Four clients at the same time."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

import oneloop
from tests.faults.evidence import Evidence
from tests.faults.runs import Scenario
from tests.faults.scenarios.peers import TIMEOUT_S, Peer, exchange

SIZES = (10, 5_000, 300_000, 10)

Serve = Callable[[Evidence, socket.socket, asyncio.Event], Awaitable[None]]


def clients(evidence: Evidence, family: int, address: Any) -> None:
    """All connect, then all exchange, so that each is a neighbour of the others."""
    socks = []
    for _ in SIZES:
        sock = socket.socket(family)
        sock.settimeout(TIMEOUT_S)
        sock.connect(address)
        socks.append(sock)
    try:
        for number, (sock, size) in enumerate(zip(socks, SIZES, strict=True)):
            exchange(f"client {number}", sock, os.urandom(size), evidence)
    finally:
        for sock in socks:
            sock.close()


class Echo(asyncio.Protocol):
    """Echoes, and notes the error that ends it."""

    def __init__(self, evidence: Evidence, all_gone: asyncio.Event, open_now: set[Echo]) -> None:
        self.evidence, self.all_gone, self.open_now = evidence, all_gone, open_now

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.open_now.add(self)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self.evidence.errors.append(error)
        self.open_now.discard(self)


async def _by_protocol(evidence: Evidence, listener: socket.socket, done: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    open_now: set[Echo] = set()
    async with await loop.create_server(lambda: Echo(evidence, done, open_now), sock=listener):
        await done.wait()
        while open_now:
            await asyncio.sleep(0.001)


async def _by_streams(evidence: Evidence, listener: socket.socket, done: asyncio.Event) -> None:
    busy: set[object] = set()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        busy.add(writer)
        try:
            while data := await reader.read(4096):
                writer.write(data)
                await writer.drain()
        except OSError as error:
            evidence.errors.append(error)
        finally:
            writer.close()
            try:
                await writer.wait_closed()
            except OSError as error:
                evidence.errors.append(error)
            busy.discard(writer)

    async with await asyncio.start_server(echo, sock=listener):
        await done.wait()
        while busy:
            await asyncio.sleep(0.001)


async def _by_sock_calls(evidence: Evidence, listener: socket.socket, done: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    listener.setblocking(False)

    async def echo(sock: socket.socket) -> None:
        with sock:
            try:
                while data := await loop.sock_recv(sock, 65536):
                    await loop.sock_sendall(sock, data)
            except OSError as error:
                evidence.errors.append(error)

    async def accept() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in SIZES:
                try:
                    sock, _ = await loop.sock_accept(listener)
                except OSError as error:
                    evidence.errors.append(error)
                    sock, _ = await loop.sock_accept(listener)
                group.create_task(echo(sock))

    with listener:
        accepting = asyncio.create_task(accept())
        await done.wait()
        await accepting


async def _main(evidence: Evidence, family: int, serve: Serve) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(evidence.handler)
    listener = socket.socket(family)
    with tempfile.TemporaryDirectory() as folder:
        listener.bind(f"{folder}/s" if family == socket.AF_UNIX else ("127.0.0.1", 0))
        listener.listen()
        address = listener.getsockname()
        done = asyncio.Event()
        peer = Peer(functools.partial(clients, evidence, family, address), lambda: loop.call_soon_threadsafe(done.set))
        peer.start()
        try:
            await serve(evidence, listener, done)
        finally:
            listener.close()
            peer.finish()


def _run(family: int, serve: Serve, evidence: Evidence) -> None:
    oneloop.run(_main(evidence, family, serve))


SCENARIOS = tuple(
    # `drain` says ConnectionResetError("Connection lost") for every error, as asyncio's does; `wait_closed` says which.
    Scenario(
        f"{kind} {how}", functools.partial(_run, family, serve), (ConnectionResetError,) if how == "streams" else ()
    )
    for kind, family in (("tcp", socket.AF_INET), ("unix", socket.AF_UNIX))
    for how, serve in (("protocol", _by_protocol), ("streams", _by_streams), ("sock_*", _by_sock_calls))
)
