"""Real servers, by every way to use the client: the outcome is that of httpx on stock asyncio with the same server."""

from __future__ import annotations

import contextlib
import hashlib
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ecosystem.site_servers import SERVERS, Site, started
from tests.ecosystem.sites.app import BIG, HELLO, REFUSAL, TEXT, told
from tests.ecosystem.ways import WAYS, Way, stock
from tests.ports import connections_to

BODY = BIG[:300_000]
# What is not the same for each request, or not for each connection.
OWN = ("date", "x-port", "x-resumed", "last-modified")


# The ways differ above the connection, which the three callers try with every server.
_ALL_WAYS = ("nginx", "go", "node")
_CALLERS = ("coroutine", "green", "plain")


def ways_for(site: Site) -> dict[str, Any]:
    """Return the ways to try with a server."""
    return {name: make for name, make in WAYS.items() if site.name in _ALL_WAYS or name in _CALLERS}


pytestmark = pytest.mark.oneloop_only("the client needs oneloop's loop")


@pytest.fixture(scope="module", params=SERVERS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with started(request.param, tmp_path_factory.mktemp("site")) as made:
        yield made


def outcome(response: Any) -> tuple[Any, ...]:
    fields = sorted((name, value) for name, value in response.headers.multi_items() if name not in OWN)
    content = response.content
    return (response.status_code, response.reason_phrase, response.http_version, fields, len(content), _sum(content))


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sent(response: Any, body: bytes) -> tuple[Any, ...]:
    """The outcome of a request to `/echo`."""
    assert response.content == told(len(body), _sum(body))
    return outcome(response)


# -- what is done, the same for each way -------------------------------------------------------


def get(way: Way, site: Site) -> Any:
    response = way.request("GET", f"{site.url}/hello")
    assert response.json() == {"hello": "world"}
    return outcome(response)


def head(way: Way, site: Site) -> Any:
    return [outcome(way.request("HEAD", site.url + path)) for path in ("/hello", "/big")]


def post(way: Way, site: Site) -> Any:
    return sent(way.request("POST", f"{site.url}/echo", content=BODY), BODY)


def post_in_chunks(way: Way, site: Site) -> Any:
    return sent(way.request("POST", f"{site.url}/echo", content=way.parts(BODY)), BODY)


def post_of_known_length(way: Way, site: Site) -> Any:
    fields = {"Content-Length": str(len(BODY))}
    return sent(way.request("POST", f"{site.url}/echo", content=way.parts(BODY), headers=fields), BODY)


def expect(way: Way, site: Site) -> Any:
    fields = {"Expect": "100-continue"}
    whole = sent(way.request("POST", f"{site.url}/echo", content=BODY, headers=fields), BODY)
    return whole, sent(way.request("POST", f"{site.url}/echo", content=way.parts(BODY), headers=fields), BODY)


def not_found(way: Way, site: Site) -> Any:
    response = way.request("GET", f"{site.url}/none")
    return response.status_code, len(response.content)


def keep(way: Way, site: Site) -> Any:
    """All on one connection, whatever they are."""
    url = site.url
    ports = [way.request(method, url + path).headers["x-port"] for method, path in KEPT_REQUESTS]
    ports.append(way.request("POST", f"{url}/echo", content=BODY).headers["x-port"])
    ports.append(way.request("POST", f"{url}/echo", content=way.parts(BODY)).headers["x-port"])
    assert len(set(ports)) == 1, ports
    return len(ports)


KEPT_REQUESTS = [("GET", "/hello"), ("HEAD", "/hello"), ("GET", "/big"), ("GET", "/gzip"), ("GET", "/hello")]


def big_down(way: Way, site: Site) -> Any:
    found = way.digest(f"{site.url}/big")
    assert found == (len(BIG), _sum(BIG))
    return found


def big_up(way: Way, site: Site) -> Any:
    whole = sent(way.request("POST", f"{site.url}/echo", content=BIG), BIG)
    return whole, sent(way.request("POST", f"{site.url}/echo", content=way.parts(BIG)), BIG)


def compressed(way: Way, site: Site) -> Any:
    response = way.request("GET", f"{site.url}/gzip")
    assert response.content == TEXT
    assert response.headers["content-encoding"] == "gzip"
    return outcome(response)


def not_modified(way: Way, site: Site) -> Any:
    tag = way.request("HEAD", f"{site.url}/big").headers["etag"]
    response = way.request("GET", f"{site.url}/big", headers={"If-None-Match": tag})
    assert (response.status_code, response.content) == (304, b"")
    # Nothing of a body stands before the next answer.
    assert way.request("GET", f"{site.url}/hello").content == HELLO
    return outcome(response)


def ranges(way: Way, site: Site) -> Any:
    outcomes: list[tuple[Any, ...]] = []
    for wanted in ("bytes=10-19", f"bytes={len(BIG) - 5}-", f"bytes={len(BIG)}-"):
        response = way.request("GET", f"{site.url}/big", headers={"Range": wanted})
        outcomes.append((response.status_code, response.headers.get("content-range"), response.content[:10]))
        if response.status_code != 206:
            outcomes[-1] = outcomes[-1][:2]
    assert outcomes[0] == (206, f"bytes 10-19/{len(BIG)}", BIG[10:20])
    assert outcomes[2][0] == 416
    return outcomes


def early(way: Way, site: Site) -> Any:
    """The answer comes while the body is sent. How the server ends then is its own affair."""
    outcomes = []
    for content in (BIG, way.parts(BIG)):
        try:
            response = way.request("POST", f"{site.url}/early", content=content)
        except Exception as error:
            outcomes.append(type(error).__name__)
        else:
            outcomes.append(str(response.status_code))
            assert site.name == "nginx" or response.content == REFUSAL
    assert way.request("GET", f"{site.url}/hello").content == HELLO
    return outcomes


def at_once(way: Way, site: Site) -> Any:
    responses = way.many([f"{site.url}/hello"] * 40)
    return [outcome(response) for response in responses]


Act = Callable[[Way, Site], Any]
ACTS: list[Act] = [
    get,
    head,
    post,
    post_in_chunks,
    post_of_known_length,
    expect,
    not_found,
    keep,
    big_down,
    big_up,
    compressed,
    not_modified,
    ranges,
    early,
    at_once,
]


def trusting(site: Site) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(site.authority))


def done(way: Way, act: Act, site: Site) -> Any:
    with contextlib.closing(way):
        return act(way, site)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_the_same_outcome(act: Act, site: Site) -> None:
    verify = trusting(site)
    expected = done(stock(verify), act, site)
    found = {name: done(make(verify, None), act, site) for name, make in ways_for(site).items()}
    if act is not early:
        assert found == dict.fromkeys(found, expected)
        return
    # A server that closes with a reset may take its answer back, from httpx as from us.
    for name, ways in found.items():
        for ours, theirs in zip(ways, expected, strict=True):
            assert ours == "413" or theirs != "413", (name, ways, expected)


def wait_for_the_end_of_idle_connections(site: Site) -> None:
    """Until the server has ended all."""
    port = httpx.URL(site.url).port
    assert port is not None
    while connections_to(port):
        time.sleep(0.005)


def test_connections_that_the_server_closes(site: Site) -> None:
    """A kept connection that has ended is not used: not even a POST, which is not repeated, fails on it."""
    verify = trusting(site)
    ways = {name: make(verify, None) for name, make in ways_for(site).items()}
    try:
        before = {name: way.request("GET", f"{site.url}/hello").headers["x-port"] for name, way in ways.items()}
        wait_for_the_end_of_idle_connections(site)
        for name, way in ways.items():
            response = way.request("POST", f"{site.url}/echo", content=b"abc")
            sent(response, b"abc")
            assert response.headers["x-port"] != before[name], name
    finally:
        for way in ways.values():
            way.close()


@pytest.mark.parametrize("resume", [False, True])
def test_downloads(site: Site, resume: bool, tmp_path: Path) -> None:
    verify = trusting(site)
    for name in ("coroutine", "green", "plain"):
        way: Any = WAYS[name](verify, None)
        with contextlib.closing(way):
            path = tmp_path / name
            part = tmp_path / f"{name}.part"
            tag = way.request("HEAD", f"{site.url}/big").headers["etag"]
            seen: list[int] = []
            if resume:
                part.write_bytes(BIG[:4_000_000])
                (tmp_path / f"{name}.part.tag").write_text(tag)
            way.caller.download(
                f"{site.url}/big", path, resume=resume, progress=lambda there, _, seen=seen: seen.append(there)
            )
            assert path.read_bytes() == BIG
            assert (min(seen) > 4_000_000) == resume
            assert sorted(found.name for found in tmp_path.glob(f"{name}*")) == [name]


def test_tls_is_resumed(site: Site) -> None:
    """On a new connection, with rustls and with OpenSSL; the certificate is checked."""
    if not site.tls_url or site.name.startswith("oneloop-"):
        pytest.skip("without TLS, or without a way to tell whether a session was resumed (oneloop serve: tests/tls)")
    yes = {"nginx": "r", "go": "true", "node": "true"}[site.name]
    for name in ("coroutine", "green", "plain"):
        way = WAYS[name](str(site.authority), None)  # type: ignore[arg-type]
        with contextlib.closing(way):
            ask = [way.request("GET", f"{site.tls_url}/hello", headers={"Connection": "close"}) for _ in range(3)]
            assert [response.content for response in ask] == [HELLO] * 3
            assert len({response.headers["x-port"] for response in ask}) == 3
            assert [response.headers["x-resumed"] for response in ask[1:]] == [yes] * 2, name


def test_tls_by_every_way(site: Site) -> None:
    if not site.tls_url or site.url == site.tls_url:
        pytest.skip("without TLS, or with nothing else in all the tests above")
    verify = trusting(site)

    def talk(way: Way, site: Site) -> Any:
        url = site.tls_url
        kept = [way.request("GET", f"{url}/hello") for _ in range(3)]
        assert len({response.headers["x-port"] for response in kept}) == 1
        assert way.digest(f"{url}/big") == (len(BIG), _sum(BIG))
        up = sent(way.request("POST", f"{url}/echo", content=way.parts(BODY)), BODY)
        return [outcome(response) for response in kept], up

    expected = done(stock(verify), talk, site)
    assert {name: done(make(verify, None), talk, site) for name, make in ways_for(site).items()} == dict.fromkeys(
        ways_for(site), expected
    )
    for name in ("coroutine", "green", "plain"):
        # Ours by default: rustls.
        assert done(WAYS[name](str(site.authority), None), talk, site) == expected  # type: ignore[arg-type]
