"""Names and arguments of httpx that few programs use, and what they do there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Generator

import pytest

from oneloop.http import URL, Auth, Proxy, QueryParams, Request, Response
from oneloop.http.client.proxies import Proxies
from tests.client.callers import Caller
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer


@pytest.mark.parametrize(
    ("method", "arguments", "named"),
    [
        ("get", ["http://127.0.0.1:1/"], "get"),
        ("post", ["http://127.0.0.1:1/"], "post"),
        ("request", ["GET", "http://127.0.0.1:1/"], "request"),
        ("download", ["http://127.0.0.1:1/", "missing/file"], "download"),
    ],
)
def test_unknown_arguments(caller: Caller, method: str, arguments: list[str], named: str) -> None:
    """The error names what the program has called."""
    kind = type(caller.client)
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\.{named}\(\) got an unexpected .* 'bdy'"):
        getattr(caller, method)(*arguments, bdy=b"x")
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\.__init__\(\) got an unexpected .* 'timeot'"):
        kind(timeot=5)


def test_unknown_arguments_of_a_stream(caller: Caller) -> None:
    with pytest.raises(TypeError, match=rf"^{type(caller.client).__name__}\.stream\(\) got an unexpected .* 'bdy'"):
        caller.pieces("GET", "http://127.0.0.1:1/", bdy=b"x")


def test_unknown_arguments_of_a_websocket(caller: Caller) -> None:
    with pytest.raises(TypeError, match=rf"^{type(caller.client).__name__}\.websocket\(\) got an unexpected .* 'bdy'"):
        caller.shake_hands("ws://127.0.0.1:1/", bdy=b"x")


def test_links() -> None:
    response = Response(
        200,
        headers=[
            ("Link", '<https://a/b?x=1,2>; rel="next"; title="a, b", <https://a/c>;rel=last;x'),
            ("Link", "<https://a/d>"),
        ],
    )
    assert response.links == {
        "next": {"rel": "next", "title": "a, b", "url": "https://a/b?x=1,2"},
        "last": {"rel": "last", "x": "", "url": "https://a/c"},
        "https://a/d": {"url": "https://a/d"},
    }
    assert Response(200).links == {}


@pytest.mark.parametrize(
    "field",
    ["<" + " " * 60_000 + "x", "<" * 60_000, "<a>" + "; " * 30_000, "<a>;x=" + '"' * 60_001],
    ids=["spaces", "beginnings", "parameters", "quotes"],
)
def test_links_of_a_hostile_server_take_no_time(field: str) -> None:
    """As long as a head may be: the time must not square."""
    assert [*Response(200, headers={"Link": field}).links] in ([], ["a"])


def test_arguments_of_a_response() -> None:
    first = Response(302)
    response = Response(200, html="<p>é", history=[first], default_encoding="latin-1")
    assert (response.headers["content-type"], response.text) == ("text/html; charset=utf-8", "<p>é")
    assert response.history == [first]
    assert Response(200, content=b"\xe9", default_encoding="latin-1").text == "é"
    assert (
        Response(200, content=b"\xe9", default_encoding=lambda body: "latin-1" if body == b"\xe9" else None).text == "é"
    )
    assert Response(200, content="é".encode(), default_encoding=lambda _: None).text == "é"


def test_default_encoding_of_a_client(make_caller: MakeCaller) -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            peer.answer(b"\xe9", "200 OK", "Content-Type: text/plain")

    caller = make_caller(default_encoding=lambda body: "latin-1" if body else None)
    with RawServer(serve) as server:
        assert [caller.get(server.url).text for _ in range(2)] == ["é", "é"]


def test_parts_of_urls() -> None:
    url = URL("http://user:p%20w@ex.org/a", scheme="https", port=8443, params={"q": 1})
    assert str(url) == "https://user:p%20w@ex.org:8443/a?q=1"
    assert (url.raw_scheme, url.raw_host, url.userinfo) == (b"https", b"ex.org", b"user:p%20w")
    assert (URL("http://user@ex.org").userinfo, URL("http://ex.org").userinfo) == (b"user", b"")
    with pytest.raises(TypeError, match="'place' is an invalid keyword argument"):
        URL("http://ex.org", place="x")
    with pytest.raises(RuntimeError, match="immutable"):
        QueryParams("a=1").update({"a": 2})
    assert Proxy("http://ü:p@ex.org").raw_auth == ("ü".encode(), b"p")
    assert Proxy("http://ex.org").raw_auth is None


@pytest.mark.parametrize(
    ("entry", "direct", "by_proxy"),
    [
        ("http://x.org", ["http://x.org/"], ["https://x.org/", "http://a.x.org/"]),
        ("all://x.org", ["http://x.org/", "https://x.org/"], ["http://a.x.org/"]),
        ("all://*x.org", ["http://x.org/", "https://a.x.org/"], ["http://ax.org/"]),
        ("x.org.", ["http://x.org/", "http://a.x.org/", "http://x.org./"], ["http://y.org/"]),
        ("münchen.de", ["http://münchen.de/", "http://xn--mnchen-3ya.de/"], ["http://munchen.de/"]),
        ("X.org:81", ["http://x.org:81/"], ["http://x.org/"]),
        (".x.org", ["http://a.x.org/"], ["http://y.org/"]),
        ("10.0.0.0/8, [::1]", ["http://10.1.2.3/", "http://[::1]/"], ["http://11.0.0.1/", "http://x.org/"]),
        ("*", ["http://x.org/"], []),
        ("", [], ["http://x.org/"]),
    ],
)
def test_no_proxy(monkeypatch: pytest.MonkeyPatch, entry: str, direct: list[str], by_proxy: list[str]) -> None:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_PROXY".upper(), raising=False)
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:1")
    monkeypatch.setenv("NO_PROXY", entry)
    proxies = Proxies(None, trust_env=True)
    assert [url for url in direct if proxies.of(URL(url)) is not None] == []
    assert [url for url in by_proxy if proxies.of(URL(url)) is None] == []


class Waiting(Auth):
    """Has a flow of its own for each kind of client."""

    def sync_auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        request.headers["Authorization"] = "sync"
        response = yield request
        assert response.status_code == 200
        request.headers["Authorization"] = "sync again"
        yield request

    async def async_auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        request.headers["Authorization"] = "async"
        response = yield request
        assert response.status_code == 200
        request.headers["Authorization"] = "async again"
        yield request


def test_flows_that_wait(make_caller: MakeCaller) -> None:
    seen: list[bytes] = []

    def serve(peer: Peer) -> None:
        while head := peer.head():
            seen.append(head.lower().partition(b"authorization: ")[2].partition(b"\r\n")[0])
            peer.answer(b"", "200 OK")

    caller = make_caller(auth=Waiting())
    with RawServer(serve) as server:
        assert len(caller.get(server.url).history) == 1
    kind = b"async" if caller.kind == "coroutine" else b"sync"
    assert seen == [kind, kind + b" again"]


def test_a_star_import_needs_no_other_package() -> None:
    program = "import sys; sys.modules['requests'] = None; from oneloop.http import *; print(Client.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout.strip(), done.stderr) == ("Client", "")
