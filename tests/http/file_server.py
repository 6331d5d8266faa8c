"""An HTTP server with static folders, on the loop of the test, and a client that sees every byte of its responses."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneloop import _native
from oneloop.http.static import settings

App = Callable[..., Any]
PLAIN_END = b"\r\n\r\n"


async def not_found(scope: Any, receive: Any, send: Any) -> None:
    """The application behind the folders: its responses are told from theirs by their body."""
    assert scope["type"] == "http", scope["type"]
    headers = [(b"content-length", b"3")]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": b"app"})


@dataclass
class Answer:
    """One response, as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(
        self, target: str, method: str = "GET", body: bytes = b"", *, version: str = "1.1", **headers: str
    ) -> None:
        """Send a request; names of headers have underscores for dashes."""
        lines = [f"{method} {target} HTTP/{version}", "Host: test"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    async def head(self) -> Answer:
        """Read a response's head."""
        head = (await self.reader.readuntil(PLAIN_END)).decode("latin-1")
        first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        pairs = [line.split(": ", 1) for line in lines]
        headers = dict(pairs)
        assert len(headers) == len(pairs), f"a field came twice: {head}"
        return Answer(int(first.split(" ")[1]), headers, b"")

    async def answer(self, *, is_head: bool = False) -> Answer:
        """Read a response."""
        answer = await self.head()
        if is_head or answer.status == 304:
            return answer
        if answer.headers.get("transfer-encoding") == "chunked":
            while length := int(await self.reader.readline(), 16):
                answer.body += await self.reader.readexactly(length)
                assert await self.reader.readline() == b"\r\n"
            while await self.reader.readline() != b"\r\n":
                pass
        else:
            answer.body = await self.reader.readexactly(int(answer.headers["content-length"]))
        return answer

    async def get(self, target: str, method: str = "GET", **headers: str) -> Answer:
        """Send a request and read its response."""
        self.send(target, method, b"", **headers)
        return await self.answer(is_head=method == "HEAD")


class Serving:
    """A server that runs."""

    def __init__(self, http: _native.HttpServer, port: int, client_context: ssl.SSLContext | None) -> None:
        self.http = http
        self.port = port
        self._context = client_context

    @contextlib.asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[Client]:
        """A connection to the server."""
        secured: dict[str, Any] = {"ssl": self._context, "server_hostname": "localhost"} if self._context else {}
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **secured, **options)
        try:
            yield Client(reader, writer)
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def get(self, target: str, method: str = "GET", **headers: str) -> Answer:
        """One request on a connection of its own; the next one must be answered, too."""
        async with self.client() as client:
            answer = await client.get(target, method, **headers)
            client.send("/-", "OPTIONS")
            await client.answer()
            return answer


@contextlib.asynccontextmanager
async def serving(
    *folders: tuple[str, Path],
    app: App = not_found,
    interface: str = "asgi",
    contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
    reserved: tuple[str, ...] = (),
    **options: Any,
) -> AsyncIterator[Serving]:
    """A server, and its end: no connection and no request may be left.

    Args:
        folders: URLs and the folders there.
        app: the application behind them.
        interface: of the application.
        contexts: TLS of server and client.
        reserved: paths that are no file's.
        options: of `HttpServer`.
    """
    loop = asyncio.get_running_loop()
    if folders:
        options["static"] = settings([(url, str(folder)) for url, folder in folders], reserved)
    http = _native.HttpServer(loop, app, interface=interface, **options)  # type: ignore[arg-type]
    server = await loop.create_server(http, "127.0.0.1", 0, ssl=contexts[0] if contexts else None)
    try:
        yield Serving(http, server.sockets[0].getsockname()[1], contexts[1] if contexts else None)
    finally:
        server.close()
        http.abort()
        while http.connections or http.requests:
            await asyncio.sleep(0)
