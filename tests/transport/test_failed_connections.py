"""A connection that could not be made leaves nothing behind that only the garbage collector frees.

Each way a connection attempt can fail × how it was begun. asyncio keeps cycles through exceptions and frames here, with
happy eyeballs also through its tasks (python/cpython#124858).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import socket
import ssl
import sys
import tempfile
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import HOST, client_context, server_context, verifying_context
from tests.conftest import settle
from tests.descriptors import open_descriptors
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
    return [repr(each) for each in gc.get_objects() if isinstance(each, Exception)]


def sockets() -> set[str]:
    return {target for target in open_descriptors().values() if target.startswith("socket:")}


async def fails(attempts: Attempts, connecting: Coroutine[Any, Any, Any], *kinds: type[BaseException]) -> None:
    task = asyncio.ensure_future(connecting)
    await asyncio.wait([task])
    error = task.exception()
    assert isinstance(error, kinds), error
    attempts.made.append(weakref.ref(task))


@contextlib.asynccontextmanager
async def peer(kind: str, path: str | None = None) -> AsyncIterator[Any]:
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
    if path is None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    else:
        server = await asyncio.start_unix_server(serve, path, ssl=context)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()
        await server.wait_closed()


async def refused(loop: Any, attempts: Attempts, **options: Any) -> None:
    async with peer("nobody") as address:
        await fails(attempts, loop.create_connection(attempts.protocol, *address, **options), ConnectionRefusedError)


async def all_errors(loop: Any, attempts: Attempts, **options: Any) -> None:
    if sys.version_info < (3, 12):
        pytest.skip("all_errors came with CPython 3.12")
    async with peer("nobody") as address:
        making = loop.create_connection(attempts.protocol, *address, all_errors=True, **options)
        await fails(attempts, making, ExceptionGroup)


async def several(loop: Any, attempts: Attempts, **options: Any) -> None:
    """Several addresses of one name: none of them takes the connection."""
    async with peer("nobody") as (_, port):

        async def resolved(*_: Any, **__: Any) -> list[Any]:
            kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
            return [(*kind, (f"127.0.0.{number}", port)) for number in (1, 2, 3)]

        loop._ensure_resolved = resolved
        await fails(attempts, loop.create_connection(attempts.protocol, "name", port, **options), OSError)
        del loop._ensure_resolved


async def no_such_name(loop: Any, attempts: Attempts, **options: Any) -> None:
    # getaddrinfo(3) asks no server because of the flag.
    options["flags"] = socket.AI_NUMERICHOST
    making = loop.create_connection(attempts.protocol, "no.such.name.invalid", 1, **options)
    await fails(attempts, making, socket.gaierror)


async def no_such_service(loop: Any, attempts: Attempts, **options: Any) -> None:
    making = loop.create_connection(attempts.protocol, "127.0.0.1", "no-such-service", **options)
    await fails(attempts, making, socket.gaierror)


async def name_of_strange_letters(loop: Any, attempts: Attempts, **options: Any) -> None:
    """It is looked up in the executor, by the standard library's function."""
    loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(1))
    making = loop.create_connection(attempts.protocol, "a" * 64 + ".é.invalid", 1, **options)
    await fails(attempts, making, socket.gaierror, UnicodeError)
    await loop.shutdown_default_executor()


async def no_such_path(loop: Any, attempts: Attempts) -> None:
    await fails(attempts, loop.create_unix_connection(attempts.protocol, "/nobody/here"), FileNotFoundError)


async def local_address(loop: Any, attempts: Attempts, **options: Any) -> None:
    making = loop.create_connection(attempts.protocol, "127.0.0.1", 1, local_addr=("192.0.2.1", 0), **options)
    await fails(attempts, making, OSError)


async def factory(loop: Any, attempts: Attempts, **options: Any) -> None:
    async with peer("ends") as address:
        await fails(attempts, loop.create_connection(attempts.failing, *address, **options), RuntimeError)


async def no_transport(loop: Any, attempts: Attempts, **options: Any) -> None:
    """The connection is there, and no transport can be made of it: gh-153133."""
    async with peer("ends") as address:
        making = loop.create_connection(attempts.protocol, *address, ssl=object(), server_hostname=HOST, **options)
        await fails(attempts, making, TypeError, AttributeError)


async def cancelled_attempts(loop: Any, attempts: Attempts, **options: Any) -> None:
    """The task that connects is cancelled while the kernel waits for an answer that nobody sends."""
    connecting = asyncio.Event()

    async def sock_connect(*_: Any) -> None:
        connecting.set()
        await loop.create_future()

    loop.sock_connect = sock_connect
    task = asyncio.ensure_future(loop.create_connection(attempts.protocol, "127.0.0.1", 1, **options))
    await connecting.wait()
    task.cancel()
    await asyncio.wait([task])
    del loop.sock_connect
    attempts.made.append(weakref.ref(task))


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


async def socket_of_another(loop: Any, attempts: Attempts) -> None:
    """The transport that uses the socket keeps it: CPython 3.14.8 closes one of which no transport can be made."""
    ours, theirs = socket_pair("tcp")
    transport, protocol = await loop.create_connection(Recorder, sock=ours)
    with theirs:
        await fails(attempts, loop.create_connection(attempts.protocol, sock=ours), RuntimeError)
        making = loop.create_connection(attempts.protocol, sock=ours, ssl=client_context(), server_hostname=HOST)
        await fails(attempts, making, RuntimeError)
        transport.write(b"still here")
        assert await loop.sock_recv(theirs, 100) == b"still here"
    await protocol.wait_lost()


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
            elif way == "happy eyeballs":
                making = loop.create_connection(attempts.protocol, *address, happy_eyeballs_delay=1, **options)
            else:
                making = loop.create_connection(attempts.protocol, *address, **options)
            await fails(attempts, making, ssl.SSLError, ConnectionError)
            del making

    attempt.__name__ = f"{kind}-{way}"
    return attempt


def unix_handshake(kind: str, context: Callable[[], ssl.SSLContext], way: str) -> Any:
    async def attempt(loop: Any, attempts: Attempts) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/socket"
            async with peer(kind, path):
                options: dict[str, Any] = {"ssl": context(), "server_hostname": "else.where"}
                if way == "start_tls":
                    transport, protocol = await loop.create_unix_connection(attempts.protocol, path)
                    making = loop.start_tls(transport, protocol, options["ssl"], server_hostname="else.where")
                    del transport, protocol
                elif way == "streams":
                    making = asyncio.open_unix_connection(path, **options)
                else:
                    making = loop.create_unix_connection(attempts.protocol, path, **options)
                await fails(attempts, making, ssl.SSLError, ConnectionError)
                del making

    attempt.__name__ = f"unix-{kind}-{way}"
    return attempt


def with_happy_eyeballs(way: Any) -> Any:
    async def attempt(loop: Any, attempts: Attempts) -> None:
        await way(loop, attempts, happy_eyeballs_delay=0.001)

    attempt.__name__ = f"{way.__name__}-happy eyeballs"
    return attempt


HANDSHAKES = [
    handshake(kind, context, way)
    for kind, context in {"no TLS": client_context, "ends": client_context, "TLS": verifying_context}.items()
    for way in ("host", "happy eyeballs", "sock", "start_tls", "streams")
] + [
    unix_handshake(kind, context, way)
    for kind, context in {"no TLS": client_context, "ends": client_context, "TLS": verifying_context}.items()
    for way in ("path", "start_tls", "streams")
]
# Each also with happy eyeballs.
BY_HOST = [
    refused,
    all_errors,
    several,
    no_such_name,
    no_such_service,
    name_of_strange_letters,
    local_address,
    factory,
    no_transport,
    cancelled_attempts,
]
ATTEMPTS = [
    *BY_HOST,
    *map(with_happy_eyeballs, BY_HOST),
    no_such_path,
    timeout,
    cancelled,
    socket_of_another,
    *HANDSHAKES,
]


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.__name__)
async def test_nothing_is_left_for_the_collector(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, attempt: Callable[[Any, Attempts], Coroutine[Any, Any, None]]
) -> None:
    before, open_sockets = exceptions(), sockets()
    attempts = Attempts()
    await attempt(loop, attempts)
    await settle(5)
    assert not attempts.left()
    assert exceptions() == before
    assert sockets() == open_sockets
