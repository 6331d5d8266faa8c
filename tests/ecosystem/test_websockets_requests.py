"""The websockets package's client against our connections."""

from __future__ import annotations

import pytest
import websockets
import websockets.asyncio.client

from tests.http.site import Receive, Scope, Send, serving
from tests.http.test_websocket_handshake import echo


@pytest.fixture
def loop_name() -> str:
    return "oneloop"


@pytest.mark.parametrize("compression", ["deflate", None])
async def test_the_websockets_client(compression: str | None) -> None:
    async with serving(echo) as site:
        uri = f"ws://127.0.0.1:{site.port}/"
        async with websockets.asyncio.client.connect(uri, compression=compression, max_size=None) as client:
            for message in ("text \u20ac", b"bytes", "", b"", "a" * 200_000, bytes(3_000_000)):
                await client.send(message)
                assert await client.recv() == message
            await client.send(["frag", "men", "ted"])
            assert await client.recv() == "fragmented"
            await (await client.ping())
        assert client.close_code == 1000


async def test_the_websockets_client_is_refused() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.close"})

    async with serving(app) as site:
        with pytest.raises(websockets.exceptions.InvalidStatus) as info:
            async with websockets.asyncio.client.connect(f"ws://127.0.0.1:{site.port}/"):
                pass
        assert info.value.response.status_code == 403
