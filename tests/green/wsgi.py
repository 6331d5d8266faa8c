"""A WSGI server beside the test, with requests in raw bytes; responses are parsed as by a strict client."""

from __future__ import annotations

import contextlib
import io
import socket as stock
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from oneloop.green import socket
from oneloop.green.pywsgi import WSGIServer

App = Callable[[dict[str, Any], Callable[..., Any]], Any]


class Answer(NamedTuple):
    status: str
    fields: dict[str, str]
    body: bytes


@contextlib.contextmanager
def served(app: App, *, server_class: type[WSGIServer] = WSGIServer, **options: Any) -> Iterator[WSGIServer]:
    """A started server. Its error log is `server.error_log`, an `io.StringIO`."""
    given: dict[str, Any] = {"log": None, "error_log": io.StringIO(), "spawn": 100, **options}
    server = server_class(given.pop("listener", ("127.0.0.1", 0)), app, **given)
    server.start()
    try:
        yield server
    finally:
        server.stop(timeout=0.001)


def connect(server: WSGIServer) -> Any:
    sock = socket.create_connection(server.address)
    sock.settimeout(20)
    return sock


def read_all(sock: Any) -> bytes:
    return b"".join(iter(lambda: sock.recv(65_536), b""))


def exchange(server: WSGIServer, *pieces: bytes) -> bytes:
    """The data that the server sends until it closes the connection. The client sends only the pieces."""
    with connect(server) as sock:
        for piece in pieces:
            sock.sendall(piece)
        sock.shutdown(stock.SHUT_WR)
        return read_all(sock)


def ask(server: WSGIServer, *pieces: bytes, method: str = "GET") -> Answer:
    """The only response."""
    answers = taken_apart(exchange(server, *pieces), method)
    assert len(answers) == 1, answers
    return answers[0]


def get(server: WSGIServer, path: str = "/", *fields: str, method: str = "GET", version: str = "1.1") -> Answer:
    lines = [f"{method} {path} HTTP/{version}", "Host: test", *fields]
    return ask(server, "\r\n".join([*lines, "", ""]).encode("latin-1"), method=method)


def taken_apart(data: bytes, method: str = "GET") -> list[Answer]:
    """Parse consecutive responses. The last one may end with the connection."""
    answers = []
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        assert end, head
        line, *rest = head.decode("latin-1").split("\r\n")
        version, status = line.split(" ", 1)
        assert version == "HTTP/1.1", line
        fields: dict[str, str] = {}
        for one in rest:
            name, value = one.split(": ", 1)
            assert name.lower() not in fields, f"twice: {one}"
            fields[name.lower()] = value
        body = b""
        if status[:3] in ("204", "304", "100", "101") or method == "HEAD":
            assert "transfer-encoding" not in fields, fields
        elif "transfer-encoding" in fields:
            assert "content-length" not in fields, fields
            body, data = _unchunked(data)
        elif "content-length" in fields:
            length = int(fields["content-length"])
            body, data = data[:length], data[length:]
            assert len(body) == length, "cut"
        else:
            assert fields.get("connection") == "close", fields
            body, data = data, b""
        answers.append(Answer(status, fields, body))
    return answers


def _unchunked(data: bytes) -> tuple[bytes, bytes]:
    pieces: list[bytes] = []
    while True:
        line, end, data = data.partition(b"\r\n")
        assert end, "cut"
        length = int(line, 16)
        piece, data = data[:length], data[length:]
        assert len(piece) == length, "cut"
        assert data[:2] == b"\r\n", "cut"
        data = data[2:]
        if not length:
            return b"".join(pieces), data
        pieces.append(piece)


def plain(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Responds with the method and the path of the request."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["REQUEST_METHOD"].encode(), b" ", environ["PATH_INFO"].encode("latin-1")]


def reading(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Responds with the body of the request."""
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    return [body]
