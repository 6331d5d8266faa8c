"""Request bodies: Content-Length, chunks and trailers, 100 Continue, and unread bodies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneloop import green
from oneloop.green.pywsgi.body import Input, InvalidInputError
from oneloop.green.pywsgi.reader import Reader
from tests.green.wsgi import ask, connect, exchange, plain, read_all, reading, served, taken_apart

POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
LINES = b"one\ntwo\n\nthree"


class Pieces:
    """A connection that returns the given pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.sent = b""

    def recv(self, size: int) -> bytes:
        if not self.pieces:
            return b""
        first = self.pieces[0]
        self.pieces[0] = first[size:]
        if not self.pieces[0]:
            del self.pieces[0]
        return first[:size]

    def sendall(self, data: bytes) -> None:
        self.sent += data


def body_of(*pieces: bytes, length: int | None = None, sock: Any = None) -> Input:
    reader = Reader(Pieces(*pieces))
    return Input(reader, length, sock, chunked_input=length is None)


def chunks(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in (*pieces, b""))


def bytewise(data: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in data]


MADE: dict[str, Callable[[], Input]] = {
    "whole": lambda: body_of(LINES, length=len(LINES)),
    "bytewise": lambda: body_of(*bytewise(LINES), length=len(LINES)),
    "trailing": lambda: body_of(LINES + b"GET /", length=len(LINES)),
    "chunked": lambda: body_of(chunks(LINES)),
    "chunked small": lambda: body_of(chunks(*bytewise(LINES)) + b"GET /"),
    "chunked bytewise": lambda: body_of(*bytewise(chunks(LINES[:5], LINES[5:]))),
    "chunked upper case, zeros, extension": lambda: body_of(b"000E;a=b\r\n" + LINES + b"\r\n00\r\n\r\n"),
    "NUL in an extension": lambda: body_of(b"e;\0a\r\n" + LINES + b"\r\n0\r\n\r\n"),
}


@pytest.mark.parametrize("name", MADE)
def test_reading(name: str) -> None:
    make = MADE[name]
    assert make().read() == LINES
    assert make().read(-1) == LINES
    assert make().read(None) == LINES
    assert make().read(1000) == LINES
    body = make()
    assert [body.read(6), body.read(0), body.read(6), body.read(6), body.read(6), body.is_at_end] == [
        b"one\ntw",
        b"",
        b"o\n\nthr",
        b"ee",
        b"",
        True,
    ]
    body = make()
    assert [body.readline(), body.readline(2), body.readline(0), body.readline(-1), body.readline(None)] == [
        b"one\n",
        b"tw",
        b"",
        b"o\n",
        b"\n",
    ]
    assert [body.readline(100), body.readline(), body.read()] == [b"three", b"", b""]
    assert list(make()) == [b"one\n", b"two\n", b"\n", b"three"]
    assert make().readlines() == list(make())
    assert make().readlines(5) == [b"one\n", b"two\n"]
    assert make().discard(1000)
    assert not make().discard(3)


@given(st.binary(max_size=100), st.lists(st.integers(0, 30)), st.integers(1, 20), st.integers(1, 20))
def test_any_way_of_reading_gives_the_same(data: bytes, sizes: list[int], chunk: int, piece: int) -> None:
    framed = chunks(*(data[at : at + chunk] for at in range(0, len(data), chunk)))
    for body in (
        body_of(*(framed[at : at + piece] for at in range(0, len(framed), piece))),
        body_of(*(data[at : at + piece] for at in range(0, len(data), piece)), length=len(data)),
    ):
        got = b"".join(body.readline(size) if size % 2 else body.read(size) for size in sizes)
        assert data.startswith(got)
        assert got + body.read() == data
        assert body.is_at_end


def test_trailers() -> None:
    body = body_of(b"1\r\na\r\n0\r\nA: b\r\nC:  d\r\n\r\n")
    assert body.read() == b"a"
    assert body.trailers == [("A", "b"), ("C", "d")]


BROKEN = {
    "cut head": b"5",
    "cut chunk": b"5\r\nab",
    "cut end": b"2\r\nab",
    "no last chunk": b"2\r\nab\r\n",
    "cut trailers": b"0\r\n",
    "cut trailer": b"0\r\nA: b",
    "no number": b"\r\n\r\n",
    "no hexadecimal number": b"g\r\n\r\n",
    "sign": b"+1\r\na\r\n0\r\n\r\n",
    "prefix": b"0x1\r\na\r\n0\r\n\r\n",
    "underscore": b"1_0\r\n" + b"a" * 16 + b"\r\n0\r\n\r\n",
    "space before": b" 1\r\na\r\n0\r\n\r\n",
    "too large": b"1" * 17 + b"\r\na\r\n0\r\n\r\n",
    "LF": b"1\na\r\n0\r\n\r\n",
    "bare CR in an extension": b"1;a\rb\r\na\r\n0\r\n\r\n",
    "long extension": b"1;" + b"a" * 2000 + b"\r\na\r\n0\r\n\r\n",
    "longer than it says": b"1\r\nabc\r\n0\r\n\r\n",
    "chunk ended by LF": b"1\r\na\n0\r\n\r\n",
    "two bytes instead of an end": b"1\r\naXX0\r\n\r\n",
    "trailer without a colon": b"0\r\nA\r\n\r\n",
    "bad name of a trailer": b"0\r\nA b: c\r\n\r\n",
    "folded trailer": b"0\r\nA: b\r\n c\r\n\r\n",
    "NUL in a trailer": b"0\r\nA: \0\r\n\r\n",
    "bare CR in a trailer": b"0\r\nA: b\rc\r\n\r\n",
    "trailer ended by LF": b"0\r\nA: b\n\r\n",
    "endless trailers": b"0\r\n" + b"A: b\r\n" * 2000 + b"\r\n",
    "long trailer": b"0\r\nA: " + b"b" * 10_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_body(name: str) -> None:
    """The body never looks complete. The client gets a 400 response, and no further request is read."""
    for made in (body_of(BROKEN[name]), body_of(*bytewise(BROKEN[name]))):
        for _ in range(2):
            with pytest.raises(InvalidInputError):
                made.read()
        assert not made.is_at_end
        assert made.is_broken
        assert not made.discard(1000)
    with served(reading) as server:
        answer = ask(server, CHUNKED + BROKEN[name] + (b"" if name.startswith("cut") else NEXT))
        assert (answer.status, answer.fields["connection"]) == ("400 Bad Request", "close")
        assert "Invalid request" in server.error_log.getvalue()


def test_a_cut_body() -> None:
    with pytest.raises(OSError, match="byte 2"):
        body_of(b"ab", length=3).read()
    with pytest.raises(OSError, match="byte 2"):
        body_of(b"ab", length=3).readline()
    with served(reading) as server:
        assert ask(server, POST + b"Content-Length: 3\r\n\r\nab").status == "400 Bad Request"


def test_an_application_that_swallows_the_error_cannot_go_on_reading() -> None:
    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        with contextlib.suppress(OSError):
            environ["wsgi.input"].read()
        return plain(environ, start_response)

    with served(app) as server:
        assert len(taken_apart(exchange(server, CHUNKED + b"1\r\nabc" + NEXT))) == 1


def test_bodies_on_one_connection() -> None:
    with served(reading) as server:
        sent = POST + b"Content-Length: 3\r\n\r\nabc" + CHUNKED + chunks(b"d", b"ef") + NEXT + POST + b"\r\n"
        assert [one.body for one in taken_apart(exchange(server, sent))] == [b"abc", b"def", b"", b""]
        assert [one.body for one in taken_apart(exchange(server, *bytewise(sent)))] == [b"abc", b"def", b"", b""]


def test_a_large_body() -> None:
    data = bytes(range(256)) * 8192
    with served(reading) as server:
        for head, framed in ((b"Content-Length: %d\r\n\r\n" % len(data), data), (b"", chunks(data[:99], data[99:]))):
            start = POST + (head or b"Transfer-Encoding: chunked\r\n\r\n")
            with connect(server) as sock:
                sending = green.spawn(
                    sock.sendall, start + framed + NEXT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
                )
                answers = taken_apart(read_all(sock))
                sending.get()
            assert [one.body for one in answers] == [data, b""]


def test_what_is_not_read() -> None:
    """A small unread rest is read, so that the next request can follow. With a large one, the connection is closed."""
    with served(plain) as server:
        for body in (b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n" + chunks(b"a", b"b")):
            answers = taken_apart(exchange(server, POST + body + NEXT))
            assert [one.body for one in answers] == [b"POST /", b"GET /next"]
        for body in (
            b"Content-Length: 1000000\r\n\r\n" + b"a" * 300_000,
            b"Transfer-Encoding: chunked\r\n\r\n" + chunks(b"a" * 300_000) + NEXT,
            b"Transfer-Encoding: chunked\r\n\r\nnonsense",
        ):
            assert [one.body for one in taken_apart(exchange(server, POST + body))] == [b"POST /"]


def test_continue() -> None:
    """It is sent once, when the body is read, and only to HTTP/1.1 clients that have requested it."""
    expecting = POST + b"Expect: 100-Continue\r\n"
    with served(reading) as server, connect(server) as sock:
        for framed, sent in (
            (b"Content-Length: 3\r\n\r\n", b"abc"),
            (b"Transfer-Encoding: chunked\r\n\r\n", chunks(b"abc")),
        ):
            sock.sendall(expecting + framed)
            assert sock.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
            sock.sendall(sent)
            (answer,) = taken_apart(sock.recv(1000))
            assert answer.body == b"abc"
        sock.sendall(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")
        assert [one.body for one in taken_apart(read_all(sock))] == [b"abc"]


def test_a_body_that_nobody_wants_is_not_asked_for() -> None:
    with served(plain) as server:
        answer = ask(server, POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert answer.body == b"POST /"
        # It is unknown whether the body follows, so the next data must not be taken for a request.
        answers = taken_apart(exchange(server, POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n" + NEXT))
        assert [one.body for one in answers] == [b"POST /"]


def test_continue_by_hand() -> None:
    sock = Pieces()
    body = body_of(b"abc", length=3, sock=sock)
    body.send_hundred_continue_response()
    assert body.read() == b"abc"
    assert sock.sent == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_a_read_that_was_broken_off_ends_the_connection() -> None:
    """The data received before is lost, so the start of the next request is unknown."""

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        with green.Timeout(0.01, False):
            environ["wsgi.input"].read()
        return plain(environ, start_response)

    with served(app) as server, connect(server) as sock:
        sock.sendall(POST + b"Content-Length: 30\r\n\r\nabc")
        first = sock.recv(1000)
        sock.sendall(b"x" * 27 + NEXT)
        assert [one.body for one in taken_apart(first + read_all(sock))] == [b"POST /"]


def test_the_reader_as_a_file() -> None:
    made = Reader(Pieces(b"on", b"e\ntw", b"o\nthree\n", b"rest"))
    assert [made.read(1), made.readline(), made.readline(1), made.read1(), made.read1(2)] == [
        b"o",
        b"ne\n",
        b"t",
        b"w",
        b"o\n",
    ]
    buffer = bytearray(3)
    assert (made.readinto(buffer), bytes(buffer), made.has_rest) == (3, b"thr", False)
    assert made.readlines() == [b"ee\n", b"rest"]
    assert (made.readable(), made.raw, made.read(), made.read(5), made.read1()) == (True, made, b"", b"", b"")
    made.close()
    with pytest.raises(ValueError, match="closed file"):
        made.read(1)
