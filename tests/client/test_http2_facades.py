"""HTTP/2 through httpcore's pools and httpx's transports: the same outcomes as with the packages themselves."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest
import trustme

import oneloop
from tests.client.http2_server import PRIOR, Http2Peer, Http2Server, echo

pytest.importorskip("httpcore2", reason="needs the packages httpcore and httpcore2")
pytest.importorskip("httpx2", reason="needs the packages httpx and httpx2")

import httpcore
import httpcore2
import httpx
import httpx2

from oneloop.compat import httpcore as facade
from oneloop.compat import httpcore2 as facade2
from oneloop.http import AsyncHttpxTransport, HttpxTransport

PAIRS = [pytest.param((httpcore, facade), id="httpcore"), pytest.param((httpcore2, facade2), id="httpcore2")]
TIMES = {"timeout": {"connect": 60.0, "read": 60.0, "write": 60.0, "pool": 60.0}}
Outcome = tuple[Any, ...]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def contexts(authority: trustme.CA) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of the server, and of a client."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


def told(response: Any) -> Outcome:
    extensions = {name: value for name, value in response.extensions.items() if name != "network_stream"}
    return response.status, response.headers, extensions, response.content


def both(pair: Any, serve: Callable[[Http2Peer], None], ask: Callable[[Any, str], Any], **settings: Any) -> None:
    """The outcomes of the package and of the facade, in plain code and in coroutines, are the same."""
    outcomes = []
    for package in pair:
        with Http2Server(serve) as server:
            with package.ConnectionPool(**{**PRIOR, **settings}) as pool:
                try:
                    outcomes.append(ask(pool, server.url))
                except Exception as error:
                    outcomes.append(type(error).__name__)
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]


def fields_and_body(peer: Http2Peer) -> None:
    """Answer with what was received."""
    peer.greet()
    while True:
        stream, fields = peer.request()
        body = b"" if fields[":method"] == "GET" else peer.body(stream)
        fields.pop(":authority")
        peer.answer(stream, repr((fields, body)).encode(), 200, ("x-name", "value"), ("x-name", "other"))


@pytest.mark.parametrize("pair", PAIRS)
def test_answers(pair: Any) -> None:
    def ask(pool: Any, url: str) -> Outcome:
        fields = {"host": "localhost", "User-Agent": "test", "Connection": "keep-alive", "X-A": "b"}
        return (
            told(pool.request("GET", url, headers=fields, extensions=TIMES)),
            told(pool.request("GET", f"{url}/path?query", headers=fields, extensions=TIMES)),
            told(pool.request("POST", url, headers=fields, content=b"body", extensions=TIMES)),
            told(
                pool.request(
                    "POST",
                    url,
                    headers={**fields, "Transfer-Encoding": "chunked"},
                    content=iter([b"a", b"b"]),
                    extensions=TIMES,
                )
            ),
        )

    both(pair, fields_and_body, ask)


@pytest.mark.parametrize("pair", PAIRS)
def test_traces_and_connections(pair: Any) -> None:
    def ask(pool: Any, url: str) -> Outcome:
        events: list[str] = []
        extensions = {**TIMES, "trace": lambda name, info: events.append(name)}
        content = pool.request("GET", url, extensions=extensions).content
        (connection,) = pool.connections
        shown = connection.info().partition(",")[2]
        return content, events, shown, connection.is_available(), connection.is_idle()

    both(pair, echo, ask)


def reset(peer: Http2Peer) -> None:
    peer.greet()
    stream, _ = peer.request()
    peer.reset_stream(stream, 2)


def leave(peer: Http2Peer) -> None:
    peer.greet()
    peer.request()


def garbage(peer: Http2Peer) -> None:
    peer.greet()
    peer.request()
    peer.send(b"\0" * 100)


@pytest.mark.parametrize("serve", [reset, leave])
@pytest.mark.parametrize("pair", PAIRS)
def test_errors(pair: Any, serve: Callable[[Http2Peer], None]) -> None:
    both(pair, serve, lambda pool, url: told(pool.request("GET", url, extensions=TIMES)))


@pytest.mark.parametrize("pair", PAIRS)
def test_garbage_is_the_servers_fault(pair: Any) -> None:
    """To httpcore it is the client's: LocalProtocolError."""
    package = pair[1]
    with Http2Server(garbage) as server, package.ConnectionPool(**PRIOR) as pool:
        with pytest.raises(package.RemoteProtocolError):
            pool.request("GET", server.url, extensions=TIMES)


@pytest.mark.parametrize("pair", PAIRS)
async def test_coroutines_over_tls(pair: Any, authority: trustme.CA) -> None:
    of_server, of_client = contexts(authority)
    outcomes = []
    for package in pair:
        with Http2Server(echo, of_server) as server:
            async with package.AsyncConnectionPool(http2=True, ssl_context=of_client) as pool:
                responses = await asyncio.gather(*(pool.request("GET", f"{server.url}/{n}") for n in range(5)))
                outcomes.append([response.content for response in responses])
                assert {response.extensions["http_version"] for response in responses} == {b"HTTP/2"}
                assert server.connections == 1
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("package", [httpx, httpx2])
def test_transports_of_httpx(package: Any, authority: trustme.CA) -> None:
    of_server, of_client = contexts(authority)

    async def main(url: str) -> Any:
        async with package.AsyncClient(transport=AsyncHttpxTransport(verify=of_client, http2=True)) as client:
            return await client.post(url, content=b"body")

    with Http2Server(fields_and_body, of_server) as server:
        with package.Client(transport=HttpxTransport(verify=of_client, http2=True)) as client:
            plain = client.post(server.url, content=b"body")
        with package.Client(verify=of_client, http2=True) as client:
            stock = client.post(server.url, content=b"body")
        for response in (plain, oneloop.run(main(server.url))):
            assert response.http_version == stock.http_version == "HTTP/2"
            assert response.reason_phrase == stock.reason_phrase == "OK"
            assert (response.status_code, response.headers) == (stock.status_code, stock.headers)
            assert response.text.replace("oneloop", "x") == stock.text.replace("oneloop", "x")
            assert set(response.extensions) == set(stock.extensions)
