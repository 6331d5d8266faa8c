"""Request heads: accepted and refused ones. Each rule of RFC 9110 and 9112 is tested on a new connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneloop import green
from oneloop.green.pywsgi import heads
from oneloop.green.pywsgi.heads import HeadError, environ_key, parse
from tests.green.wsgi import ask, connect, exchange, get, plain, read_all, served, taken_apart

GOOD = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nAccept:  a b \t\r\nX-Empty:\r\n\r\n"


def telling(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    start_response("200 OK", [])
    shown = {key: value for key, value in environ.items() if isinstance(value, str)}
    return [repr(shown).encode()]


def test_parse() -> None:
    assert parse(GOOD) == (
        "GET",
        "/a?b=c",
        "HTTP/1.1",
        [("Host", "x"), ("Accept", "a b"), ("X-Empty", "")],
        len(GOOD),
    )
    assert parse(GOOD + b"rest") == parse(GOOD)
    assert parse(b"....." + GOOD, 5) == (*parse(GOOD)[:4], len(GOOD) + 5)  # type: ignore[index]
    for length in range(len(GOOD)):
        assert parse(GOOD[:length]) is None
    assert parse(b"GET / HTTP/1.7\r\n\r\n") == ("GET", "/", "HTTP/1.1", [], 18)
    assert parse(b"BREW /caf\xe9 HTTP/1.0\r\n\r\n") == ("BREW", "/caf\xe9", "HTTP/1.0", [], 23)


TOKEN = st.text("abcXYZ019-_!~", min_size=1)
VALUE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_characters="\x7f"))


@given(TOKEN, VALUE.filter(lambda text: text and "#" not in text), st.lists(st.tuples(TOKEN, VALUE), max_size=20))
def test_what_is_written_is_read(method: str, target: str, fields: list[tuple[str, str]]) -> None:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: \t{value} " for name, value in fields)]
    data = "\r\n".join([*lines, "", ""]).encode("latin-1")
    assert parse(data + b"more") == (method, target, "HTTP/1.1", fields, len(data))


@given(st.binary())
def test_anything_is_read_or_refused(data: bytes) -> None:
    """Accepted data has no character that another parser could interpret differently."""
    try:
        read = parse(b"GET / HTTP/1.1\r\nA: " + data + b"\r\n\r\n")
    except HeadError:
        return
    assert read is not None
    for name, value in read[3]:
        assert heads.is_token(name)
        assert not set(value) & {"\r", "\n", "\0"}


def test_names() -> None:
    assert environ_key("X-Real") == "HTTP_X_REAL"
    assert environ_key("content-type") == "CONTENT_TYPE"
    assert environ_key("X_Real") == ""
    with pytest.raises(HeadError):
        environ_key("")
    for number in range(heads.MAX_KNOWN_NAMES + 10):
        environ_key(f"name{number}")
    assert len(heads._keys) <= heads.MAX_KNOWN_NAMES


REFUSED = {
    "no version": (b"GET /\r\n\r\n", 400),
    "HTTP/0.9 of another method": (b"POST /\r\nHost: x\r\n\r\n", 400),
    "HTTP/2": (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
    "preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "version in lower case": (b"GET / http/1.1\r\nHost: x\r\n\r\n", 400),
    "long version": (b"GET / HTTP/1.10\r\nHost: x\r\n\r\n", 400),
    "two spaces": (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "tab": (b"GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "tab in the target": (b"GET /\t HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "space at the end": (b"GET / HTTP/1.1 \r\nHost: x\r\n\r\n", 400),
    "space at the begin": (b" GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "bad method": (b"G(T / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "fragment": (b"GET /#a HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "no path": (b"GET a HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "asterisk": (b"GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "CONNECT": (b"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n", 400),
    "absolute without a host": (b"GET http:/// HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "user in an absolute target": (b"GET http://u@x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "a long request line": (b"GET /" + b"x" * 8192 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "no request, and no end": (b"GET / HTTP %\r\n", 400),
    "empty host": (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n", 400),
    "bad host": (b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    "list of hosts": (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    "space before the colon": (b"GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", 400),
    "space before the first name": (b"GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    "folded host": (b"GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n", 400),
    "folded length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n 1\r\n\r\na", 400),
    "folded coding": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400),
    "no colon": (b"GET / HTTP/1.1\r\nHost: x\r\nAccept\r\n\r\n", 400),
    "no name": (b"GET / HTTP/1.1\r\nHost: x\r\n: a\r\n\r\n", 400),
    "bad name": (b"GET / HTTP/1.1\r\nHost: x\r\nA[]: a\r\n\r\n", 400),
    "name that is not ASCII": (b"GET / HTTP/1.1\r\nHost: x\r\nA\xe9: a\r\n\r\n", 400),
    "NUL": (b"GET / HTTP/1.1\r\nHost: x\r\nA: a\0b\r\n\r\n", 400),
    "DEL": (b"GET / HTTP/1.1\r\nHost: x\r\nA: a\x7fb\r\n\r\n", 400),
    "bare CR": (b"GET / HTTP/1.1\r\nHost: x\r\nA: a\rb\r\n\r\n", 400),
    "bare CR and LF": (b"GET / HTTP/1.1\r\nHost: x\r\nA: a\rb\nc\r\n\r\n", 400),
    "bare LF": (b"GET / HTTP/1.1\r\nHost: x\r\nA: a\nB: b\r\n\r\n", 400),
    "LF alone": (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    "CR CR LF": (b"GET / HTTP/1.1\r\nHost: x\r\r\n\r\n", 400),
    "two lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 400),
    "list of lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na", 400),
    "signed length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na", 400),
    "negative length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\na", 400),
    "hexadecimal length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\na", 400),
    "length with an underscore": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1_0\r\n\r\na", 400),
    "empty length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n", 400),
    "superscript length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \xb2\r\n\r\na", 400),
    "endless length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\na", 400),
    "length and coding": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "two codings": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "coding in HTTP/1.0": (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "identity": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n", 501),
    "gzip, chunked": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "xchunked": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    "chunked, identity": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n", 501),
    "vertical tab in the coding": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", 400),
    "no-break space in the coding": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \xa0chunked\r\n\r\n", 501),
    "two types": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nContent-Type: c/d\r\n\r\n", 400),
    "many fields": (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 100 + b"\r\n", 431),
    "long field": (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000 + b"\r\n\r\n", 431),
    "long target": (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "endless line": (b"a" * 70_000, 414),
    "endless head": (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000, 431),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """The client gets a status, and the connection ends. The application is not called. No further request is read."""
    data, status = REFUSED[name]
    called = []

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        called.append(environ)
        return plain(environ, start_response)

    with served(app) as server:
        answers = taken_apart(exchange(server, data, GOOD))
        assert [(one.status[:3], one.fields["connection"]) for one in answers] == [(str(status), "close")]
        assert "Invalid request" in server.error_log.getvalue()
        assert server.error_log.getvalue().count("\n") == 1
    assert not called


def test_a_folded_field_is_one_line() -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\nA: b;\r\n \t c:d\r\n\t\r\nB: \r\n e\r\n\r\n"
    parsed = heads.parse(head)
    assert parsed is not None
    assert parsed[3:] == ([("Host", "x"), ("A", "b; c:d"), ("B", "e")], len(head))


def test_what_is_allowed() -> None:
    with served(plain) as server:
        assert ask(server, b"\r\n" + GOOD).body == b"GET /a"
        assert get(server, "http://other:80/p?q").body == b"GET /p"
        assert get(server, "http://other").body == b"GET /"
        assert get(server, "/%C3%A9%00%2F").body == b"GET /\xc3\xa9\x00/"
        assert get(server, "/\xe9").body == b"GET /\xe9"
        assert get(server, "//double").body == b"GET //double"
        assert get(server, "*", method="OPTIONS").body == b"OPTIONS *"
        assert get(server, "/", method="M-SEARCH").body == b"M-SEARCH /"
        assert ask(server, b"GET / HTTP/1.0\r\n\r\n").body == b"GET /"
        assert ask(server, b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").body == b"GET /"


def test_byte_by_byte() -> None:
    with served(plain) as server, connect(server) as sock:
        for data in (GOOD, b"\r\n" + GOOD):
            for byte in data:
                sock.sendall(bytes([byte]))
                green.sleep(0)
            answer = b""
            while not answer.endswith(b"GET /a"):
                answer += sock.recv(1000)
            assert taken_apart(answer)[0].body == b"GET /a"


def test_environ() -> None:
    with served(telling, environ={"given": "yes"}) as server, connect(server) as sock:
        sock.sendall(
            b"POST http://real:8/p%20q;r?a=%20b HTTP/1.1\r\nHost: fake\r\nContent-Type: a/b\r\nContent-Length: 0\r\n"
            b"X-Real: 1\r\nX_Real: 2\r\nCookie: a=b\r\nAccept: c\r\ncookie: d\r\nACCEPT: e\r\nX-Latin: \xe9\r\n"
            b"Connection: close\r\n\r\n"
        )
        host, port = sock.getsockname()
        environ = eval(taken_apart(read_all(sock))[0].body)
    for key in ("SERVER_SOFTWARE", "GATEWAY_INTERFACE"):
        assert environ.pop(key)
    assert environ == {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/p q;r",
        "QUERY_STRING": "a=%20b",
        "CONTENT_TYPE": "a/b",
        "CONTENT_LENGTH": "0",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": str(server.server_port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": host,
        "REMOTE_PORT": str(port),
        "HTTP_HOST": "real:8",
        "HTTP_X_REAL": "1",
        "HTTP_COOKIE": "a=b; d",
        "HTTP_ACCEPT": "c,e",
        "HTTP_X_LATIN": "\xe9",
        "HTTP_CONNECTION": "close",
        "given": "yes",
        "wsgi.url_scheme": "http",
    }
