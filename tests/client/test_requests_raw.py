"""`raw` of responses from `RequestsAdapter`: urllib3's response, whether it is made at once or when it is looked at."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.client.farm import farm
from tests.client.servers import Peer, RawServer, noting

pytest.importorskip("requests", reason="needs the packages requests and urllib3")

import requests
import urllib3

from oneloop.http import RequestsAdapter
from oneloop.http.client import requests_adapter
from oneloop.http.client.requests_raw import PendingRaw, raw_response

Look = Callable[[requests.Response], Any]


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        made.mount("http://", RequestsAdapter())
        yield made


def read_twice(response: requests.Response) -> Any:
    return response.raw.read(), response.raw.read(), response.raw.closed


def parts(response: requests.Response) -> Any:
    return list(response.iter_content(2)), list(response.raw.stream(2)), response.raw.tell()


def one_part(response: requests.Response) -> Any:
    first = next(response.iter_content(1000))
    raw = response.raw
    return first, raw.tell(), raw.length_remaining, raw.read(), raw.closed


def decoding(response: requests.Response) -> Any:
    response.raw.decode_content = True
    response.raw.auto_close = False
    return response.raw.read(2), response.raw.closed, response.raw.data, response.raw.closed


def attributes(response: requests.Response) -> Any:
    raw = response.raw
    assert raw.status == response.status_code
    shown = {name: value for name, value in vars(raw).items() if isinstance(value, (int, str, bytes, type(None)))}
    for name in ("_connection", "_pool", "_request_url", "_sock_shutdown"):
        shown.pop(name, None)
    return shown, dict(raw.headers), raw.reason, raw.status, raw.version, raw.isclosed(), raw.readable()


def lines(response: requests.Response) -> Any:
    return list(response.iter_lines()), response.content


def closed(response: requests.Response) -> Any:
    response.close()
    return response.raw.closed, response.raw.isclosed()


def deleted(response: requests.Response) -> Any:
    del response.raw.msg
    return hasattr(response.raw, "msg"), hasattr(response.raw, "no_such"), response.raw.read()


def whole_parts(response: requests.Response) -> Any:
    return list(response.iter_content(None)), response.raw.closed


def first_bytes(response: requests.Response) -> Any:
    return response.raw._fp.read1(2), response.raw._fp.read(), response.raw._fp.read1(2)


LOOKS: list[Look] = [
    read_twice, parts, one_part, decoding, attributes, lines, closed, deleted, whole_parts, first_bytes,
]  # fmt: skip


@pytest.mark.parametrize("path", ["/echo", "/chunked", "/nothing", "/closed", "/until-close"])
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__)
@pytest.mark.parametrize("stream", [True, False])
def test_it_is_what_it_would_be_at_once(
    session: requests.Session, path: str, look: Look, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a streamed response, and after `content` was read."""

    def seen() -> Any:
        response = session.post(url, data=b"hello", stream=stream)
        try:
            return look(response)
        except (StopIteration, RuntimeError, requests.RequestException) as error:
            return type(error)
        finally:
            response.close()
            assert type(response.raw) is urllib3.HTTPResponse

    with farm() as served:
        url = f"http://127.0.0.1:{served.port}{path}"
        ours = seen()
        monkeypatch.setattr(requests_adapter, "PendingRaw", raw_response)
        assert seen() == ours


@pytest.mark.parametrize(
    "how",
    [
        lambda response: response.iter_lines(),
        lambda response: response.iter_content(1000),
        lambda response: response.iter_content(None),
        lambda response: response.raw.stream(1000),
        lambda response: response.raw.read_chunked(),
    ],
    ids=["lines", "content", "content whole", "stream", "chunks"],
)
def test_chunks_come_as_they_are_sent(session: requests.Session, how: Callable[[requests.Response], Any]) -> None:
    """The server sends the next one when this one is here."""

    def serve(peer: Peer) -> None:
        while peer.head():
            peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for number in range(5):
                peer.send(b"7\r\nline %d\n\r\n" % number)
                assert came.wait(60)
                came.clear()
            peer.send(b"0\r\n\r\n")

    came = threading.Event()
    with RawServer(serve) as server:
        for _ in range(2):
            response = session.get(server.url, stream=True, timeout=60)
            found = []
            for part in how(response):
                found.append(part.strip())
                came.set()
            assert found == [b"line %d" % number for number in range(5)]
            assert response.raw.version_string == "HTTP/1.1"
        assert server.connections == 1


def test_what_is_made_for_nobody(session: requests.Session) -> None:
    """A whole response is read without urllib3's response, which is an instance of its class all the same."""
    with farm() as served:
        response = session.post(f"http://127.0.0.1:{served.port}/echo", data=b"hello")
        assert response.content == b"hello"
        assert type(response.raw) is PendingRaw
        assert isinstance(response.raw, urllib3.HTTPResponse)
        assert response.raw.status == 200
        assert type(response.raw) is urllib3.HTTPResponse
        two = session.get(f"http://127.0.0.1:{served.port}/kept")
        # Fields of the same name are urllib3's to put together.
        assert type(two.raw) is urllib3.HTTPResponse
        assert two.headers["x-two"] == "a, b"


def test_cookies(session: requests.Session) -> None:
    def serve(peer: Peer) -> None:
        while head := peer.head():
            if b"Cookie: a=b" in head:
                peer.answer(b"known")
            else:
                peer.answer(b"", "200 OK", "Set-Cookie: a=b")

    with RawServer(serve) as server:
        assert session.get(server.url).cookies.get_dict() == {"a": "b"}
        assert session.get(server.url).text == "known"


def test_one_that_nobody_reads_leaves_its_connection(session: requests.Session) -> None:
    """Of a streamed response that is forgotten nothing is left for the next request."""

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        peer.wait_for_end()

    with RawServer(serve) as server:
        session.get(server.url, stream=True)
        gc.collect()
        response = session.get(server.url, stream=True)
        assert response.raw.read(4) == b"half"
        response.close()
        assert server.connections == 2


@pytest.mark.parametrize(
    "url",
    ["", "/", "/a?b", "/a?", "/a?b#c", "/a b", "/ä?ö=ü", "/a/../b", "?a", "/a'b", "/%2e?%zz", "/a;b?c=d&e[]=f", "//a"],
)
def test_the_target_is_the_one_of_requests(url: str) -> None:
    """Of URLs that are looked up, and of others; the first time and afterwards."""
    heads: list[bytes] = []
    with RawServer(noting(heads, b"")) as server, requests.Session() as ours, requests.Session() as theirs:
        ours.mount("http://", RequestsAdapter())
        for session in (theirs, ours, ours):
            session.get(server.url.rstrip("/") + url, headers={"X-Bytes": b"b", "Connection": "close"})
        assert heads[0].split(b"\r\n")[0] == heads[1].split(b"\r\n")[0]
        assert heads[1] == heads[2]
        assert sorted(heads[0].split(b"\r\n")) == sorted(heads[1].split(b"\r\n"))


def test_what_is_known_of_one_request_is_not_that_of_another(session: requests.Session) -> None:
    """Charsets, timeouts, and targets of classes of the program."""

    class Upper(requests.PreparedRequest):
        @property
        def path_url(self) -> str:
            return super().path_url.upper()

    def serve(peer: Peer) -> None:
        while head := peer.head():
            target = head.split(b" ")[1].decode()
            peer.answer(target.encode(), "200 OK", f"Content-Type: {target[1:]}")

    with RawServer(serve) as server:
        place = server.url.rstrip("/")
        for _ in range(2):
            for kind, encoding in (("text/a", "ISO-8859-1"), ("text/a;charset=utf-8", "utf-8"), ("b/c", None)):
                response = session.get(f"{place}/{kind}", timeout=(60, 61) if encoding else 62)
                assert response.encoding == encoding
                assert response.text == f"/{kind}"
        made = Upper()
        made.prepare("GET", f"{place}/text/a", headers={})
        assert session.send(made).text == "/TEXT/A"
    with farm() as served, pytest.raises(requests.ReadTimeout):
        session.get(f"http://127.0.0.1:{served.port}/stalls", timeout=0.2)


def test_a_server_that_does_not_read(session: requests.Session) -> None:
    """The time for the next part of the response is that for the server to read, too."""

    def serve(peer: Peer) -> None:
        peer.sock.recv(1)
        assert is_over.wait(60)

    is_over = threading.Event()
    with RawServer(serve) as server:
        with pytest.raises(requests.exceptions.ReadTimeout, match="did not read the request in time"):
            session.post(server.url, data=bytes(32 << 20), timeout=(60, 0.2))
        is_over.set()


def test_read1_returns_what_is_there(session: requests.Session) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npart")
        assert has_read.wait(60)
        peer.send(b"rest")

    has_read = threading.Event()
    with RawServer(serve) as server:
        raw: Any = session.get(server.url, stream=True, timeout=60).raw
        assert raw.read1() == b"part"
        has_read.set()
        assert b"".join(iter(raw.read1, b"")) == b"rest"
