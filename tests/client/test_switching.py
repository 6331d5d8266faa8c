"""101 and heads whose bodies are no HTTP."""

from __future__ import annotations

import pytest

from oneloop.http import (
    RemoteProtocolError,
)
from tests.client.callers import Caller
from tests.client.servers import Peer, RawServer


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
