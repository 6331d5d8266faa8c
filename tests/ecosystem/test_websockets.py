"""websockets: server and client, plain and TLS."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
import websockets.asyncio.client
import websockets.asyncio.server

from tests.certificates import client_context, server_context


async def echo(connection: websockets.asyncio.server.ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_messages(loop: asyncio.AbstractEventLoop, tls: bool) -> None:
    server_options: dict[str, Any] = {"ssl": server_context()} if tls else {}
    client_options: dict[str, Any] = {"ssl": client_context()} if tls else {}
    async with websockets.asyncio.server.serve(
        echo, "127.0.0.1", 0, max_size=None, compression=None, **server_options
    ) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        url = f"{'wss' if tls else 'ws'}://127.0.0.1:{port}"

        async def one(number: int) -> None:
            async with websockets.asyncio.client.connect(
                url, max_size=None, compression=None, proxy=None, **client_options
            ) as client:
                for size in (0, 1, 125, 126, 65536, 500_000):
                    data = os.urandom(size)
                    await client.send(data)
                    assert await client.recv() == data
                await client.send(f"text {number}")
                assert await client.recv() == f"text {number}"
                await (await client.ping())

        await asyncio.gather(*map(one, range(10)))
