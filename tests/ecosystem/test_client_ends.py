"""Streaming responses of real frameworks whose client leaves while they wait: they end soon, as on uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import pytest
import uvicorn
from fastapi import FastAPI
from litestar import Litestar, get
from litestar.response import Stream
from quart import Quart
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.http.hostile import LEAVING, close_half
from tests.http.site import App, serving


@pytest.fixture
def loop_name() -> str:
    return "oneloop"


@pytest.fixture
def clients() -> Iterator[list[socket.socket]]:
    """Those that a test has opened."""
    opened: list[socket.socket] = []
    yield opened
    for client in opened:
        client.close()


class Source:
    """Events for one client, of which none comes."""

    def __init__(self, size: int) -> None:
        self.size = size
        """Bytes that are sent before the wait; a client that does not read takes few."""
        self.began, self.ended, self.worked_after = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def events(self) -> AsyncIterator[bytes]:
        try:
            self.began.set()
            for _ in range(0, self.size, 50_000):
                yield bytes(50_000)
            yield b"data: 1\n\n"
            await asyncio.Event().wait()
        finally:
            self.ended.set()

    async def after(self) -> None:
        self.worked_after.set()


def of_starlette(source: Source) -> App:
    async def stream(request: object) -> StreamingResponse:
        return StreamingResponse(source.events(), background=BackgroundTask(source.after))

    return cast("App", Starlette(routes=[Route("/", stream)]))


def of_fastapi(source: Source) -> App:
    made = FastAPI()

    @made.get("/")
    async def stream() -> StreamingResponse:
        return StreamingResponse(source.events(), background=BackgroundTask(source.after))

    return cast("App", made)


def of_quart(source: Source) -> App:
    made = Quart(__name__)

    @made.route("/")
    async def stream() -> Any:
        return source.events(), {"Content-Type": "text/event-stream"}

    return cast("App", made)


def of_litestar(source: Source) -> App:
    @get("/")
    async def stream() -> Stream:
        return Stream(source.events())

    return cast("App", Litestar([stream], logging_config=None))


FRAMEWORKS = {"starlette": of_starlette, "fastapi": of_fastapi, "quart": of_quart, "litestar": of_litestar}
ENDS: dict[str, Callable[[socket.socket], None]] = {**LEAVING, "half": close_half}


@contextlib.asynccontextmanager
async def by_uvicorn(app: App) -> AsyncIterator[int]:
    config = uvicorn.Config(app, lifespan="off", log_config=None)
    config.load()
    state = uvicorn.server.ServerState()

    def protocol() -> asyncio.Protocol:
        made = cast("Callable[..., asyncio.Protocol]", config.http_protocol_class)
        return made(config=config, server_state=state, app_state={})

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    while state.connections or state.tasks:
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def by_oneloop(app: App) -> AsyncIterator[int]:
    async with serving(app) as site:
        yield site.port
        while site.http.requests or site.http.connections:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("server", [by_oneloop, by_uvicorn])
@pytest.mark.parametrize("size", [0, 20_000_000], ids=["waits", "not read"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_a_client_that_leaves_ends_the_response(
    framework: str,
    end: str,
    size: int,
    server: Callable[[App], contextlib.AbstractAsyncContextManager[int]],
    clients: list[socket.socket],
) -> None:
    if size and end == "half":
        pytest.skip("nobody sees the end of a client behind data that it does not read; the drain deadline ends it")
    source = Source(size)
    async with server(FRAMEWORKS[framework](source)) as port:
        client = socket.create_connection(("127.0.0.1", port))
        clients.append(client)
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        client.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(client, 100)
        async with asyncio.timeout(60):
            await source.began.wait()
            ENDS[end](client)
            await source.ended.wait()
            if framework in ("starlette", "fastapi"):
                await source.worked_after.wait()


class Numbers(Source):
    """Events that come one after the other."""

    async def events(self) -> AsyncIterator[bytes]:
        for number in range(self.size):
            await asyncio.sleep(0.01)
            yield b"%d," % number


@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_a_client_that_has_ended_its_side_and_reads_gets_everything(
    framework: str, clients: list[socket.socket]
) -> None:
    """As `nc -N` does; uvicorn cuts it off."""
    source = Numbers(50)
    async with by_oneloop(FRAMEWORKS[framework](source)) as port:
        client = socket.create_connection(("127.0.0.1", port))
        clients.append(client)
        client.sendall(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")
        close_half(client)
        client.setblocking(False)
        data = b""
        while part := await asyncio.get_running_loop().sock_recv(client, 1000):
            data += part
    assert data.endswith(b"\r\n\r\n" + b"".join(b"%d," % number for number in range(50)))
