"""Which request follows a redirect, and which is sent again: the rules themselves, without a network."""

from __future__ import annotations

from typing import Any

import pytest

from oneloop.http import (
    CloseError,
    ConnectError,
    ConnectTimeout,
    PoolTimeout,
    PrivateAddress,
    ProxyError,
    ReadError,
    ReadTimeout,
    RemoteProtocolError,
    Request,
    Response,
    Retry,
    TransportError,
    WriteError,
    WriteTimeout,
)
from oneloop.http.client import redirects
from oneloop.http.client.cookies import Cookies


def follow(method: str, url: str, status: int, location: str, cookies: Any = None, **parts: Any) -> Request:
    request = Request(method, url, **parts)
    response = Response(status, headers={"Location": location}, request=request)
    return redirects.following(request, response, Cookies(cookies))


@pytest.mark.parametrize(
    ("url", "location", "is_kept"),
    [
        ("http://a/", "/other", True),
        ("http://a/", "http://a:80/", True),
        ("http://a/", "https://a/", True),
        ("http://a:80/", "https://a:443/", True),
        ("https://a/", "http://a/", False),
        ("http://a/", "http://b/", False),
        ("http://a/", "https://b/", False),
        ("http://a:8080/", "https://a/", False),
        ("http://a/", "https://a:8443/", False),
        ("http://a/", "http://a:81/", False),
    ],
)
def test_who_sees_the_credentials(url: str, location: str, is_kept: bool) -> None:
    following = follow("GET", url, 302, location, headers={"Authorization": "secret", "X": "1"})
    assert ("authorization" in following.headers) == is_kept
    assert following.headers["x"] == "1"
    assert following.headers["host"] == following.url.netloc


@pytest.mark.parametrize(("cookies", "sent"), [(None, None), ({"of": "client"}, "of=client")])
def test_the_programs_own_cookie_field_is_for_one_request(cookies: Any, sent: str | None) -> None:
    following = follow("GET", "http://a/", 302, "http://b/", cookies, headers={"Cookie": "of=request"})
    assert following.headers.get("cookie") == sent


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "QUERY"])
@pytest.mark.parametrize("is_whole", [True, False])
def test_methods_and_bodies(status: int, method: str, is_whole: bool) -> None:
    """RFC 9110 section 15.4, and what browsers and httpx do; of QUERY RFC 10008 section 2.5."""
    content: Any = b"body" if is_whole else [b"body"]
    fields = {"Content-Type": "text/plain"}
    following = follow(method, "http://a/", status, "/other", content=content, headers=fields)
    of_every_method = status == 303 or (status == 302 and method != "QUERY")
    becomes_get = method not in ("GET", "HEAD") and (of_every_method or (status, method) == (301, "POST"))
    assert following.method == ("GET" if becomes_get else method)
    framing = {"content-length", "transfer-encoding", "content-type"} & set(following.headers)
    if becomes_get:
        assert framing == set()
        assert following.stream == b""
    else:
        assert framing == {"content-length" if is_whole else "transfer-encoding", "content-type"}


ERRORS: list[tuple[type[TransportError], bool, bool]] = [
    # The error; whether a GET, a POST is sent again.
    (ConnectError, True, True),
    (ConnectTimeout, True, True),
    (PrivateAddress, False, False),
    (ReadError, True, False),
    (WriteError, True, False),
    (ReadTimeout, True, False),
    (RemoteProtocolError, True, False),
    (WriteTimeout, False, False),
    (PoolTimeout, False, False),
    (ProxyError, False, False),
    (CloseError, False, False),
]


@pytest.mark.parametrize(("error", "of_get", "of_post"), ERRORS)
def test_errors_that_are_tried_again(error: type[TransportError], of_get: bool, of_post: bool) -> None:
    retry = Retry(1)
    for method, expected in (("GET", of_get), ("POST", of_post)):
        assert retry.wants_error(Request(method, "http://a/", content=b"body"), error("")) == expected
        assert retry.wants_error(Request(method, "http://a/", content=[b"body"]), error("")) == expected
        # It can be read only once.
        assert not retry.wants_error(Request(method, "http://a/", content=iter([b"body"])), error(""))


@pytest.mark.parametrize(
    ("method", "content", "expected"),
    [
        ("PUT", b"", True),
        ("PUT", [b"body"], True),
        ("PUT", iter([b"body"]), False),
        ("POST", b"", False),
    ],
)
def test_statuses_that_are_tried_again(method: str, content: Any, expected: bool) -> None:
    request = Request(method, "http://a/", content=content)
    assert Retry(1).wants_status(request, 503) == expected
    assert not Retry(1).wants_status(request, 500)


def test_delays() -> None:
    retry = Retry(9, backoff_s=1.0, max_delay_s=4.0)
    for attempt, longest_s in enumerate([1.0, 2.0, 4.0, 4.0, 4.0]):
        delay_s = retry.delay_s(attempt, None)
        assert delay_s is not None
        assert longest_s / 2 <= delay_s <= longest_s
    assert [retry.delay_s(0, text) for text in ("0", "4", "5")] == [0.0, 4.0, None]
