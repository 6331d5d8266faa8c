"""Requests whose head is made of an earlier one's: they must be those that the whole way would send."""

from __future__ import annotations

from typing import Any

import pytest

from oneloop._native import plain_target
from oneloop.http import (
    URL,
    AsyncClient,
    InvalidURL,
    ReadError,
    RemoteProtocolError,
    Request,
    ResponseTooLarge,
    Timeout,
    TotalTimeout,
)
from tests.client.callers import Caller
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, echo, noting

PLAIN = [
    ("http://a", "http://a", "/"),
    ("http://a/", "http://a", "/"),
    ("https://a.example:8443/b/c", "https://a.example:8443", "/b/c"),
    ("http://a/b?c=d&e=f", "http://a", "/b?c=d&e=f"),
    ("http://a/b?c=/./..", "http://a", "/b?c=/./.."),
    ("http://a/b?a[]=1?", "http://a", "/b?a[]=1?"),
    ("http://a/%C3%A4%zz", "http://a", "/%C3%A4%zz"),
    ("http://a/b..", "http://a", "/b.."),
    ("http://[::1]:80/x", "http://[::1]:80", "/x"),
    ("http://a/%2f;v=1,2@:!$&()*+", "http://a", "/%2f;v=1,2@:!$&()*+"),
]
NOT_PLAIN: list[Any] = [
    "", "/b", "ftp://a/b", "HTTP://a/b", "http:/a", "http://", "http:///b", "http://a?b", "http://a#b", "http://a/b#c",
    "http://u@a/b", "http://u:p@a/b", "http://a/./b", "http://a/../b", "http://a/.b", "http://a/b/..", "http://a/%2e/b",
    "http://a/b/%2E%2e", "http://a/b c", "http://a/b\\c", "http://a/\t", "http://a/b\r\nX: y", "http://a/ä", "http://ä/b",
    "http://a/'", "http://a/b?'", 'http://a/"', "http://a/<", "http://a/`", "http://a/{", "http://a/^", "http://a/|",
    "http://a\\b", "http://a b/c", "http://a/\ud800", "http://a/\0", b"http://a/b", None, URL("http://a/b"),
]  # fmt: skip


@pytest.mark.parametrize(("url", "place", "target"), PLAIN)
def test_a_plain_url_is_what_parsing_makes_of_it(url: str, place: str, target: str) -> None:
    assert plain_target(url) == (place, target.encode())
    assert URL(url).target == target


@pytest.mark.parametrize("url", NOT_PLAIN)
def test_others_are_parsed(url: Any) -> None:
    assert plain_target(url) is None


def test_what_is_plain_is_never_changed_by_parsing() -> None:
    """Every character, in both parts, also beside a dot and a percent sign."""
    for code in range(0x180):
        for text in (chr(code), f".{chr(code)}", f"{chr(code)}.", f"%2{chr(code)}", f"/{chr(code)}/", f"%{chr(code)}e"):
            for url in (f"http://a/b{text}c", f"http://a/{text}", f"http://a/b?{text}"):
                plain = plain_target(url)
                if plain is not None:
                    assert URL(url).target.encode() == plain[1], url
                    assert url == plain[0] + plain[1].decode()


def test_the_same_bytes_are_sent(make_caller: MakeCaller) -> None:
    """By a client that knows the origin, and by a new one for each request."""
    heads: list[bytes] = []
    settings: list[dict[str, Any]] = [
        {},
        {"headers": {"X-Own": "1", "Host": "other.example"}},
        {"cookies": {"a": "b"}},
        {"params": {"q": "1"}},
        {"params": {"c": "1"}},
        {"auth": ("user", "password")},
        {"base_url": "http://127.0.0.1:1/base/"},
        {"default_encoding": "latin-1"},
        {"timeout": 3},
    ]
    with RawServer(noting(heads)) as server:
        place = f"http://127.0.0.1:{server.port}"
        urls = [
            place,
            f"{place}/a",
            f"{place}/a/../b",
            f"{place}/b?c=d",
            f"{place}/b?c=d#e",
            f"{place}/ä b",
            f"{place}/a",
        ]
        for setting in settings:
            knowing = make_caller(**setting)
            for method in ("get", "head", "delete", "post"):
                for url in urls:
                    if method == "head":
                        continue
                    getattr(knowing, method)(url)
                    new = make_caller(**setting)
                    response = getattr(new, method)(url)
                    new.close()
                    again = getattr(knowing, method)(url)
                    assert heads[-3] == heads[-2] == heads[-1]
                    assert response.url == again.url
                    assert response.request.headers == again.request.headers


BODIES: list[dict[str, Any]] = [
    {"content": b"x"},
    {"content": b"y" * 70_000},
    {"json": {"a": "ä"}},
    {"json": []},
    {"json": 0},
    # These take the whole way.
    {"content": b""},
    {"content": "text"},
    {"content": bytearray(b"z")},
    {"json": None},
    {"data": {"a": "b"}},
    {"content": b"x", "headers": {"X-One": "1"}},
]


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"headers": {"Content-Type": "text/x-own", "X-Last": "Content-Length: 9"}},
        {"headers": {"Content-Length": "1"}},
        {"headers": {"Transfer-Encoding": "chunked"}},
    ],
)
def test_the_same_bodies_are_sent(make_caller: MakeCaller, setting: dict[str, Any]) -> None:
    """By a client that knows the origin, and by a new one for each request: the head, the body and what is shown."""
    seen: list[tuple[bytes, bytes]] = []

    def serve(peer: Peer) -> None:
        while head := peer.head():
            lengths = [line[16:] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: ")]
            body = peer.exactly(int(lengths[0])) if lengths else b""
            seen.append((head, body or (peer.chunked() if b"\r\nTransfer-Encoding: chunked" in head else b"")))
            peer.answer(b"ok")

    def outcome(caller: Caller, method: str, url: str, body: dict[str, Any]) -> Any:
        try:
            response = getattr(caller, method)(url, **body)
        except Exception as error:
            request = getattr(error, "_request", None)
            return type(error), str(error), request is None or request.content
        request = response.request
        return seen[-1], request.headers, request.content, request.method, response.url

    with RawServer(serve) as server:
        knowing = make_caller(**setting)
        for method in ("post", "put", "patch", "query"):
            for body in BODIES:
                for url in (f"{server.url}/a", f"{server.url}/b?c=d"):
                    first = outcome(knowing, method, url, body)
                    assert outcome(make_caller(**setting), method, url, body) == first
                    assert outcome(knowing, method, url, body) == first


def test_a_body_is_sent_again_after_a_redirect(caller: Caller) -> None:
    seen: list[tuple[bytes, bytes]] = []

    def serve(peer: Peer) -> None:
        while head := peer.head():
            seen.append((head.split(b" ", 2)[1], peer.exactly(3)))
            if head.startswith(b"POST /from"):
                peer.answer(b"", "307 Temporary Redirect", "Location: /to")
            else:
                peer.answer(b"ok")

    with RawServer(serve) as server:
        caller.client.follow_redirects = True
        for body in (b"one", b"two"):
            assert caller.post(f"{server.url}/to", content=body).text == "ok"
            assert caller.post(f"{server.url}/from", content=body).text == "ok"
        assert seen[-3:] == [(b"/to", b"two"), (b"/from", b"two"), (b"/to", b"two")]


def test_the_client_asks_first_if_its_fields_say_so(make_caller: MakeCaller) -> None:
    """`Expect` is a field of the client: the body is sent after `100 Continue`, each time."""

    def serve(peer: Peer) -> None:
        while peer.head():
            peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            peer.answer(peer.exactly(4))

    with RawServer(serve) as server:
        caller = make_caller(headers={"Expect": "100-continue"})
        for _ in range(3):
            assert caller.post(server.url, content=b"body").content == b"body"


async def test_a_known_request_says_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick way is taken, and a failure shows the request."""

    def serve(peer: Peer) -> None:
        for _ in range(2):
            peer.head()
            peer.exactly(4)
            peer.answer(b"ok")
        peer.head()
        peer.reset()

    with RawServer(serve) as server:
        async with AsyncClient() as client:
            await client.post(server.url, content=b"body")
            # A request that is known makes no Request, unless somebody asks for it.
            monkeypatch.setattr(client, "build_request", None)
            assert (await client.post(server.url, content=b"body")).text == "ok"
            with pytest.raises(ReadError) as caught:
                await client.post(server.url, content=b"lost")
            assert caught.value.request.content == b"lost"


def test_each_url_of_its_own(caller: Caller) -> None:
    with RawServer(echo) as server:
        for number in range(50):
            response = caller.get(f"{server.url}/{number}?x={number}")
            assert response.text == f"/{number}?x={number}"
            assert response.url == f"{server.url}/{number}?x={number}"
        assert server.connections == 1


def test_changes_of_the_client_count(caller: Caller) -> None:
    heads: list[bytes] = []
    with RawServer(noting(heads)) as server:
        caller.get(f"{server.url}/1")
        caller.client.headers["X-New"] = "1"
        caller.get(f"{server.url}/2")
        assert b"X-New: 1" in heads[-1]
        caller.client.headers = {"X-Other": "2"}
        caller.get(f"{server.url}/3")
        assert b"X-Other: 2" in heads[-1]
        assert b"X-New" not in heads[-1]
        caller.client.cookies.set("name", "value")
        caller.get(f"{server.url}/4")
        assert b"Cookie: name=value" in heads[-1]
        caller.client.cookies = None
        caller.client.params = {"q": "5"}
        caller.get(f"{server.url}/5")
        assert heads[-1].startswith(b"GET /5?q=5 ")
        caller.client.params = None
        caller.client.auth = ("user", "password")
        caller.get(f"{server.url}/6")
        assert b"Authorization: Basic " in heads[-1]


async def test_wrong_urls_stay_wrong() -> None:
    with RawServer(echo) as server:
        async with AsyncClient() as client:
            await client.get(server.url)
            with pytest.raises(InvalidURL):
                await client.get("http://127.0.0.1:99999/x")
            with pytest.raises(TypeError):
                await client.get(b"http://127.0.0.1/")  # type: ignore[arg-type]


@pytest.mark.parametrize("is_of_client", [True, False])
def test_credentials_are_made_for_each_request(make_caller: MakeCaller, is_of_client: bool) -> None:
    heads: list[bytes] = []

    def sign(request: Request) -> Request:
        request.headers["Authorization"] = f"number {len(heads)}"
        return request

    caller = make_caller(auth=sign if is_of_client else None)
    with RawServer(noting(heads)) as server:
        for _ in range(3):
            caller.get(server.url if is_of_client else server.url.replace("//", "//user:password@"))
            caller.get(server.url)
    shown = [b"Authorization: " in head for head in heads]
    if is_of_client:
        assert all(f"Authorization: number {at}".encode() in head for at, head in enumerate(heads))
    else:
        # Who had a password in one URL has none in another.
        assert shown == [True, False] * 3


@pytest.mark.parametrize("setting", ["retries", "size", "total", "encoding"])
def test_settings_hold_for_each_request(make_caller: MakeCaller, setting: str) -> None:
    """What only the whole way does is done for the second request and the third one as well."""
    settings: dict[str, dict[str, Any]] = {
        "retries": {"retries": 1},
        "size": {"max_response_bytes": 5},
        "total": {"timeout": Timeout(20, total=0.3)},
        "encoding": {"default_encoding": "latin-1"},
    }
    count = 0

    def serve(peer: Peer) -> None:
        nonlocal count
        while head := peer.head():
            count += 1
            if setting == "retries" and count % 2 == 0:
                peer.answer(b"", "503 Busy", "Retry-After: 0")
            elif setting == "total" and count > 1:
                peer.wait_for_end()
                return
            else:
                peer.answer(b"longer" if b"/long" in head else b"\xe4")

    caller = make_caller(**settings[setting])
    with RawServer(serve) as server:
        assert caller.get(server.url).content == b"\xe4"
        for _ in range(2):
            if setting == "size":
                with pytest.raises(ResponseTooLarge):
                    caller.get(server.url + "/long")
            elif setting == "total":
                with pytest.raises(TotalTimeout):
                    caller.get(server.url)
            else:
                response = caller.get(server.url)
                assert (response.status_code, response.content) == (200, b"\xe4")
                assert setting != "encoding" or response.text == "\xe4"


def test_fields_that_are_changed_in_any_way(caller: Caller) -> None:
    heads: list[bytes] = []
    with RawServer(noting(heads)) as server:
        for value in (b"1", b"2"):
            caller.client.headers.update({"X": value.decode()})
            caller.get(server.url)
            assert b"\r\nX: " + value in heads[-1]
        del caller.client.headers["X"]
        caller.get(server.url)
        assert b"\r\nX: " not in heads[-1]


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_only_what_may_be_repeated_is(caller: Caller, method: str) -> None:
    """The server closes the kept connection when it has read the third request."""
    count = 0

    def serve(peer: Peer) -> None:
        nonlocal count
        while peer.head():
            assert peer.exactly(1) == b"x"
            count += 1
            if count == 3:
                return
            peer.answer(b"ok")

    send = getattr(caller, method.lower())
    with RawServer(serve) as server:
        for _ in range(2):
            send(server.url, content=b"x")
        if method == "PUT":
            assert send(server.url, content=b"x").content == b"ok"
        else:
            with pytest.raises(RemoteProtocolError):
                send(server.url, content=b"x")
        assert count == (4 if method == "PUT" else 3)


def test_a_client_that_says_that_bodies_come_in_chunks(make_caller: MakeCaller) -> None:
    """Also an empty body then has its last chunk, each time."""

    def serve(peer: Peer) -> None:
        while head := peer.head():
            assert b"transfer-encoding: chunked" in head.lower()
            peer.answer(peer.chunked() or b"empty")

    with RawServer(serve) as server:
        caller = make_caller(headers={"Transfer-Encoding": "chunked"}, timeout=60)
        assert [caller.get(server.url).text for _ in range(3)] == ["empty"] * 3
