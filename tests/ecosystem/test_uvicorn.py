"""uvicorn with an ASGI application, over h11 and httptools, asked by httpx (over anyio)."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from tests.certificates import client_context

Message = dict[str, Any]


async def application(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    assert scope["type"] == "http"
    digest, size, more = hashlib.sha256(), 0, True
    while more:
        message = await receive()
        digest.update(message.get("body", b""))
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    if scope["path"] == "/stream":
        for number in range(100):
            await send({"type": "http.response.body", "body": b"%06d" % number * 1000, "more_body": True})
        await send({"type": "http.response.body"})
    else:
        body = f"{scope['method']} {scope['path']} {size} {digest.hexdigest()}"
        await send({"type": "http.response.body", "body": body.encode()})


class Server(uvicorn.Server):
    """Leaves the signals to the test."""

    def install_signal_handlers(self) -> None: ...


@asynccontextmanager
async def serving(http: str) -> AsyncIterator[str]:
    config = uvicorn.Config(
        application,
        host="127.0.0.1",
        port=0,
        http=http,
        ws="none",
        log_level="error",
        access_log=False,  # type: ignore[arg-type]
    )
    server = Server(config)
    config.load()
    task = asyncio.create_task(server._serve())
    while not server.started:
        await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


@pytest.mark.parametrize("http", ["h11", "httptools"])
async def test_requests(loop: asyncio.AbstractEventLoop, http: str) -> None:
    async with serving(http) as url, httpx.AsyncClient(verify=client_context()) as client:
        for size in (0, 1, 100_000, 3_000_000):
            body = os.urandom(size)
            response = await client.post(f"{url}/path", content=body)
            assert response.text == f"POST /path {size} {hashlib.sha256(body).hexdigest()}"
        response = await client.get(f"{url}/stream")
        assert response.content == b"".join(b"%06d" % number * 1000 for number in range(100))
        responses = await asyncio.gather(*(client.get(f"{url}/{number}") for number in range(100)))
        assert [response.status_code for response in responses] == [200] * 100
        async with client.stream("GET", f"{url}/stream") as streamed:
            first = await anext(streamed.aiter_bytes())
            assert first.startswith(b"000000")
