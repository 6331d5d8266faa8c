"""Responses of every form, whole, cut at every byte, and wrong."""

from __future__ import annotations

import gzip
import threading
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from oneloop.http import AsyncClient, DecodingError, ReadError, RemoteProtocolError, ResponseTooLarge
from tests.client.callers import Caller
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, echo

GOOD = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", b""),
    "chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", b"hello"),
    "trailers": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
        b"hello",
    ),
    "informational": (
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"hello",
    ),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
}
ENDS_BY_CLOSE = {
    "until close": (b"HTTP/1.1 200 OK\r\n\r\nhello", b"hello"),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nServer: old\r\n\r\nhello", b"hello"),
    "connection: close": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
}
ALL = GOOD | ENDS_BY_CLOSE
WRONG = {
    "not HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "version": b"HTTP/2.0 200 OK\r\n\r\n",
    "status": b"HTTP/1.1 abc OK\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "length and chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "length is no number": b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
    "chunk size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "chunk end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
    "field": b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    "space before colon": b"HTTP/1.1 200 OK\r\nName : value\r\n\r\n",
    "endless hints": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100,
    "too many fields": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000 + b"\r\n",
    "endless head": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000_000,
}


def served(answer: bytes, *, closes: bool, cut: int | None = None) -> RawServer:
    """A server that gives one response to each request."""

    def serve(peer: Peer) -> None:
        while peer.head():
            if cut is not None:
                peer.send(answer[:cut])
                # Nagle is off on the loopback's other side only if somebody waits.
                peer.sock.setsockopt(6, 1, 1)
                peer.send(answer[cut:])
            else:
                peer.send(answer)
            if closes:
                return

    return RawServer(serve)


@pytest.mark.parametrize("name", GOOD)
def test_good(caller: Caller, name: str) -> None:
    answer, body = GOOD[name]
    with served(answer, closes=False) as server:
        for _ in range(2):
            response = caller.get(server.url)
            assert response.content == body
            assert b"".join(caller.pieces("GET", server.url)[1]) == body
        assert server.connections == 1, "the connection is used again"
        assert caller.statistics()["idle"] == 1


@pytest.mark.parametrize("name", ENDS_BY_CLOSE)
def test_good_to_the_end_of_the_connection(caller: Caller, name: str) -> None:
    answer, body = ENDS_BY_CLOSE[name]
    with served(answer, closes=True) as server:
        assert [caller.get(server.url).content for _ in range(2)] == [body, body]
        assert server.connections == 2


@pytest.mark.parametrize("name", ALL)
def test_cut_at_every_byte(name: str) -> None:
    """The parser does not know who waits, so one caller is enough."""
    answer, body = ALL[name]
    with closing(Caller("coroutine")) as caller:
        for cut in range(1, len(answer)):
            with served(answer, closes=name in ENDS_BY_CLOSE, cut=cut) as server:
                assert caller.get(server.url).content == body, cut


@pytest.mark.parametrize("name", WRONG)
def test_wrong(caller: Caller, name: str) -> None:
    with served(WRONG[name], closes=True) as server, pytest.raises(RemoteProtocolError) as caught:
        caller.get(server.url)
    assert str(caught.value.request.url) == server.url + "/"


@pytest.mark.parametrize("cut", [0, 5, 20, 45])
def test_too_short(caller: Caller, cut: int) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello"
    with served(answer[:cut], closes=True) as server, pytest.raises(RemoteProtocolError) as caught:
        caller.get(server.url)
    expected = "45 bytes before the end" if cut > 40 else "without sending a response"
    assert expected in str(caught.value) or cut == 45


@pytest.mark.parametrize("how", ["iter_bytes", "iter_raw", "iter_text", "iter_lines"])
def test_what_fails_while_a_body_is_read_names_the_request(caller: Caller, how: str) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello"
    with served(answer, closes=True) as server:
        with pytest.raises(RemoteProtocolError) as caught:
            caller.pieces("GET", server.url, how)
        assert str(caught.value.request.url) == server.url + "/"


async def test_what_fails_while_a_streamed_body_is_read_whole_names_the_request(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello"
    with served(answer, closes=True) as server:
        async with AsyncClient() as client:
            async with client.stream("GET", server.url) as response:
                with pytest.raises(RemoteProtocolError) as caught:
                    await response.aread()
            assert str(caught.value.request.url) == server.url + "/"
            with pytest.raises(RemoteProtocolError) as caught:
                await client.download(server.url, tmp_path / "file")
            assert str(caught.value.request.url) == server.url + "/"


def test_a_reset(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")
        peer.reset()

    with RawServer(serve) as server, pytest.raises((ReadError, RemoteProtocolError)):
        caller.get(server.url)


def test_bytes_behind_a_response_are_no_response(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        first = True
        while head := peer.head():
            forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged" if first and peer.number == 0 else b""
            target = head.split(b" ")[1]
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b%b" % (len(target), target, forged))
            first = False

    with RawServer(serve) as server:
        assert caller.get(server.url + "/a").content == b"/a"
        assert caller.get(server.url + "/b").content == b"/b"
        assert server.connections == 2


def test_bytes_on_an_idle_connection_close_it(caller: Caller) -> None:
    sent = threading.Event()

    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(b"first" if peer.number == 0 else b"second")
        if peer.number == 0:
            peer.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            peer.wait_delivered()
            sent.set()
        peer.wait_for_end()

    with RawServer(serve) as server:
        assert caller.get(server.url).content == b"first"
        assert sent.wait(60)
        assert caller.get(server.url).content == b"second"


def test_head_has_no_body(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        while head := peer.head():
            if head.startswith(b"HEAD"):
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            else:
                peer.answer(b"body")

    with RawServer(serve) as server:
        response = caller.head(server.url)
        assert (response.content, response.headers["content-length"]) == (b"", "1000")
        assert caller.get(server.url).content == b"body"
        assert server.connections == 1


TEXT = b"many words, " * 5000
CODINGS = {
    "gzip": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "deflate, raw": zlib.compress(TEXT, wbits=-15),
    "gzip, deflate": zlib.compress(gzip.compress(TEXT)),
}


@pytest.mark.parametrize("name", CODINGS)
def test_codings(caller: Caller, name: str) -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            peer.answer(CODINGS[name], "200 OK", f"Content-Encoding: {name.removesuffix(', raw')}")

    with RawServer(serve) as server:
        assert caller.get(server.url).content == TEXT
        assert b"".join(caller.pieces("GET", server.url)[1]) == TEXT
        assert b"".join(caller.pieces("GET", server.url, "iter_raw")[1]) == CODINGS[name]
        # The second is one that was sent before.
        assert caller.get(server.url).content == TEXT


def test_a_coding_that_is_a_lie(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            peer.answer(b"plain text", "200 OK", "Content-Encoding: gzip")

    with RawServer(serve) as server:
        for _ in range(2):
            with pytest.raises(DecodingError):
                caller.get(server.url)


def test_a_limit_for_the_decoded_size(make_caller: MakeCaller) -> None:
    bomb = gzip.compress(bytes(1 << 24))

    def serve(peer: Peer) -> None:
        while peer.head():
            peer.answer(bomb, "200 OK", "Content-Encoding: gzip")

    caller = make_caller(max_response_bytes=1 << 20)
    with RawServer(serve) as server, pytest.raises(ResponseTooLarge):
        caller.get(server.url)
    with RawServer(echo) as server:
        assert caller.get(server.url + "/x").content == b"/x"


@pytest.mark.parametrize("charset", ["utf-8", "latin-1", "shift_jis", None])
def test_text(caller: Caller, charset: str | None) -> None:
    text = "grüße\n" if charset != "shift_jis" else "日本語\n"

    def serve(peer: Peer) -> None:
        field = "text/plain" if charset is None else f'text/plain; charset="{charset}"'
        while peer.head():
            peer.answer(text.encode(charset or "utf-8") * 3, "200 OK", f"Content-Type: {field}")

    with RawServer(serve) as server:
        assert caller.get(server.url).text == text * 3
        assert caller.pieces("GET", server.url, "iter_lines")[1] == [text.strip()] * 3
        assert "".join(caller.pieces("GET", server.url, "iter_text")[1]) == text * 3
