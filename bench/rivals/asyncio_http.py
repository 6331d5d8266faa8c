"""HTTP and WebSocket servers that run on every asyncio loop; `--program` says which. One program for all loops.

httptools is vmbench's server, based on that parser; httptools-cookies also reads header fields. uvicorn and hypercorn
serve the ASGI application of the form. aiohttp and websockets use separate handlers.
"""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

import asyncio
import warnings
from typing import Any, cast

from bench.rivals import endpoint, loops
from bench.rivals.endpoint import Endpoint
from bench.rivals.http_apps import APPS

#: The further fields of an answer to `/session/N`; see `asgi_app`.
SESSION_FIELDS = {
    "Cache-Control": b"private, no-cache",
    "Vary": b"Cookie, Accept-Encoding",
    "ETag": b'"5d8c72a5edda8"',
}


async def serve_aiohttp(where: Endpoint) -> None:
    from aiohttp import web

    async def page(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * int(request.match_info["size"]))

    async def page_in_session(request: web.Request) -> web.Response:
        found = request.cookies.get("session")
        if found is None:
            return web.Response(status=403)
        fields = {name: value.decode() for name, value in SESSION_FIELDS.items()}
        fields["Set-Cookie"] = f"session={found}; Path=/; HttpOnly; SameSite=Lax"
        return web.Response(body=b"x" * int(request.match_info["size"]), headers=fields, content_type="text/plain")

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    app = web.Application()
    app.router.add_get("/{size:\\d+}", page)
    app.router.add_get("/session/{size:\\d+}", page_in_session)
    app.router.add_post("/{any:.*}", echo)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=endpoint.KEEP_ALIVE_S)
    await runner.setup()
    listener = endpoint.listen(where)
    port = endpoint.port_of(listener)
    await web.SockSite(runner, listener, backlog=endpoint.BACKLOG).start()
    endpoint.announce_port(port)
    await asyncio.Event().wait()


class Pages(asyncio.Protocol):
    """vmbench's httptools server: parses the request and answers according to its path; a body is sent back."""

    transport: asyncio.Transport
    url = b"/"
    parts: list[bytes]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        import httptools

        self.transport = cast("asyncio.Transport", transport)
        endpoint.no_delay(transport.get_extra_info("socket"))
        self.parts = []
        self.parse_url = httptools.parse_url
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_body(self, part: bytes) -> None:
        self.parts.append(part)

    def on_message_complete(self) -> None:
        if self.parts:
            body = b"".join(self.parts)
            self.parts = []
        else:
            body = b"x" * int(self.parse_url(self.url).path[1:])
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
        self.transport.writelines([head % len(body), body])


class PagesInSession(Pages):
    """The same with what `/session/N` of the ASGI application does."""

    found = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"cookie":
            self.found = next((text for text in value.split(b"; ") if text.startswith(b"session=")), b"")

    def on_message_complete(self) -> None:
        path = self.parse_url(self.url).path
        if not path.startswith(b"/session/"):
            super().on_message_complete()
            return
        size = int(path.removeprefix(b"/session/"))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n%bSet-Cookie: %b%b\r\n\r\n"
        fields = b"".join(b"%b: %b\r\n" % (name.encode(), value) for name, value in SESSION_FIELDS.items())
        cookie, self.found = self.found, b""
        if not cookie:
            self.transport.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        made = head % (size, fields, cookie, b"; Path=/; HttpOnly; SameSite=Lax")
        self.transport.writelines([made, b"x" * size])


async def serve_httptools(where: Endpoint, protocol: type[Pages] = Pages) -> None:
    loop = asyncio.get_running_loop()
    listener = endpoint.listen(where)
    port = endpoint.port_of(listener)
    await loop.create_server(protocol, sock=listener, backlog=endpoint.BACKLOG)
    endpoint.announce_port(port)
    await asyncio.Event().wait()


async def serve_cookies(where: Endpoint) -> None:
    await serve_httptools(where, PagesInSession)


async def serve_uvicorn(where: Endpoint, websockets: str = "websockets", parser: str = "httptools") -> None:
    import uvicorn

    # uvicorn's websockets support uses the legacy part of that library.
    warnings.simplefilter("ignore", DeprecationWarning)
    listener = endpoint.listen(where)
    port = endpoint.port_of(listener)
    config = uvicorn.Config(
        cast("Any", APPS[where.form].load()),
        http=parser,
        ws=websockets if where.form == "websocket" else "none",
        lifespan="off",
        log_level="error",
        access_log=False,
        loop="none",
        backlog=endpoint.BACKLOG,
        timeout_keep_alive=endpoint.KEEP_ALIVE_S,
    )
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    endpoint.announce_port(port)
    await task


async def serve_zttp(where: Endpoint) -> None:
    await serve_uvicorn(where, parser="zttp")


async def serve_wsproto(where: Endpoint) -> None:
    await serve_uvicorn(where, "wsproto")


async def serve_hypercorn(where: Endpoint) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.errorlog = None
    config.backlog = endpoint.BACKLOG
    config.keep_alive_timeout = endpoint.KEEP_ALIVE_S
    # By default it closes a connection after a thousand requests.
    config.keep_alive_max_requests = 1_000_000_000
    if where.tls:
        config.certfile = config.keyfile = where.tls
    config.bind = [f"fd://{endpoint.hand_over_listener(where)}"]
    await serve(cast("Any", APPS[where.form].load()), config)


async def serve_websockets(where: Endpoint) -> None:
    from websockets.asyncio.server import ServerConnection, serve

    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    listener = endpoint.listen(where)
    port = endpoint.port_of(listener)
    async with serve(echo, sock=listener, backlog=endpoint.BACKLOG):
        endpoint.announce_port(port)
        await asyncio.Event().wait()


PROGRAMS = {
    "aiohttp": serve_aiohttp,
    "httptools": serve_httptools,
    "httptools-cookies": serve_cookies,
    "hypercorn": serve_hypercorn,
    "uvicorn": serve_uvicorn,
    "uvicorn-wsproto": serve_wsproto,
    "uvicorn-zttp": serve_zttp,
    "websockets": serve_websockets,
}

if __name__ == "__main__":
    asked = endpoint.parse()
    loops.run(PROGRAMS[asked.program](asked), asked.loop)
