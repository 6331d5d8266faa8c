"""101 and heads whose bodies are no HTTP."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from oneloop.http import (
    RemoteProtocolError,
)
from oneloop.http.client.tunnels import Tunnel
from tests.client.callers import Caller
from tests.client.servers import Peer, RawServer
from tests.conftest import cancelled, settle


def switch(peer: Peer) -> None:
    peer.head()
    peer.send(b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nmore")
    peer.wait_for_end()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_101_that_was_not_asked_for(caller: Caller) -> None:
    with RawServer(switch) as server:
        for _ in range(2):
            with pytest.raises(RemoteProtocolError, match="not asked for"):
                caller.get(server.url)
    assert caller.statistics()["idle"] == 0


def test_101_has_no_body(caller: Caller) -> None:
    with RawServer(switch) as server:
        response = caller.get(server.url, headers={"Upgrade": "x", "Connection": "upgrade"})
        assert (response.status_code, response.content) == (101, b"")
        response, pieces = caller.pieces("GET", server.url, headers={"Upgrade": "x", "Connection": "upgrade"})
        assert pieces == []
    assert caller.statistics()["idle"] == 0


def test_a_head_is_there_although_its_body_is_broken(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a chunk\r\n")
        peer.wait_for_end()

    with RawServer(serve) as server:
        with pytest.raises(RemoteProtocolError):
            caller.pieces("GET", server.url)


async def test_a_second_reader_is_cancelled_while_another_one_waits() -> None:
    """The bytes are the first one's then."""
    transport = SimpleNamespace(set_protocol=lambda _: None, resume_reading=lambda: None)
    exchange = SimpleNamespace(take=lambda: b"", protocol=object(), transport=transport)
    loop: Any = asyncio.get_running_loop()
    tunnel = Tunnel(loop, exchange)
    first = loop.create_task(tunnel.read(10))
    await settle(1)
    assert (await cancelled(tunnel.read(10))).cancelled()
    tunnel.data_received(b"more")
    assert await first == b"more"
