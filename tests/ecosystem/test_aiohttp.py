"""aiohttp: server and client, plain and TLS, bodies of many sizes, streams, web sockets, many at once."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.certificates import client_context, server_context


async def hello(request: web.Request) -> web.Response:
    return web.Response(text=f"hello {request.match_info.get('name', 'nobody')}")


async def digest(request: web.Request) -> web.Response:
    body = await request.read()
    return web.json_response({"size": len(body), "sha256": hashlib.sha256(body).hexdigest()})


async def stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for number in range(200):
        await response.write(b"%06d" % number * 500)
    await response.write_eof()
    return response


async def websocket(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(compress=False)
    await socket.prepare(request)
    async for message in socket:
        if message.type is aiohttp.WSMsgType.BINARY:
            await socket.send_bytes(message.data[::-1])
        else:
            await socket.send_str(message.data.upper())
    return socket


@asynccontextmanager
async def serving(directory: Path, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The application on a free port; gives its URL."""
    application = web.Application(client_max_size=1 << 24)
    application.router.add_get("/hello/{name}", hello)
    application.router.add_post("/digest", digest)
    application.router.add_get("/stream", stream)
    application.router.add_get("/ws", websocket)
    application.router.add_static("/files", directory)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
        # aiohttp lets its TLS connections close after cleanup() has returned.
        await asyncio.sleep(0.05)


@asynccontextmanager
async def session(tls: ssl.SSLContext | None = None) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0, **({"ssl": tls} if tls else {}))  # type: ignore[arg-type]
    async with aiohttp.ClientSession(connector=connector) as made:
        yield made


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_requests(loop: asyncio.AbstractEventLoop, tmp_path: Path, tls: bool) -> None:
    server_tls, client_tls = (server_context(), client_context()) if tls else (None, None)
    async with serving(tmp_path, server_tls) as url, session(client_tls) as client:
        for number in range(20):
            async with client.get(f"{url}/hello/{number}") as response:
                assert response.status == 200
                assert await response.text() == f"hello {number}"
        for size in (0, 1, 65536, 1_000_000, 5_000_000):
            body = os.urandom(size)
            async with client.post(f"{url}/digest", data=io.BytesIO(body)) as response:
                assert await response.json() == {"size": size, "sha256": hashlib.sha256(body).hexdigest()}
        async with client.get(f"{url}/stream") as response:
            assert await response.read() == b"".join(b"%06d" % number * 500 for number in range(200))
        async with client.get(f"{url}/nowhere") as response:
            assert response.status == 404


async def test_many_at_once(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    async with serving(tmp_path) as url, session() as client:

        async def one(number: int) -> str:
            async with client.get(f"{url}/hello/{number}") as response:
                return await response.text()

        assert await asyncio.gather(*map(one, range(500))) == [f"hello {number}" for number in range(500)]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_files_by_sendfile(loop: asyncio.AbstractEventLoop, tmp_path: Path, tls: bool) -> None:
    content = os.urandom(3_000_001)
    (tmp_path / "file.bin").write_bytes(content)
    server_tls, client_tls = (server_context(), client_context()) if tls else (None, None)
    async with serving(tmp_path, server_tls) as url, session(client_tls) as client:
        async with client.get(f"{url}/files/file.bin") as response:
            assert await response.read() == content
        async with client.get(f"{url}/files/file.bin", headers={"Range": "bytes=1000-1999"}) as response:
            assert response.status == 206
            assert await response.read() == content[1000:2000]


async def test_web_sockets(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    async with serving(tmp_path) as url, session() as client, client.ws_connect(f"{url}/ws") as socket:
        for size in (1, 1000, 200_000):
            data = os.urandom(size)
            await socket.send_bytes(data)
            assert await socket.receive_bytes() == data[::-1]
            await socket.send_str("text")
            assert await socket.receive_str() == "TEXT"


async def test_clients_that_leave_in_the_middle(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    async with serving(tmp_path) as url, session() as client:
        for _ in range(10):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0), client.get(f"{url}/stream") as response:
                    await response.read()
        async with client.get(f"{url}/stream") as response:
            await response.content.read(10)
            response.close()
        async with client.get(f"{url}/hello/x") as response:
            assert await response.text() == "hello x"


async def test_nobody_listens(loop: asyncio.AbstractEventLoop, unused_port: int) -> None:
    async with session() as client:
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(f"http://127.0.0.1:{unused_port}/")


@pytest.fixture
def unused_port() -> int:
    from tests.ports import free_port

    return free_port()
