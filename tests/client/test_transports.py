"""`AsyncHttpxTransport`, `HttpxTransport` and `RequestsAdapter`: what programs on httpx, httpx2 and requests see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import oneloop
from tests.certificates import client_context
from tests.client.farm import MANNERS, Farm, farm
from tests.client.servers import Peer, RawServer

pytest.importorskip("httpx2", reason="needs the packages httpx, httpx2 and requests")

import httpx
import httpx2
import requests

from oneloop.http import AsyncHttpxTransport, HttpxTransport, RequestsAdapter

PACKAGES = [pytest.param(httpx, id="httpx"), pytest.param(httpx2, id="httpx2")]
Outcome = tuple[Any, ...]


@pytest.fixture
def served() -> Iterator[Farm]:
    with farm() as made:
        yield made


def times(package: Any, url: str) -> Any:
    """A short time to wait for what stalls, and for nothing else."""
    return package.Timeout(60, read=0.3 if "/stalls" in url else 60)


def told(response: Any) -> Outcome:
    fields = response.headers.multi_items()
    return (response.status_code, fields, response.http_version, response.reason_phrase, response.content)


def fetched(package: Any, transport: Any, method: str, url: str, **arguments: Any) -> Outcome:
    with package.Client(transport=transport, timeout=times(package, url)) as client:
        try:
            response = client.request(method, url, **arguments)
        except package.RequestError as error:
            return (type(error).__name__, str(error.request.url))
        assert response.elapsed.total_seconds() > 0
        assert response.is_closed
        return told(response)


def fetched_by_coroutines(package: Any, transport: Any, method: str, url: str, **arguments: Any) -> Outcome:
    async def main() -> Outcome:
        async with package.AsyncClient(transport=transport(), timeout=times(package, url)) as client:
            try:
                return told(await client.request(method, url, **arguments))
            except package.RequestError as error:
                return (type(error).__name__, str(error.request.url))

    return oneloop.run(main())


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("transport", [HttpxTransport, None])
def test_a_body_that_was_closed_before_its_end_is_not_whole(package: Any, transport: Any) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(1000))
        peer.wait_for_end()

    own = None if transport is None else transport()
    with RawServer(serve) as server, package.Client(transport=own, trust_env=False) as client:
        with client.stream("GET", server.url) as response:
            pieces = iter(response.stream)
            next(pieces)
            response.stream.close()
            with pytest.raises(package.ReadError):
                next(pieces)


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("path", sorted(MANNERS))
def test_each_manner(package: Any, path: str, served: Farm) -> None:
    url = f"http://127.0.0.1:{served.port}{path}"
    expected = fetched(package, package.HTTPTransport(), "GET", url)
    assert fetched(package, HttpxTransport(), "GET", url) == expected
    assert fetched_by_coroutines(package, AsyncHttpxTransport, "GET", url) == expected


@pytest.mark.parametrize("package", PACKAGES)
def test_bodies(package: Any, served: Farm) -> None:
    url = f"http://127.0.0.1:{served.port}/echo"

    async def pieces() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    assert fetched_by_coroutines(package, AsyncHttpxTransport, "POST", url, content=pieces())[-1] == b"ab"
    assert fetched(package, HttpxTransport(), "POST", url, content=iter([b"a", b"b"]))[-1] == b"ab"
    assert fetched(package, HttpxTransport(), "POST", url, json={"a": 1})[-1] == b'{"a":1}'
    assert b"form-data" in fetched(package, HttpxTransport(), "POST", url, files={"a": b"b"})[-1]


@pytest.mark.parametrize("package", PACKAGES)
def test_streams(package: Any, served: Farm) -> None:
    url = f"http://127.0.0.1:{served.port}/chunked"
    with package.Client(transport=HttpxTransport()) as client, client.stream("GET", url) as response:
        assert not response.is_closed
        assert b"".join(response.iter_raw()) == b"hello"
        assert response.num_bytes_downloaded == 5

    async def main() -> None:
        async with package.AsyncClient(transport=AsyncHttpxTransport()) as client:
            async with client.stream("GET", url) as response:
                assert [line async for line in response.aiter_lines()] == ["hello"]
            async with client.stream("GET", url):
                pass  # Not read: its connection is not used again.
            assert (await client.get(url)).text == "hello"

    oneloop.run(main())


@pytest.mark.parametrize("package", PACKAGES)
def test_tls_and_proxies(package: Any, served: Farm) -> None:
    with farm(secured=True) as other:
        proxy = f"http://a:b@127.0.0.1:{served.port}"
        for transport in (
            HttpxTransport(verify=client_context(), proxy=proxy),
            HttpxTransport(verify=client_context(), proxy=package.Proxy(proxy)),
        ):
            outcome = fetched(package, transport, "GET", f"https://localhost:{other.port}/kept")
            assert outcome[-1] == b"hello"
    assert b"Basic YTpi" in served.heads[0]


def asked(session: requests.Session, url: str, method: str = "GET", **arguments: Any) -> Outcome:
    try:
        response = session.request(method, url, timeout=(60, 0.3 if "/stalls" in url else 60), **arguments)
    except requests.RequestException as error:
        return (type(error).__name__,)
    return (response.status_code, dict(response.headers), response.reason, response.content)


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        made.mount("http://", RequestsAdapter())
        made.mount("https://", RequestsAdapter())
        yield made


# urllib3 takes these for responses, the early hints too. The native parser does not.
LENIENT = {"/not-http", "/two-lengths", "/hints"}


@pytest.mark.parametrize("path", sorted(set(MANNERS) - LENIENT))
def test_requests(session: requests.Session, path: str, served: Farm) -> None:
    url = f"http://127.0.0.1:{served.port}{path}"
    with requests.Session() as original:
        assert asked(session, url) == asked(original, url)


def test_bodies_of_requests(session: requests.Session, served: Farm) -> None:
    url = f"http://127.0.0.1:{served.port}/echo"
    assert asked(session, url, "POST", data={"a": "b"})[-1] == b"a=b"
    assert asked(session, url, "POST", data=iter([b"a", b"b"]))[-1] == b"ab"
    assert asked(session, url, "POST", json=[1])[-1] == b"[1]"
    with open(__file__, "rb") as file:
        assert asked(session, url, "POST", data=file)[-1].startswith(b'"""`AsyncHttpxTransport`')


def test_failures_of_requests(session: requests.Session, served: Farm) -> None:
    assert asked(session, "http://127.0.0.1:1/") == ("ConnectionError",)
    gone = dict.fromkeys(("http", "https"), "http://127.0.0.1:1")
    for scheme in gone:
        assert asked(session, f"{scheme}://somewhere.example/", proxies=gone) == ("ProxyError",)
    refused = {"https": f"http://127.0.0.1:{served.port}"}
    assert asked(session, "https://refused:1/", proxies=refused) == ("ProxyError",)
    with farm(secured=True) as other:
        url = f"https://localhost:{other.port}/kept"
        assert asked(session, url) == ("SSLError",)
        assert asked(session, url, verify=False)[-1] == b"hello"
        assert asked(session, url, verify=False, proxies=refused)[-1] == b"hello"
