"""`Site`: a server of one ASGI application on the running loop; `Wire`: a raw client of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from oneloop import _native

Scope = MutableMapping[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[Any]]

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass
class Answer:
    """One response, as it came."""

    version: bytes
    status: int
    reason: bytes
    fields: list[tuple[bytes, bytes]]
    body: bytes = b""
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.fields if key.lower() == name]

    @property
    def closes(self) -> bool:
        return b"close" in self.values(b"connection")


class Wire:
    """A connection of a client that sends what the test says, and reads strictly."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_bytewise(self, data: bytes) -> None:
        """Each byte is read by the server on its own. Stops where the server has closed."""
        for at in range(len(data)):
            # Not `at_eof()`, which is false while the response has not been read.
            if self.writer.is_closing() or self.reader._eof:  # type: ignore[attr-defined]
                return
            self.writer.write(data[at : at + 1])
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    def end(self) -> None:
        self.writer.write_eof()

    async def fields(self) -> list[tuple[bytes, bytes]]:
        found = []
        while (line := await self.reader.readuntil(b"\r\n")) != b"\r\n":
            name, colon, value = line[:-2].partition(b":")
            assert colon, line
            assert name, line
            assert name == name.strip(), line
            found.append((name, value.strip()))
        return found

    async def head(self) -> Answer:
        line = await self.reader.readuntil(b"\r\n")
        version, status, reason = line[:-2].split(b" ", 2)
        assert version == b"HTTP/1.1", line
        return Answer(version, int(status), reason, await self.fields())

    async def answer(self, method: str = "GET") -> Answer:
        """One response; interim ones are returned like others."""
        answer = await self.head()
        if method == "HEAD" or answer.status in (101, 103, 100, 204, 304):
            return answer
        lengths, codings = answer.values(b"content-length"), answer.values(b"transfer-encoding")
        assert len(lengths) + len(codings) <= 1, answer
        if lengths:
            answer.body = await self.reader.readexactly(int(lengths[0]))
        elif codings:
            assert codings == [b"chunked"], answer
            while size := int((await self.reader.readuntil(b"\r\n"))[:-2], 16):
                answer.body += await self.reader.readexactly(size)
                assert await self.reader.readexactly(2) == b"\r\n"
            answer.trailers = await self.fields()
        else:
            assert answer.closes, answer
            answer.body = await self.reader.read()
        return answer

    async def rest(self) -> bytes:
        """Everything up to the orderly end."""
        return await self.reader.read()

    async def ask(self, data: bytes = GET, method: str = "GET") -> Answer:
        await self.send(data)
        return await self.answer(method)

    def reset(self) -> None:
        """Vanish: the peer gets a reset."""
        sock = cast("socket.socket", self.writer.get_extra_info("socket"))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


async def small_client(port: int, **options: Any) -> Wire:
    """A client that takes little before its test reads."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    return Wire(*await asyncio.open_connection(sock=sock, limit=1024, **options))


class Site:
    """A server on a port of its own."""

    def __init__(self, http: _native.HttpServer, port: int) -> None:
        self.http, self.port = http, port
        self.wires: list[Wire] = []

    async def connect(self, **options: Any) -> Wire:
        wire = Wire(*await asyncio.open_connection("127.0.0.1", self.port, **options))
        self.wires.append(wire)
        return wire

    async def ask(self, data: bytes = GET, method: str = "GET") -> Answer:
        """One request on a connection of its own."""
        wire = await self.connect()
        try:
            return await wire.ask(data, method)
        finally:
            await wire.close()

    async def until_idle(self) -> None:
        """All requests have ended."""
        while self.http.requests:
            await asyncio.sleep(0)

    async def until_empty(self) -> None:
        """All connections have ended, too."""
        while self.http.connections or self.http.requests:
            await asyncio.sleep(0)


@asynccontextmanager
async def serving(app: App, **options: Any) -> AsyncIterator[Site]:
    loop = asyncio.get_running_loop()
    http = _native.HttpServer(loop, app, **options)
    server = await loop.create_server(cast("Callable[[], asyncio.Protocol]", http), "127.0.0.1", 0)
    site = Site(http, server.sockets[0].getsockname()[1])
    try:
        yield site
    finally:
        server.close()
        for wire in site.wires:
            await wire.close()
        http.abort()
        await site.until_empty()
        await server.wait_closed()


@asynccontextmanager
async def secured(app: App, context: Any, **options: Any) -> AsyncIterator[tuple[Site, int]]:
    """A server that also has a port with TLS; plain, if there is no context."""
    async with serving(app, **options) as site:
        loop = asyncio.get_running_loop()
        factory = cast("Callable[[], asyncio.Protocol]", site.http)
        server = await loop.create_server(factory, "127.0.0.1", 0, ssl=context)
        try:
            yield site, server.sockets[0].getsockname()[1]
        finally:
            server.close()


async def body_of(receive: Receive) -> bytes:
    """The whole body of a request."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError(message)
        body += message["body"]
        if not message["more_body"]:
            return bytes(body)


async def reply(
    send: Send, body: bytes = b"", status: int = 200, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """A whole response with its length."""
    headers = [(b"content-length", b"%d" % len(body)), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@dataclass
class Heard:
    """What an application was told of one request."""

    scope: Scope
    body: bytes | None = None


class Echo:
    """Answers with the request's body, and keeps what it was told."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        heard = Heard(scope)
        self.heard.append(heard)
        heard.body = await body_of(receive)
        await reply(send, heard.body)
