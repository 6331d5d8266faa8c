"""Cookies that a redirect sets are sent along the redirects of the same URL, and nowhere else.

Seen in lycheeverse/lychee#715 and ooni/probe#2412: a site that sets a cookie and redirects to itself was reported as
"too many redirects", although every browser shows it.
"""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pycares")

from oneloop.check import Options, Result, Target
from oneloop.check.blocking import Blocking
from oneloop.check.cookies import Cookies, with_cookie
from tests.check.checked import checked

STYLES = ["coroutines", "blocking"]


class Site:
    """A server that redirects as a table says. `seen` has the path and the cookies of each request."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments: object) -> None:
                pass

            def do_GET(self) -> None:
                cookie = self.headers.get("Cookie")
                assert len(self.headers.get_all("Cookie", [])) <= 1
                site.seen.append((self.path, cookie))
                location, fields = site.redirect(self.path, cookie or "")
                self.send_response(200 if location is None else 302)
                for field in fields:
                    self.send_header("Set-Cookie", field)
                if location is not None:
                    self.send_header("Location", location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_HEAD(self) -> None:
                self.do_GET()

        self._server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def redirect(self, path: str, cookie: str) -> tuple[str | None, list[str]]:
        if path.startswith("/itself"):
            return (None, []) if "seen=1" in cookie else (path, ["seen=1; Path=/"])
        return {
            "/other": ("/end", ["seen=1"]),
            "/two": ("/end", ["a=1", "b=2"]),
            "/deep/path": ("/end", ["seen=1"]),
            "/expired": ("/changed", ["seen=1"]),
            "/changed": ("/end", ["seen=; Max-Age=0", "new=1"]),
            "/secure": ("/end", ["seen=1; Secure"]),
            "/else": ("/end", ["seen=1; Domain=else.test"]),
            "/away": (f"http://127.0.0.2:{self.port}/back", ["seen=1; Path=/"]),
            "/back": (f"http://127.0.0.1:{self.port}/end", []),
            "/wrong": ("/end", ["", ";;;", "=", "seen", "x" * 5000]),
        }.get(path, (None, []))


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


async def results_of(style: str, urls: list[str], **options: Any) -> list[Result]:
    if style == "coroutines":
        return await checked(urls, **options)
    blocking = Blocking(Options(**{"timeout_s": 20.0, **options}))
    try:
        targets = [Target(number, url) for number, url in enumerate(urls)]
        return [await asyncio.to_thread(blocking.fetch, target) for target in targets]
    finally:
        blocking.close()


GIVEN: dict[str, Any] = {"headers": (("Cookie", "own=1"),)}
CASES: list[tuple[str, dict[str, Any], list[tuple[str, str | None]]]] = [
    ("/itself", {}, [("/itself", None), ("/itself", "seen=1")]),
    ("/other", {}, [("/other", None), ("/end", "seen=1")]),
    ("/two", {}, [("/two", None), ("/end", "a=1; b=2")]),
    # Its path is that of the redirect: RFC 6265 section 5.1.4.
    ("/deep/path", {}, [("/deep/path", None), ("/end", None)]),
    ("/expired", {}, [("/expired", None), ("/changed", "seen=1"), ("/end", "new=1")]),
    ("/secure", {}, [("/secure", None), ("/end", None)]),
    ("/else", {}, [("/else", None), ("/end", None)]),
    ("/away", {}, [("/away", None), ("/back", None), ("/end", "seen=1")]),
    # The program's own go to the place of its URL only.
    ("/other", GIVEN, [("/other", "own=1"), ("/end", "own=1; seen=1")]),
    ("/secure", GIVEN, [("/secure", "own=1"), ("/end", "own=1")]),
    ("/away", GIVEN, [("/away", "own=1"), ("/back", None), ("/end", "seen=1")]),
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("path", "options", "seen"), CASES)
async def test_cookies_go_along(
    site: Site, style: str, path: str, options: dict[str, Any], seen: list[tuple[str, str | None]]
) -> None:
    (result,) = await results_of(style, [f"http://127.0.0.1:{site.port}{path}"], **options)
    assert result.outcome == "200"
    assert site.seen == seen


@pytest.mark.parametrize("style", STYLES)
async def test_values_that_are_wrong_are_no_error(site: Site, style: str) -> None:
    (result,) = await results_of(style, [f"http://127.0.0.1:{site.port}/wrong"])
    assert result.outcome == "200"


@pytest.mark.parametrize("style", STYLES)
async def test_no_url_sees_the_cookies_of_another(site: Site, style: str) -> None:
    urls = [f"http://127.0.0.1:{site.port}/itself?{number}" for number in range(5)]
    results = await results_of(style, urls, concurrency=1)
    assert [result.outcome for result in results] == ["200"] * 5
    assert site.seen == [(f"/itself?{number}", cookie) for number in range(5) for cookie in (None, "seen=1")]


@pytest.mark.parametrize("style", STYLES)
async def test_head_sends_them_too(site: Site, style: str) -> None:
    (result,) = await results_of(style, [f"http://127.0.0.1:{site.port}/itself"], method="HEAD")
    assert result.outcome == "200"


@pytest.mark.parametrize(
    ("head", "changed"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nCookie: b=1\r\n\r\n"),
        (
            b"GET / HTTP/1.1\r\ncookie: a=1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\ncookie: a=1; b=1\r\nHost: a\r\n\r\n",
        ),
        (
            b"GET / HTTP/1.1\r\nX-Cookie: a=1\r\n\r\n",
            b"GET / HTTP/1.1\r\nX-Cookie: a=1\r\nCookie: b=1\r\n\r\n",
        ),
    ],
)
def test_a_head_has_one_field(head: bytes, changed: bytes) -> None:
    assert with_cookie(head, "b=1") == changed


@pytest.mark.parametrize(
    ("field", "url", "value"),
    [
        ("a=1", "http://site.test/", "a=1"),
        ("a=1", "https://site.test:8443/x", "a=1"),
        # Without a domain, it is the host's own; the standard library's default is another.
        ("a=1", "http://www.site.test/", ""),
        ("a=1; Domain=site.test", "http://www.site.test/", "a=1"),
        ("a=1; Domain=site.test", "http://notsite.test/", ""),
        ("a=1; Domain=test", "http://other.test/", ""),
        ("a=1; Secure", "http://site.test/", ""),
        ("a=1; Path=/x", "http://site.test/xy", ""),
        ("a=1; Path=/x", "http://site.test/x/y", "a=1"),
        ("a=\xe4", "http://site.test/", "a=\xe4"),
    ],
)
def test_where_a_cookie_goes(field: str, url: str, value: str) -> None:
    cookies = Cookies()
    cookies.keep("http://site.test/", [field])
    assert cookies.value(url) == value


@pytest.mark.parametrize(
    ("field", "url", "value"),
    [
        ("a=1", "http://127.0.0.1:81/", "a=1"),
        ("a=1", "http://127.1.0.1/", ""),
        ("a=1; Domain=127.0.0.1", "http://127.0.0.1/", "a=1"),
        ("a=1; Domain=.0.1", "http://127.1.0.1/", ""),
        ("a=1; Domain=0.0.1", "http://127.0.0.1/", ""),
    ],
)
def test_an_address_has_no_domain_above_it(field: str, url: str, value: str) -> None:
    """RFC 6265 section 5.1.3."""
    cookies = Cookies()
    cookies.keep("http://127.0.0.1/", [field])
    assert cookies.value(url) == value
