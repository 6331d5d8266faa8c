"""Flask and Django on the native WSGI server, in green threads and in a pool of threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ecosystem import wsgi_frameworks
from tests.http.wsgi_peers import Served, served

PARTS = b"".join(b"part %d\n" % number for number in range(100))


@pytest.fixture(scope="module", params=["flask", "django"])
def framework(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


@pytest.fixture(scope="module", params=["green", "threads"])
def server(request: pytest.FixtureRequest, framework: str) -> Iterator[Served]:
    with served(request.param, app=f"tests.ecosystem.wsgi_frameworks:{framework}_app") as running:
        yield running


def test_hello(server: Served) -> None:
    answer = server.get("/hello")
    assert answer.status == "200 OK"
    assert answer.body == b"hello"
    assert answer.field("content-length") == "5" or answer.field("transfer-encoding") == "chunked"
    assert server.get("/hello", method="HEAD").body == b""


@pytest.mark.parametrize("size", [10, 500_000])
def test_upload(server: Served, size: int) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="field"\r\n\r\nvalue\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
        + b"\n" * size
        + b"\r\n--b--\r\n"
    )
    answer = server.post("/upload", body, "Content-Type: multipart/form-data; boundary=b")
    assert answer.json() == {"name": "a.bin", "length": size, "field": "value"}


def test_stream(server: Served) -> None:
    answer = server.get("/stream")
    assert answer.body == PARTS
    assert answer.field("transfer-encoding") == "chunked"


def test_files(server: Served) -> None:
    assert server.get("/file").body == b"f" * 200_000
    assert server.get("/own").body == Path(wsgi_frameworks.__file__).read_bytes()


def test_errors(server: Served) -> None:
    answer = server.get("/boom")
    assert answer.status.lower() == "500 internal server error"
    assert b"secret" not in answer.body
    assert server.get("/missing").status.lower() == "404 not found"
