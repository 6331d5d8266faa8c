"""`wsgiref.validate` has nothing against the server, whatever is asked."""

from __future__ import annotations

import pytest

from tests.http.wsgi_fixtures import server
from tests.http.wsgi_peers import Served, head, taken_apart

__all__ = ["server"]

PATHS = [
    "/hello",
    "/environ/%e2%82%ac?a=b",
    "/parts?a,b",
    "/parts?",
    "/sized?2,a,b",
    "/empty",
    "/generator",
    "/status?204+None",
    "/status?304+Same",
    "/status?500+Bad",
    "/file_in_memory",
    "/file_packed",
    "/file_of_kernel",
    "/file?100000,10",
    "/reads?read(1);readline();readlines()",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT", "OPTIONS", "DELETE", "PATCH"])
def test_silence(server: Served, path: str, version: str, method: str) -> None:
    body = b"some\nbody" if method in ("POST", "PUT") else b""
    fields = ["Connection: close", "Cookie: a=b", "X-Some: thing"]
    if body:
        fields += ["Content-Type: text/plain", f"Content-Length: {len(body)}"]
    data = server.exchange(head(f"/validated{path}", *fields, method=method, version=version) + body)
    (response,) = taken_apart(data, method)
    assert not response.status.startswith("500 Internal"), server.log()[-3000:]
    assert "AssertionError" not in server.log(), server.log()[-3000:]
    assert "WSGIWarning" not in server.log(), server.log()[-3000:]
