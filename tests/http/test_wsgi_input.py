"""`wsgi.input` in all its forms."""

from __future__ import annotations

import socket

import pytest

from tests.http.wsgi_fixtures import server
from tests.http.wsgi_peers import Served, head, read_all, read_until, served, taken_apart

__all__ = ["server"]


def ask(server: Served, calls: str, body: bytes, cuts: list[int], chunked: bool) -> object:
    """What calls on a body give that comes in pieces."""
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    with server.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(head(f"/reads?{calls}", "Connection: close", framing, method="POST"))
        for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
            piece = body[start:end]
            if not chunked:
                sock.sendall(piece)
            elif piece:
                sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        if chunked:
            sock.sendall(b"0\r\n\r\n")
        (response,) = taken_apart(read_all(sock))
    return response.json()


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("cuts", [[], [1], [3, 4, 5, 6, 7], [6, 12]])
@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ("read()", ["one\ntwo\n\nlast"]),
        ("read(-1);read();read(5)", ["one\ntwo\n\nlast", "", ""]),
        ("read(100)", ["one\ntwo\n\nlast"]),
        ("read(0);read(3);read(2);read(100);read(1)", ["", "one", "\nt", "wo\n\nlast", ""]),
        ("readline();readline();readline();readline();readline()", ["one\n", "two\n", "\n", "last", ""]),
        ("readline(2);readline(2);readline(2);readline(0);readline(-1)", ["on", "e\n", "tw", "", "o\n"]),
        ("readline(4);read(2);readline();readlines()", ["one\n", "tw", "o\n", ["\n", "last"]]),
        ("readlines();readlines()", [["one\n", "two\n", "\n", "last"], []]),
        ("readlines(5);iter()", [["one\n", "two\n"], ["\n", "last"]]),
        ("readlines(0)", [["one\n", "two\n", "\n", "last"]]),
        ("iter();iter()", [["one\n", "two\n", "\n", "last"], []]),
        ("read(2);iter()", ["on", ["e\n", "two\n", "\n", "last"]]),
        ("readinto(5);readinto(100);readinto(1);readinto(0)", ["one\nt", "wo\n\nlast", "", ""]),
    ],
)
def test_methods(server: Served, calls: str, expected: object, cuts: list[int], chunked: bool) -> None:
    assert ask(server, calls, b"one\ntwo\n\nlast", cuts, chunked) == expected


def test_never_past_the_end(server: Served) -> None:
    """What follows is the next request's."""
    first = head("/reads?read();read(10);readline()", "Content-Length: 3", method="POST") + b"abc"
    data = server.exchange(first + head("/hello", "Connection: close"))
    one, two = taken_apart(data)
    assert one.json() == ["abc", "", ""]
    assert two.body == b"hello"


def test_no_body(server: Served) -> None:
    assert server.get("/reads?read();readline();readlines();iter();readinto(3)").json() == ["", "", [], [], ""]
    assert server.post("/reads?read()", b"").json() == [""]


@pytest.mark.parametrize("size", [10, 65_536, 65_537, 1_000_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_sizes(server: Served, size: int, chunked: bool) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    if not chunked:
        assert server.post("/echo", body).body == body
        return
    top = head("/echo", "Connection: close", "Transfer-Encoding: chunked", method="POST")
    pieces = [body[at : at + 40_000] for at in range(0, size, 40_000)]
    data = server.exchange(top, *(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n")
    (response,) = taken_apart(data)
    assert response.body == body


def test_a_long_upload_leaves_memory_flat(server: Served) -> None:
    before = server.get("/counters").json()["memory"]
    length = 200_000_000
    with server.connect() as sock:
        sock.sendall(head("/upload", "Connection: close", f"Content-Length: {length}", method="POST"))
        part = b"x" * 1_000_000
        for _ in range(length // len(part)):
            sock.sendall(part)
        (response,) = taken_apart(read_all(sock))
    arrived, most = response.json()
    assert arrived == length
    assert most - before < 24 << 20


@pytest.mark.parametrize("size", [1000, 1_000_000])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("how", ["eof", "reset"])
def test_a_cut_body_is_never_complete(server: Served, size: int, chunked: bool, how: str) -> None:
    name = f"cut-{size}-{chunked}-{how}"
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    with server.connect() as sock:
        sock.sendall(head(f"/cut?{name}", framing, method="POST"))
        data = (b"%x\r\n" % size if chunked else b"") + b"x" * (size - 1)
        sock.sendall(data)
        if size > 100_000:
            server.wait(f"{name} began")
        if how == "eof":
            sock.shutdown(socket.SHUT_WR)
            read_all(sock)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    if size > 100_000:
        server.wait(f"{name} DisconnectedError")
    # One of a few bytes has not reached the application at all, or raised there.
    assert f"{name} complete" not in server.get("/names").json()


@pytest.mark.parametrize("data", [b"x\r\n", b"3\r\nabcd\r\n", b"3\r\nabc\n", b"-1\r\n", b"ffffffffffffffffff\r\n"])
@pytest.mark.parametrize("before", [0, 100_000])
def test_a_malformed_body_is_never_complete(server: Served, data: bytes, before: int) -> None:
    name = f"bad-{data.hex()}-{before}"
    with server.connect() as sock:
        sock.sendall(head(f"/cut?{name}", "Transfer-Encoding: chunked", method="POST"))
        if before:
            sock.sendall(b"%x\r\n%b\r\n" % (before, b"x" * before))
            server.wait(f"{name} began")
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        response = read_all(sock)
    assert response.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 ")), response
    assert f"{name} complete" not in server.get("/names").json()


def test_continue_comes_with_the_first_read(server: Served) -> None:
    for path, body in (("/echo", b"hello"), ("/reads?readline()", b"hello"), ("/validated/echo", b"hello")):
        with server.connect() as sock:
            expectation = ("Expect: 100-continue", f"Content-Length: {len(body)}", "Connection: close")
            sock.sendall(head(path, *expectation, method="POST"))
            assert read_until(sock, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            sock.sendall(body)
            (response,) = taken_apart(read_all(sock))
            assert b"hello" in response.body
    with server.connect() as sock:
        sock.sendall(head("/early", "Expect: 100-continue", "Content-Length: 5", method="POST"))
        (response,) = taken_apart(read_all(sock))
        assert response.status == "403 Forbidden"
        assert response.field("connection") == "close"


def test_a_body_that_nobody_reads(server: Served) -> None:
    """It is dropped, and the next request is served; a long one ends the connection."""
    first = head("/early", "Content-Length: 100000", method="POST") + b"x" * 100_000
    data = server.exchange(first + head("/hello", "Connection: close"))
    assert [response.body for response in taken_apart(data)] == [b"no", b"hello"]


def test_a_body_that_is_too_long() -> None:
    for mode in ("green", "threads"):
        with served(mode, max_body_bytes=1000) as running:
            assert running.post("/echo", b"x" * 1000).body == b"x" * 1000
            data = running.exchange(head("/echo", "Content-Length: 1001", method="POST"))
            assert data.startswith(b"HTTP/1.1 413 ")
            top = head("/echo", "Transfer-Encoding: chunked", method="POST")
            assert running.exchange(top, b"3e9\r\n").startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("mode", ["green", "threads"])
@pytest.mark.parametrize("size", [100, 100_000])
def test_a_body_that_does_not_come(mode: str, size: int) -> None:
    """It is refused with 408, and no request is left under way."""
    with served(mode, body_timeout_s=0.2) as running:
        with running.connect() as sock:
            sock.sendall(head("/cut?late", f"Content-Length: {size + 1}", method="POST") + b"x" * size)
            response = read_all(sock)
        assert response.startswith(b"HTTP/1.1 408 "), response
        if mode == "green" or size == 100_000:
            running.wait("late DisconnectedError")
        assert "late complete" not in running.get("/names").json()
        assert running.get("/counters").json()["requests"] == 1


def test_a_view_goes_on_when_its_client_has_gone(server: Served) -> None:
    with server.connect() as sock:
        sock.sendall(head("/block?gone"))
        server.wait("gone blocks")
    server.get("/tell?gone%20goes")
    server.wait("gone goes")
    assert server.get("/hello").body == b"hello"
