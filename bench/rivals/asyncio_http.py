"""HTTP on every asyncio loop: aiohttp's server, and a protocol on httptools as in vmbench.

`GET /N` is answered by N bytes. One program for all loops.
"""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

import asyncio
from typing import cast

from bench.rivals import endpoint, loops
from bench.rivals.endpoint import Endpoint


async def serve_aiohttp(where: Endpoint) -> None:
    from aiohttp import web

    async def page(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * int(request.match_info["size"]))

    app = web.Application()
    app.router.add_get("/{size:\\d+}", page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    listener = endpoint.listen(where)
    port = endpoint.port_of(listener)
    await web.SockSite(runner, listener, backlog=endpoint.BACKLOG).start()
    endpoint.announce_port(port)
    await asyncio.Event().wait()


async def serve_httptools(where: Endpoint) -> None:
    import httptools

    class Pages(asyncio.Protocol):
        """vmbench's httptools server: parse the request, answer by its path."""

        transport: asyncio.Transport
        url = b"/"

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast("asyncio.Transport", transport)
            endpoint.no_delay(transport.get_extra_info("socket"))
            self.parser = httptools.HttpRequestParser(self)

        def data_received(self, data: bytes) -> None:
            self.parser.feed_data(data)

        def on_url(self, url: bytes) -> None:
            self.url = url

        def on_message_complete(self) -> None:
            size = int(httptools.parse_url(self.url).path[1:])
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
            self.transport.writelines([head % size, b"x" * size])

    loop = asyncio.get_running_loop()
    listener = endpoint.listen(where)
    port = endpoint.port_of(listener)
    await loop.create_server(Pages, sock=listener, backlog=endpoint.BACKLOG)
    endpoint.announce_port(port)
    await asyncio.Event().wait()


async def serve_uvicorn(where: Endpoint) -> None:
    import uvicorn

    from bench.rivals.asgi_app import app

    listener = endpoint.listen(where)
    port = endpoint.port_of(listener)
    config = uvicorn.Config(
        app,
        http="httptools",
        lifespan="off",
        log_level="error",
        access_log=False,
        loop="none",
        backlog=endpoint.BACKLOG,
    )
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    endpoint.announce_port(port)
    await task


PROGRAMS = {"aiohttp": serve_aiohttp, "httptools": serve_httptools, "uvicorn": serve_uvicorn}

if __name__ == "__main__":
    asked = endpoint.parse()
    loops.run(PROGRAMS[asked.form](asked), asked.loop)
