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


def made_tunnel(loop: Any) -> Tunnel:
    transport = SimpleNamespace(
        set_protocol=lambda _: None,
        set_write_buffer_limits=lambda high: None,
        resume_reading=lambda: None,
        is_closing=lambda: False,
        write=lambda _: None,
    )
    return Tunnel(loop, SimpleNamespace(take=lambda: b"", error=None, protocol=object(), transport=transport))


async def test_a_second_reader_is_cancelled_while_another_one_waits() -> None:
    """The bytes are the first one's then."""
    loop: Any = asyncio.get_running_loop()
    tunnel = made_tunnel(loop)
    first = loop.create_task(tunnel.read(10))
    await settle(1)
    assert (await cancelled(tunnel.read(10))).cancelled()
    tunnel.data_received(b"more")
    assert await first == b"more"


async def test_all_who_wait_at_a_tunnel_are_woken() -> None:
    """Each looks whether it is what it has waited for."""
    loop: Any = asyncio.get_running_loop()
    tunnel = made_tunnel(loop)
    readers = [loop.create_task(tunnel.read(1)) for _ in range(2)]
    tunnel.pause_writing()
    writer = loop.create_task(tunnel.write(b"x"))
    await settle(2)
    tunnel.data_received(b"ab")
    assert [await reader for reader in readers] == [b"a", b"b"]
    assert not writer.done()
    reader = loop.create_task(tunnel.read(1))
    await settle(2)
    tunnel.resume_writing()
    await writer
    tunnel.data_received(b"c")
    assert await reader == b"c"
