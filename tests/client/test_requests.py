"""What is sent: request lines, fields, bodies of every kind; redirects, authentication, cookies, retries."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oneloop.http import (
    BasicAuth,
    DigestAuth,
    InvalidURL,
    LocalProtocolError,
    RemoteProtocolError,
    Request,
    Response,
    Retry,
    StreamConsumed,
    TooManyRedirects,
    UnsupportedProtocol,
)
from tests.client.callers import Caller
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, echo, hold


class Recorder:
    """Keeps the heads and bodies of requests, and answers each with 200 and its number."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []

    def __call__(self, peer: Peer) -> None:
        while head := peer.head():
            lower = head.lower()
            length = re.search(rb"content-length: (\d+)", lower)
            if b"transfer-encoding: chunked" in lower:
                body = peer.chunked()
            else:
                body = peer.exactly(int(length[1])) if length else b""
            self.heads.append(head)
            self.bodies.append(body)
            peer.answer(b"%d" % len(self.heads))

    def fields(self, at: int = -1) -> dict[str, str]:
        """The fields of a request, names in lower case."""
        lines = self.heads[at].decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def server(recorder: Recorder) -> Iterator[RawServer]:
    with RawServer(recorder) as server:
        yield server


def test_the_usual_fields(caller: Caller, server: RawServer, recorder: Recorder) -> None:
    # The second is not built again, and is the same.
    for _ in range(2):
        caller.get(server.url + "/path?q=1#fragment")
    assert recorder.heads[0] == recorder.heads[1]
    assert recorder.heads[0].startswith(b"GET /path?q=1 HTTP/1.1\r\n")
    fields = recorder.fields()
    assert fields["host"] == f"127.0.0.1:{server.port}"
    assert fields["accept"] == "*/*"
    assert fields["accept-encoding"].startswith("gzip, deflate")
    assert fields["user-agent"].startswith("oneloop/")
    assert "content-length" not in fields


def test_settings_of_the_client_and_of_the_request(
    make_caller: MakeCaller, server: RawServer, recorder: Recorder
) -> None:
    caller = make_caller(
        headers={"X-Both": "client", "X-Client": "1"}, params={"a": "1"}, base_url=server.url + "/base"
    )
    caller.get("path", headers={"x-both": "request"}, params={"b": ["2", "3"]})
    assert recorder.heads[-1].startswith(b"GET /base/path?a=1&b=2&b=3 HTTP/1.1\r\n")
    assert recorder.fields()["x-both"] == "request"
    assert recorder.fields()["x-client"] == "1"
    caller.headers["X-Later"] = "2"
    caller.get("path")
    assert recorder.fields()["x-later"] == "2"
    caller.get("path")
    del caller.headers["X-Later"]
    caller.get("path")
    assert "x-later" not in recorder.fields()


@pytest.mark.parametrize(
    ("of_client", "target", "params", "sent"),
    [
        (None, "/a?x=1&y=2", {"b": 1}, "/a?b=1"),
        (None, "/a?x=1#f", {}, "/a"),
        (None, "/a?x=1", "", "/a"),
        (None, "/a?x=1", None, "/a?x=1"),
        (None, "/a", [("x", 2), ("x", 3)], "/a?x=2&x=3"),
        ({"q": 1}, "/a?x=1", None, "/a?q=1"),
        ({"q": 1}, "/a?x=1", {}, "/a?q=1"),
        ({"q": 1, "r": 2}, "/a?q=0", {"q": 3}, "/a?q=3&r=2"),
    ],
)
def test_params_are_the_query(
    make_caller: MakeCaller, server: RawServer, recorder: Recorder, of_client: Any, target: str, params: Any, sent: str
) -> None:
    """In place of the URL's own, and together with the client's: as in httpx."""
    httpx = pytest.importorskip("httpx")
    url = server.url + target
    with httpx.Client(params=of_client) as control:
        assert control.build_request("GET", url, params=params).url.raw_path == sent.encode()
    caller = make_caller(params=of_client)
    assert caller.build_request("GET", url, params=params).url.target == sent
    for _ in range(2):
        caller.get(url, params=params)
        assert recorder.heads[-1].startswith(f"GET {sent} HTTP/1.1\r\n".encode())


BODIES: dict[str, tuple[Callable[[], dict[str, Any]], bytes, str | None]] = {
    "bytes": (lambda: {"content": b"abc"}, b"abc", None),
    "text": (lambda: {"content": "grün"}, "grün".encode(), None),
    "json": (lambda: {"json": {"a": [1, "ü"]}}, '{"a":[1,"ü"]}'.encode(), "application/json"),
    "form": (
        lambda: {"data": {"a": "1 2", "b": ["x", "y"], "c": True}},
        b"a=1+2&b=x&b=y&c=true",
        "application/x-www-form-urlencoded",
    ),
    "a file": (lambda: {"content": io.BytesIO(b"x" * 200_000)}, b"x" * 200_000, None),
    "large": (lambda: {"content": b"y" * 3_000_000}, b"y" * 3_000_000, None),
    "nothing": (lambda: {"content": b""}, b"", None),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(caller: Caller, server: RawServer, recorder: Recorder, name: str) -> None:
    arguments, body, content_type = BODIES[name]
    assert caller.post(server.url, **arguments()).text == "1"
    assert recorder.bodies == [body]
    assert recorder.fields()["content-length"] == str(len(body))
    assert recorder.fields().get("content-type") == content_type


async def several() -> AsyncIterator[bytes]:
    for piece in (b"one,", b"", b"two,", b"three" * 50_000):
        yield piece


def several_now() -> Iterator[bytes]:
    yield from (b"one,", b"", b"two,", b"three" * 50_000)


@pytest.mark.parametrize("length", [None, 250_008])
def test_iterators(caller: Caller, server: RawServer, recorder: Recorder, length: int | None) -> None:
    headers = {} if length is None else {"Content-Length": str(length)}
    content = several() if caller.kind == "coroutine" else several_now()
    assert caller.post(server.url, content=content, headers=headers).text == "1"
    assert recorder.bodies == [b"one,two," + b"three" * 50_000]
    assert ("transfer-encoding" in recorder.fields()) is (length is None)
    assert caller.get(server.url).text == "2"
    assert server.connections == 1


@pytest.mark.parametrize(("length", "text"), [(5, "Too much"), (500_000, "Too little")])
def test_an_iterator_that_is_not_as_long_as_it_says(caller: Caller, length: int, text: str) -> None:
    with RawServer(hold) as server:
        content = several() if caller.kind == "coroutine" else several_now()
        with pytest.raises(LocalProtocolError, match=text):
            caller.post(server.url, content=content, headers={"Content-Length": str(length)})
    assert caller.statistics()["open"] in (0, 1)


def test_an_iterator_that_raises(caller: Caller, server: RawServer) -> None:
    def broken() -> Iterator[bytes]:
        yield b"one"
        raise KeyError("broken")

    async def broken_later() -> AsyncIterator[bytes]:
        for piece in broken():
            yield piece

    with RawServer(hold) as deaf, pytest.raises(KeyError):
        caller.post(deaf.url, content=broken_later() if caller.kind == "coroutine" else broken())
    assert caller.get(server.url).text == "1"


def test_multipart(caller: Caller, server: RawServer, recorder: Recorder, tmp_path: Path) -> None:
    path = tmp_path / 'na"me.txt'
    path.write_bytes(b"from a file" * 20_000)
    with path.open("rb") as file:
        files = {"one": file, "two": ("two.json", b"{}", "application/json", {"X-Part": "1"})}
        caller.post(server.url, data={"field": "value"}, files=files)
    boundary = recorder.fields()["content-type"].partition("boundary=")[2].encode()
    parts = recorder.bodies[0].split(b"--" + boundary)
    assert [parts[0], parts[-1], len(parts)] == [b"", b"--\r\n", 5]
    assert parts[1] == b'\r\nContent-Disposition: form-data; name="field"\r\n\r\nvalue\r\n'
    assert parts[2].startswith(b'\r\nContent-Disposition: form-data; name="one"; filename="na%22me.txt"\r\n')
    assert b"Content-Type: text/plain\r\n\r\nfrom a file" in parts[2]
    assert b"X-Part: 1\r\nContent-Type: application/json\r\n\r\n{}\r\n" in parts[3]
    assert recorder.fields()["content-length"] == str(len(recorder.bodies[0]))


@pytest.mark.parametrize("part", [("a", b"", "text/plain\r\nX-Evil: 1"), ("a", b"", "text/plain", {"X": "1\n"})])
def test_a_field_of_a_part_has_no_line_end(caller: Caller, server: RawServer, part: Any) -> None:
    with pytest.raises(ValueError, match="line end"):
        caller.post(server.url, files={"file": part})
    assert server.connections == 0


def test_expect(caller: Caller) -> None:
    """The body waits for `100 Continue`, and is not sent after a refusal."""
    seen: list[bytes] = []

    def serve(peer: Peer) -> None:
        assert b"expect: 100-continue" in peer.head().lower()
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        seen.append(peer.exactly(4))
        peer.answer(b"taken")
        assert b"expect: 100-continue" in peer.head().lower()
        peer.answer(b"no", "417 Expectation Failed")
        seen.append(peer.wait_for_end())

    with RawServer(serve) as server:
        headers = {"Expect": "100-continue"}
        assert caller.put(server.url, content=b"body", headers=headers).content == b"taken"
        response = caller.put(server.url, content=b"body", headers=headers)
        assert (response.status_code, response.content) == (417, b"no")
    assert seen == [b"body", b""]


def test_a_response_that_comes_before_the_body_is_sent(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(b"too large", "413 Content Too Large")
        peer.wait_for_end()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(100_000)

    def endless_now() -> Iterator[bytes]:
        while True:
            yield bytes(100_000)

    with RawServer(serve) as server:
        content = endless() if caller.kind == "coroutine" else endless_now()
        response = caller.post(server.url, content=content)
        assert (response.status_code, response.content) == (413, b"too large")


@pytest.mark.parametrize(
    ("headers", "text"),
    [({"X": "a\r\nY: b"}, "Illegal header value"), ({"X Y": "a"}, "Illegal header name"), ({"": "a"}, "name")],
)
def test_fields_that_cannot_be_sent(caller: Caller, server: RawServer, headers: dict[str, str], text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text):
        caller.get(server.url, headers=headers)
    with pytest.raises(LocalProtocolError, match="Illegal method"):
        caller.request("GE T", server.url)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("ftp://host/", UnsupportedProtocol),
        ("/path", UnsupportedProtocol),
        ("http://[::1", InvalidURL),
        ("http://a b/", InvalidURL),
    ],
)
def test_urls_that_cannot_be_fetched(caller: Caller, url: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        caller.get(url)


# -- redirects ---------------------------------------------------------------------------------------


def redirecting(status: str) -> Callable[[Peer], None]:
    def serve(peer: Peer) -> None:
        while head := peer.head():
            length = re.search(rb"content-length: (\d+)", head.lower())
            body = peer.exactly(int(length[1])) if length else b""
            if b" /start " in head:
                peer.answer(b"moved", status, "Location: /end?x=1")
            else:
                peer.answer(head.split(b"\r\n")[0] + b" " + body)

    return serve


@pytest.mark.parametrize(
    ("status", "method", "expected"),
    [
        ("301 Moved", "GET", b"GET /end?x=1 HTTP/1.1 "),
        ("301 Moved", "POST", b"GET /end?x=1 HTTP/1.1 "),
        ("302 Found", "PUT", b"GET /end?x=1 HTTP/1.1 "),
        ("303 See Other", "DELETE", b"GET /end?x=1 HTTP/1.1 "),
        ("307 Temporary", "POST", b"POST /end?x=1 HTTP/1.1 body"),
        ("308 Permanent", "PUT", b"PUT /end?x=1 HTTP/1.1 body"),
    ],
)
def test_redirects(caller: Caller, status: str, method: str, expected: bytes) -> None:
    with RawServer(redirecting(status)) as server:
        content = b"body" if method in ("POST", "PUT") else None
        for _ in range(2):
            response = caller.request(method, server.url + "/start", content=content, follow_redirects=True)
            assert response.content == expected
            assert [one.status_code for one in response.history] == [int(status[:3])]
            assert str(response.url) == server.url + "/end?x=1"
        stopped = caller.request(method, server.url + "/start", content=content)
        assert stopped.content == b"moved"
        assert str(stopped.next_request.url) == server.url + "/end?x=1"


def test_redirects_of_requests_that_were_sent_before(make_caller: MakeCaller) -> None:
    caller = make_caller(follow_redirects=True)
    with RawServer(redirecting("302 Found")) as server:
        for _ in range(3):
            response = caller.get(server.url + "/start")
            assert response.content == b"GET /end?x=1 HTTP/1.1 "
            assert len(response.history) == 1


def test_redirects_without_end(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            peer.answer(b"", "302 Found", "Location: /")

    with RawServer(serve) as server:
        with pytest.raises(TooManyRedirects):
            caller.get(server.url, follow_redirects=True)
        assert server.connections == 1


def test_a_redirect_to_another_host_loses_the_credentials(caller: Caller, recorder: Recorder) -> None:
    with RawServer(recorder) as other:

        def serve(peer: Peer) -> None:
            while peer.head():
                peer.answer(b"", "302 Found", f"Location: {other.url}/there")

        with RawServer(serve) as server:
            caller.get(server.url, auth=("user", "secret"), headers={"X-Kept": "1"}, follow_redirects=True)
    assert "authorization" not in recorder.fields()
    assert recorder.fields()["x-kept"] == "1"
    assert recorder.fields()["host"] == f"127.0.0.1:{other.port}"


def test_a_body_that_can_be_sent_only_once(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            peer.chunked()
            peer.answer(b"", "307 Temporary Redirect", "Location: /end")

    with RawServer(serve) as server, pytest.raises(StreamConsumed):
        content = several() if caller.kind == "coroutine" else several_now()
        caller.post(server.url, content=content, follow_redirects=True)


def test_a_location_that_is_no_url(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            peer.answer(b"", "302 Found", "Location: http://[bad")

    with RawServer(serve) as server, pytest.raises(RemoteProtocolError, match="location"):
        caller.get(server.url, follow_redirects=True)


# -- authentication, cookies, hooks, retries ---------------------------------------------------------


def test_basic_auth(make_caller: MakeCaller, server: RawServer, recorder: Recorder) -> None:
    expected = "Basic " + base64.b64encode(b"user:secret").decode()
    caller = make_caller(auth=("user", "secret"))
    for _ in range(2):
        caller.get(server.url)
        assert recorder.fields()["authorization"] == expected
    caller.get(server.url, auth=None)
    assert "authorization" not in recorder.fields()
    caller.client.auth = None
    caller.get(server.url.replace("//", "//user:secret@"))
    assert recorder.fields()["authorization"] == expected
    caller.get(server.url, auth=BasicAuth("user", "secret"))
    assert recorder.fields()["authorization"] == expected


def test_a_function_for_authentication(caller: Caller, server: RawServer, recorder: Recorder) -> None:
    def sign(request: Request) -> Request:
        request.headers["X-Signature"] = hashlib.sha256(str(request.url).encode()).hexdigest()
        return request

    caller.get(server.url, auth=sign)
    assert len(recorder.fields()["x-signature"]) == 64


def test_digest_auth(caller: Caller) -> None:
    def digest(*parts: str) -> str:
        return hashlib.sha256(":".join(parts).encode()).hexdigest()

    def serve(peer: Peer) -> None:
        while head := peer.head().decode():
            found = dict(re.findall(r'(\w+)="?([^",]+)"?', head.partition("uthorization: Digest")[2]))
            if not found:
                challenge = 'Digest realm="here", nonce="abc", qop="auth", algorithm=SHA-256, opaque="o"'
                fields = f"WWW-Authenticate: {challenge}", "Set-Cookie: lb=1; Path=/", "Set-Cookie: old=2; Path=/"
                peer.answer(b"", "401 Unauthorized", *fields)
                continue
            cookies.append(set(re.findall(r"[Cc]ookie: (.*)", head)[0].strip().split("; ")))
            first, second = digest("user", "here", "secret"), digest("GET", "/x")
            expected = digest(first, "abc", found["nc"], found["cnonce"], "auth", second)
            peer.answer(b"welcome" if found["response"] == expected else b"wrong")

    cookies: list[set[str]] = []
    with RawServer(serve) as server:
        auth = DigestAuth("user", "secret")
        first = caller.get(server.url + "/x", auth=auth, cookies={"session": "s", "old": "1"})
        # Those of the 401 are sent too.
        assert cookies == [{"session=s", "lb=1", "old=2"}]
        assert (first.content, [one.status_code for one in first.history]) == (b"welcome", [401])
        assert caller.get(server.url + "/x", auth=auth).history == []


def test_cookies(make_caller: MakeCaller) -> None:
    seen: list[str] = []

    def serve(peer: Peer) -> None:
        while head := peer.head().decode():
            found = re.search(r"Cookie: (.*)", head)
            seen.append(found[1].strip() if found else "")
            peer.answer(b"", "200 OK", "Set-Cookie: a=1; Path=/", "Set-Cookie: b=2; Path=/other")

    caller = make_caller()
    with RawServer(serve) as server:
        assert dict(caller.get(server.url).cookies) == {"a": "1", "b": "2"}
        caller.get(server.url)
        caller.get(server.url + "/other")
        caller.get(server.url, cookies={"c": "3"})
        assert [set(one.split("; ")) for one in seen] == [{""}, {"a=1"}, {"a=1", "b=2"}, {"a=1", "c=3"}]
        assert caller.cookies["a"] == "1"
        caller.cookies.clear()
        caller.get(server.url)
        assert seen[-1] == ""


def test_hooks(make_caller: MakeCaller, server: RawServer, recorder: Recorder) -> None:
    told: list[Any] = []

    def ask(request: Request) -> None:
        request.headers["X-Hook"] = "1"
        told.append(request.method)

    def tell(response: Response) -> None:
        told.append(response.status_code)

    async def ask_later(request: Request) -> None:
        ask(request)

    async def tell_later(response: Response) -> None:
        tell(response)

    caller = make_caller()
    caller.get(server.url)
    is_async = caller.kind == "coroutine"
    hooks = {"request": [ask_later if is_async else ask], "response": [tell_later if is_async else tell]}
    for name, functions in hooks.items():
        caller.event_hooks[name] += functions
    caller.get(server.url)
    assert told == ["GET", 200]
    assert recorder.fields()["x-hook"] == "1"


def test_retries(make_caller: MakeCaller) -> None:
    """Statuses and lost connections are tried again, for methods that may be repeated."""
    count = 0
    lock = threading.Lock()

    def serve(peer: Peer) -> None:
        nonlocal count
        while head := peer.head():
            with lock:
                count += 1
                number = count
            if number % 4 == 1:
                peer.answer(b"", "503 Service Unavailable", "Retry-After: 0")
            elif number % 4 == 2:
                return
            elif number % 4 == 3:
                peer.answer(b"", "429 Too Many Requests")
            else:
                peer.answer(head.split(b" ")[0])

    caller = make_caller(retries=Retry(3, backoff_s=0.001))
    with RawServer(serve) as server:
        assert caller.get(server.url).content == b"GET"
        assert count == 4
        assert caller.post(server.url).status_code == 503
        assert count == 5


def test_a_retry_after_that_is_too_long(make_caller: MakeCaller) -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            peer.answer(b"", "503 Service Unavailable", "Retry-After: 3600")

    with RawServer(serve) as server:
        assert make_caller(retries=2).get(server.url).status_code == 503


def test_requests_that_are_built_before_they_are_sent(caller: Caller) -> None:
    with RawServer(echo) as server:
        request = caller.build_request("GET", server.url + "/built", headers={"X": "1"})
        assert request.headers["x"] == "1"
        assert caller.send(request).content == b"/built"
        assert caller.send(request).request is request
