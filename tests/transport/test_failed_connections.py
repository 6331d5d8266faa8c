"""A connection that could not be made leaves nothing behind that only the garbage collector frees.

Each way a connection attempt can fail × how it was begun. asyncio keeps cycles through exceptions and frames here. Not
with happy eyeballs: the tasks of asyncio's `staggered_race` hold each other's exceptions.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import HOST, client_context, server_context, verifying_context
from tests.conftest import settle
from tests.protocols import Recorder
from tests.transport.conftest import socket_pair

pytestmark = pytest.mark.oneloop_only("asyncio's exceptions are in cycles with frames")


@pytest.fixture(autouse=True)
def without_collector(audit: None) -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Attempts:
    """What was made for the attempts to connect: protocols and tasks."""

    def __init__(self) -> None:
        self.made: list[weakref.ref[Any]] = []

    def protocol(self) -> Recorder:
        made = Recorder()
        self.made.append(weakref.ref(made))
        return made

    def failing(self) -> Recorder:
        self.protocol()
        raise RuntimeError("the factory fails")

    def left(self) -> list[Any]:
        return [made() for made in self.made if made() is not None]


def exceptions() -> list[str]:
    return [repr(each) for each in gc.get_objects() if isinstance(each, OSError | RuntimeError)]


async def fails(attempts: Attempts, connecting: Coroutine[Any, Any, Any], *kinds: type[BaseException]) -> None:
    task = asyncio.ensure_future(connecting)
    await asyncio.wait([task])
    error = task.exception()
    assert isinstance(error, kinds), error
    attempts.made.append(weakref.ref(task))


@contextlib.asynccontextmanager
async def peer(kind: str) -> AsyncIterator[tuple[str, int]]:
    """A server that speaks no TLS, ends at once, or speaks TLS with an unknown certificate; or nobody."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if kind == "no TLS":
            writer.write(b"220 this is not TLS\r\n")
            await reader.read()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    if kind == "nobody":
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            yield bound.getsockname()
        return
    context = server_context() if kind == "TLS" else None
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()
        await server.wait_closed()


async def refused(loop: Any, attempts: Attempts) -> None:
    async with peer("nobody") as address:
        await fails(attempts, loop.create_connection(attempts.protocol, *address), ConnectionRefusedError)


async def all_errors(loop: Any, attempts: Attempts) -> None:
    async with peer("nobody") as address:
        making = loop.create_connection(attempts.protocol, *address, all_errors=True)
        await fails(attempts, making, ExceptionGroup)


async def no_such_path(loop: Any, attempts: Attempts) -> None:
    await fails(attempts, loop.create_unix_connection(attempts.protocol, "/nobody/here"), FileNotFoundError)


async def local_address(loop: Any, attempts: Attempts) -> None:
    making = loop.create_connection(attempts.protocol, "127.0.0.1", 1, local_addr=("192.0.2.1", 0))
    await fails(attempts, making, OSError)


async def factory(loop: Any, attempts: Attempts) -> None:
    async with peer("ends") as address:
        await fails(attempts, loop.create_connection(attempts.failing, *address), RuntimeError)


async def timeout(loop: Any, attempts: Attempts) -> None:
    ours, theirs = socket_pair("tcp")
    with theirs:
        making = loop.create_connection(
            attempts.protocol, sock=ours, ssl=client_context(), server_hostname=HOST, ssl_handshake_timeout=0.01
        )
        await fails(attempts, making, ConnectionAbortedError)


async def cancelled(loop: Any, attempts: Attempts) -> None:
    ours, theirs = socket_pair("tcp")
    with theirs:
        making = loop.create_connection(attempts.protocol, sock=ours, ssl=client_context(), server_hostname=HOST)
        task = asyncio.ensure_future(making)
        await loop.sock_recv(theirs, 1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


def handshake(kind: str, context: Callable[[], ssl.SSLContext], way: str) -> Any:
    async def attempt(loop: Any, attempts: Attempts) -> None:
        async with peer(kind) as address:
            options: dict[str, Any] = {"ssl": context(), "server_hostname": "else.where"}
            if way == "start_tls":
                transport, protocol = await loop.create_connection(attempts.protocol, *address)
                making = loop.start_tls(transport, protocol, options["ssl"], server_hostname="else.where")
                del transport, protocol
            elif way == "sock":
                sock = socket.create_connection(address)
                sock.setblocking(False)
                making = loop.create_connection(attempts.protocol, sock=sock, **options)
                del sock
            elif way == "streams":
                making = asyncio.open_connection(*address, **options)
            else:
                making = loop.create_connection(attempts.protocol, *address, **options)
            await fails(attempts, making, ssl.SSLError, ConnectionError)
            del making

    attempt.__name__ = f"{kind}-{way}"
    return attempt


HANDSHAKES = [
    handshake(kind, context, way)
    for kind, context in {"no TLS": client_context, "ends": client_context, "TLS": verifying_context}.items()
    for way in ("host", "sock", "start_tls", "streams")
]
PLAIN = [
    refused,
    all_errors,
    no_such_path,
    local_address,
    factory,
    timeout,
    cancelled,
]


@pytest.mark.parametrize("attempt", [*PLAIN, *HANDSHAKES], ids=lambda attempt: attempt.__name__)
async def test_nothing_is_left_for_the_collector(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, attempt: Callable[[Any, Attempts], Coroutine[Any, Any, None]]
) -> None:
    before = exceptions()
    attempts = Attempts()
    await attempt(loop, attempts)
    await settle(5)
    assert not attempts.left()
    assert exceptions() == before
