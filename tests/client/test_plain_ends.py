"""What plain code gives up, and what has ended, is closed at once, although no loop runs afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from oneloop.http import Client, HttpxTransport, Limits, ReadTimeout, Timeout
from tests.certificates import client_context
from tests.client.servers import Peer, RawServer, secured

WAYS = {"no response": 0.3, "unread": 60.0, "partly read": 60.0, "too late": 1.0, "last": 60.0}
"""How the program gives up, or that the response is the connection's last one; and its read timeout in seconds."""
PART = b"part"

Gone = Callable[[], bool]
"""Waits until the server has seen the end of the connection. The client is still open."""


def _ask(client: Any, url: str, way: str, late: type[Exception], gone: Gone) -> None:
    """A client with httpx's interface."""
    if way == "no response":
        with pytest.raises(late):
            client.get(url)
    elif way == "last":
        assert client.get(url).content == PART
    else:
        with client.stream("GET", url) as response:
            if way == "partly read":
                assert next(response.iter_raw()) == PART
            if way == "too late":
                with pytest.raises(late):
                    response.read()
    assert gone()


def _own(url: str, way: str, gone: Gone) -> None:
    with Client(verify=client_context(), timeout=Timeout(60, read=WAYS[way])) as client:
        _ask(client, url, way, ReadTimeout, gone)
        assert client.statistics()["open"] == 0


def _httpx(url: str, way: str, gone: Gone) -> None:
    httpx = pytest.importorskip("httpx")
    timeout = httpx.Timeout(60, read=WAYS[way])
    with httpx.Client(transport=HttpxTransport(), timeout=timeout) as client:
        _ask(client, url, way, httpx.ReadTimeout, gone)


def _httpcore(url: str, way: str, gone: Gone) -> None:
    pytest.importorskip("httpcore")
    from oneloop.compat import httpcore

    timeout = {"timeout": {"read": WAYS[way]}}
    with httpcore.ConnectionPool() as pool:
        if way == "no response":
            with pytest.raises(httpcore.ReadTimeout):
                pool.request("GET", url, extensions=timeout)
        elif way == "last":
            assert pool.request("GET", url, extensions=timeout).content == PART
        else:
            with pool.stream("GET", url, extensions=timeout) as response:
                parts = response.iter_stream()
                if way != "unread":
                    assert next(parts) == PART
                if way == "too late":
                    with pytest.raises(httpcore.ReadTimeout):
                        next(parts)
        assert gone()


def _requests(url: str, way: str, gone: Gone) -> None:
    requests = pytest.importorskip("requests")
    from oneloop.http import RequestsAdapter

    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", RequestsAdapter())
        if way == "no response":
            with pytest.raises(requests.exceptions.ReadTimeout):
                session.get(url, timeout=(60, WAYS[way]))
        elif way == "last":
            assert session.get(url, timeout=(60, WAYS[way])).content == PART
        else:
            with session.get(url, timeout=(60, WAYS[way]), stream=True) as response:
                if way == "partly read":
                    assert response.raw.read(len(PART)) == PART
                if way == "too late":
                    with pytest.raises(requests.exceptions.ConnectionError):
                        _ = response.content
        assert gone()


def test_a_connection_that_is_not_kept() -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(PART)
        peer.wait_for_end()
        is_gone.set()

    is_gone = threading.Event()
    with RawServer(serve) as server, Client(limits=Limits(max_keepalive_connections=0)) as client:
        assert client.get(server.url).content == PART
        assert is_gone.wait(60)


@pytest.mark.parametrize(
    ("serving", "program"),
    [(RawServer, _own), (secured, _own), (RawServer, _httpx), (RawServer, _httpcore), (RawServer, _requests)],
    ids=["http", "https", "httpx", "httpcore", "requests"],
)
@pytest.mark.parametrize("way", WAYS)
def test_the_server_sees_the_end(serving: Callable[..., Any], program: Callable[..., None], way: str) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        if way == "last":
            peer.answer(PART, "200 OK", "Connection: close")
        elif way != "no response":
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + PART)
        try:
            peer.wait_for_end()
        finally:
            is_gone.set()

    is_gone = threading.Event()
    with serving(serve) as server:
        program(server.url, way, lambda: is_gone.wait(60))
