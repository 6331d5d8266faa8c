"""Responses are those of `wsgiref.simple_server`, save date, server, connection and framing."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.http.wsgi_fixtures import server
from tests.http.wsgi_peers import TIMEOUT_S, Answer, Served, head, read_all
from tests.http.wsgi_reference import reference

__all__ = ["server"]

PATHS = [
    "/hello",
    "/parts?a,b",
    "/sized?2,a,b",
    "/empty",
    "/generator",
    "/status?404+Not+Here",
    "/status?299+Own+Reason",
    "/echo",
    "/file_in_memory",
    "/file_packed",
    "/file_of_kernel",
    "/file?100000,5",
    "/twice",
]
OWN = {"date", "server", "connection", "transfer-encoding", "content-length"}


@pytest.fixture(scope="module")
def other() -> Iterator[int]:
    with reference() as port:
        yield port


def compared(data: bytes) -> tuple[str, list[tuple[str, str]], bytes]:
    top, _, body = data.partition(b"\r\n\r\n")
    line, *rest = top.decode("latin-1").split("\r\n")
    fields = [(name.lower(), value) for name, _, value in (one.partition(": ") for one in rest)]
    response = Answer(line.split(" ", 1)[1], fields, body)
    return response.status, [pair for pair in response.fields if pair[0] not in OWN], response.body


# The reference closes its end a moment after its response has ended.
@pytest.mark.allows_open_fds
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_same(server: Served, other: int, path: str, method: str) -> None:
    body = b"some\nbody\n" if method == "POST" else b""
    fields = ["Content-Type: text/plain", f"Content-Length: {len(body)}"]
    # By HTTP/1.0, which has no chunks.
    request = head(path, *fields, method=method, version="1.0") + body
    ours = server.exchange(request)
    with socket.create_connection(("127.0.0.1", other), TIMEOUT_S) as sock:
        sock.sendall(request)
        theirs = read_all(sock)
    assert compared(ours) == compared(theirs)
