"""`Endpoint`: the other end of a connection, TLS in memory over a socket; every record leaves when the test says so.

Uses the loop's `sock_recv` and `sock_sendall` alone, nothing of its TLS. `raw` sends bytes beside the TLS connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tests.conftest import settle
from tests.protocols import Recorder
from tests.tls.authority import HOST, Authority
from tests.transport.conftest import socket_pair

T = TypeVar("T")
BLOCK = 1 << 16


class Endpoint:
    def __init__(self, sock: socket.socket, context: ssl.SSLContext, **options: Any) -> None:
        """`options` are those of `SSLContext.wrap_bio`; without them it is a client of HOST."""
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        if not options.get("server_side"):
            options.setdefault("server_hostname", HOST)
        self.tls = context.wrap_bio(self.incoming, self.outgoing, **options)

    async def raw(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def flush(self) -> None:
        if data := self.outgoing.read():
            await self.raw(data)

    async def take(self) -> bool:
        """Wait for more ciphertext; False at the end of the stream."""
        data = await asyncio.get_running_loop().sock_recv(self.sock, BLOCK)
        if data:
            self.incoming.write(data)
        else:
            self.incoming.write_eof()
        return bool(data)

    async def until_done(self, function: Callable[..., T], *arguments: Any) -> T:
        """A call of `ssl` that may need more from the peer; alerts leave, too."""
        while True:
            try:
                return function(*arguments)
            except ssl.SSLWantReadError:
                await self.flush()
                await self.take()
            finally:
                await self.flush()

    async def shake_hands(self) -> None:
        await self.until_done(self.tls.do_handshake)

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[await self.until_done(self.tls.write, view[: 1 << 20]) :]

    async def receive(self, count: int) -> bytes:
        """The next `count` bytes; fewer at the end."""
        data = bytearray()
        while len(data) < count:
            got = await self.until_done(self.tls.read, count - len(data))
            if not got:
                break
            data += got
        return bytes(data)

    async def receive_all(self) -> bytes:
        """Everything up to close_notify; `ssl.SSLEOFError` where the stream ends without."""
        data = bytearray()
        # Where this end has said goodbye before, `ssl` raises instead of giving b"".
        with contextlib.suppress(ssl.SSLZeroReturnError):
            while got := await self.until_done(self.tls.read, BLOCK):
                data += got
        return bytes(data)

    def encrypted(self, data: bytes) -> bytes:
        """Records for the test to send."""
        assert self.tls.write(data) == len(data)
        return self.outgoing.read()

    def goodbye(self) -> bytes:
        """A close_notify for the test to send."""
        # What it still waits for is the peer's.
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            self.tls.unwrap()
        return self.outgoing.read()

    async def say_goodbye(self) -> None:
        await self.raw(self.goodbye())


@asynccontextmanager
async def facing(
    authority: Authority,
    factory: Callable[[], Any] = Recorder,
    *,
    server_side: bool = True,
    version: str | None = None,
    kind: str = "tcp",
    **options: Any,
) -> AsyncIterator[tuple[Any, Any, Endpoint]]:
    """A TLS transport of the loop with its protocol, and the endpoint that it talks to; `server_side` is ours."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket_pair(kind)
    try:
        if server_side:
            context = options.pop("ssl", None) or authority.server_context(version)
            endpoint = Endpoint(theirs, authority.client_context(version))
            making = loop.create_task(loop.connect_accepted_socket(factory, ours, ssl=context, **options))
        else:
            context = options.pop("ssl", None) or authority.client_context(version)
            endpoint = Endpoint(theirs, authority.server_context(version), server_side=True)
            making = loop.create_task(
                loop.create_connection(factory, sock=ours, ssl=context, server_hostname=HOST, **options)
            )
        await endpoint.shake_hands()
        transport, protocol = await making
        try:
            yield transport, protocol, endpoint
        finally:
            if not transport.is_closing():
                transport.abort()
    finally:
        theirs.close()
        await settled()


@asynccontextmanager
async def connected(
    authority: Authority,
    client: Callable[[], Any] = Recorder,
    server: Callable[[], Any] = Recorder,
    *,
    version: str | None = None,
    kind: str = "tcp",
    **options: Any,
) -> AsyncIterator[tuple[Any, Any, Any, Any]]:
    """Both ends of the loop: the client's transport and protocol, the server's transport and protocol."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket_pair(kind)
    made: list[Any] = await asyncio.gather(
        loop.create_connection(
            client, sock=ours, ssl=authority.client_context(version), server_hostname=HOST, **options
        ),
        loop.connect_accepted_socket(server, theirs, ssl=authority.server_context(version), **options),
        return_exceptions=True,
    )
    for failed in made:
        if isinstance(failed, BaseException):
            for other in made:
                if other is not failed and isinstance(other, tuple):
                    other[0].abort()
            await settled()
            raise failed
    (transport, protocol), (accepted, server_protocol) = made
    try:
        yield transport, protocol, accepted, server_protocol
    finally:
        for end in (transport, accepted):
            if not end.is_closing():
                end.abort()
        await settled()


async def happens(is_so: Callable[[], bool], turns: int = 100) -> bool:
    """Whether it comes true within so many turns; no question of time."""
    while not is_so() and turns:
        await settled(2)
        turns -= 1
    return is_so()


async def settled(turns: int = 10) -> None:
    """What ends by itself ends."""
    await settle(turns)
    await asyncio.sleep(0.001)
    await asyncio.sleep(0)
