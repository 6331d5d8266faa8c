"""Real proxies, by every way to use the client: the outcome is that of httpx on stock asyncio with the same proxy."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import ssl
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oneloop.http import ConnectError, ReadError, RemoteProtocolError, RequestError
from tests.client.callers import KINDS, Caller
from tests.ecosystem.proxy_servers import PASSWORD, PROXIES, USER, Running, proxying
from tests.ecosystem.site_servers import Site, started
from tests.ecosystem.sites.app import HELLO, told
from tests.ecosystem.ways import WAYS, Way, stock
from tests.ports import connections_to, free_port

pytestmark = pytest.mark.oneloop_only("the client needs oneloop's loop")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with started("node", tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture(scope="module", params=PROXIES)
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with proxying(request.param, tmp_path_factory.mktemp("proxy"), has_login=False) as made:
        yield made


@pytest.fixture(scope="module", params=PROXIES)
def locked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A proxy that wants a login."""
    with proxying(request.param, tmp_path_factory.mktemp("proxy"), has_login=True) as made:
        yield made


Act = Callable[[Way], Any]


def outcome(call: Callable[[], Any]) -> Any:
    try:
        response = call()
    except Exception as error:
        return type(error).__name__
    return response.status_code, response.content if response.status_code == 200 else b""


def compare(verify: ssl.SSLContext, url: str, act: Act) -> Any:
    """The outcome, which is the same for each way."""

    def done(way: Way) -> Any:
        with contextlib.closing(way):
            return act(way)

    with warnings.catch_warnings():
        # httpcore leaves the connection to a SOCKS proxy open that refuses.
        warnings.simplefilter("ignore", ResourceWarning)
        expected = done(stock(verify, url))
        gc.collect()
    assert {name: done(make(verify, url)) for name, make in WAYS.items()} == dict.fromkeys(WAYS, expected)
    return expected


def trusting(site: Site) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(site.authority))


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
def test_requests_through_it(proxy: Running, site: Site, secured: bool) -> None:
    url = site.tls_url if secured else site.url
    body = bytes(range(256)) * 2000
    # tinyproxy closes a connection some 100 µs after it has forwarded an answer, which does not say so. A request that
    # comes in between is lost, whoever sends it: httpx repeats none.
    closes = proxy.name == "tinyproxy" and not secured

    def act(way: Way) -> Any:
        def settle() -> None:
            while closes and connections_to(proxy.port):
                time.sleep(0.001)

        def ask(method: str, path: str, content: Any = None) -> Any:
            settle()
            return way.request(method, f"{url}/{path}", content=content)

        found = [outcome(lambda: ask("GET", "hello")) for _ in range(3)]
        found += [outcome(lambda: ask("POST", "echo", body)), outcome(lambda: ask("POST", "echo", way.parts(body)))]
        ports = {ask("GET", "hello").headers["x-port"] for _ in range(2)}
        assert closes or len(ports) == 1
        settle()
        digest = way.digest(f"{url}/big")
        settle()
        return found, digest, [response.content for response in way.many([f"{url}/hello"] * 20)]

    found, _, many = compare(trusting(site), proxy.url(), act)
    assert found[:3] == [(200, HELLO)] * 3
    assert found[3][1].startswith(told(len(body), "")[:6])
    assert many == [HELLO] * 20


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("login", [f"{USER}:{PASSWORD}", f"{USER}:wrong", ""], ids=["right", "wrong", "none"])
def test_logins(locked: Running, site: Site, login: str, secured: bool) -> None:
    url = site.tls_url if secured else site.url
    found = compare(trusting(site), locked.url(login), lambda way: outcome(lambda: way.request("GET", f"{url}/hello")))
    # squid's helper takes any login.
    if login.endswith(PASSWORD) or (login and locked.name == "squid"):
        assert found == (200, HELLO)
    elif secured or locked.scheme == "socks5":
        assert found == "ProxyError"
    else:
        assert found[0] in (401, 407)


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
def test_a_host_that_it_does_not_reach(proxy: Running, site: Site, secured: bool) -> None:
    """An answer of its own, or a refusal."""
    url = f"{'https' if secured else 'http'}://127.0.0.1:{free_port()}/"
    found = compare(trusting(site), proxy.url(), lambda way: outcome(lambda: way.request("GET", url)))
    assert found == "ProxyError" or found[0] in (500, 502, 503)


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
def test_a_proxy_that_is_not_there(site: Site, secured: bool) -> None:
    url = site.tls_url if secured else site.url
    for scheme in ("http", "socks5"):
        where = f"{scheme}://127.0.0.1:{free_port()}"
        found = compare(trusting(site), where, lambda way: outcome(lambda: way.request("GET", f"{url}/hello")))
        assert found == "ConnectError"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("name", PROXIES)
def test_a_proxy_that_dies(name: str, secured: bool, kind: str, site: Site, tmp_path: Path) -> None:
    """A kept connection through it is noticed to be gone; the next one is refused; a new proxy is used again."""
    url = f"{site.tls_url if secured else site.url}/hello"
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(proxying(name, tmp_path / "proxy", has_login=False))
        caller = Caller(kind, proxy=proxy.url(), verify=trusting(site), trust_env=False, timeout=60.0)
        with contextlib.closing(caller):
            assert caller.get(url).content == HELLO
            os.kill(proxy.pid, signal.SIGKILL)
            stack.close()
            with pytest.raises(RequestError) as caught:
                caller.post(url.replace("hello", "echo"), content=b"abc")
            # The end of the proxy may be seen a moment before, or with the request.
            assert type(caught.value) in (ConnectError, ReadError, RemoteProtocolError), repr(caught.value)
            with pytest.raises(ConnectError):
                caller.get(url)
            counters = caller.statistics()
            assert (counters["idle"], counters["waiting"]) == (0, 0)


ENVIRONMENTS = {
    "HTTP_PROXY": (["http"], ""),
    "HTTPS_PROXY": (["https"], ""),
    "ALL_PROXY": (["http", "https"], ""),
    "all_proxy": (["http", "https"], ""),
    "NO_PROXY": ([], "localhost,127.0.0.1"),
    "no_proxy": ([], "*"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_environment(name: str, kind: str, proxy: Running, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """That a request goes through the proxy is seen by the client's port: the proxy has its own."""
    for each in os.environ:
        if each.lower().endswith("_proxy"):
            monkeypatch.delenv(each)
    schemes, excluded = ENVIRONMENTS[name]
    if excluded:
        monkeypatch.setenv("ALL_PROXY", proxy.url())
        monkeypatch.setenv(name, excluded)
    else:
        monkeypatch.setenv(name, proxy.url())
    caller = Caller(kind, verify=trusting(site), timeout=60.0)
    with contextlib.closing(caller):
        for scheme, url in (("http", site.url), ("https", site.tls_url)):
            assert caller.get(f"{url}/hello").content == HELLO
            chosen = caller.client._proxies.of(caller.client.build_request("GET", url).url)
            assert (chosen is not None) == (scheme in schemes)
            if chosen is not None:
                assert chosen.port == proxy.port
