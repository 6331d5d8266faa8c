"""A body against its declared length: a client gets exactly the declared bytes, or sees that some are missing.

PEP 3333: "the server should not transmit more bytes to the client than the header allows, and should stop iterating
over the response when enough data has been sent, or raise an error if the application tries to write() past that
point". A file may grow or shrink between the moment when its length was read and the end of its transfer: nginx sends
what it has announced (seen in tornadoweb/tornado#3693, OctoPrint/OctoPrint#3731, fastapi/fastapi#4214).
"""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oneloop.http.compression import settings as compression_settings
from tests.http.file_server import serving
from tests.http.http2_peer import Peer
from tests.http.wsgi_peers import Served, head, served, taken_apart

VERSIONS = ["1.0", "1.1", "2"]
EXCESS = "Response content longer than Content-Length"


@pytest.fixture(scope="module", params=["green", "threads"])
def server(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as running:
        yield running


@dataclass
class Got:
    """A response: `body` is None if a client sees that it is not complete, or if it says 500."""

    status: int
    body: bytes | None


def ask(port: int, path: str, version: str, method: str = "GET", *fields: tuple[str, str]) -> Got:
    """One request, and another one behind it, which must be served if the first response was complete."""
    if version == "2":
        with Peer(port) as peer:
            response = peer.get(path, method, *fields)
            if response.is_complete:
                assert peer.get("/hello").body == b"hello"
            return Got(response.status, response.body if response.is_complete and response.status == 200 else None)
    lines = [f"{name}: {value}" for name, value in fields]
    keep = ["Connection: keep-alive"] if version == "1.0" else []
    request = head(path, *keep, *lines, method=method, version=version) + head("/hello", "Connection: close")
    data = Served(port, Path(os.devnull), None).exchange(request)
    if method == "HEAD":
        top, _, rest = data.partition(b"\r\n\r\n")
        assert rest.endswith(b"\r\n\r\nhello")
        return Got(int(top.split()[1]), b"")
    first, *others = taken_apart(data)
    status = int(first.status.split()[0])
    if first.is_cut or status != 200:
        assert not others
        return Got(status, None)
    # Without a length, the end of an HTTP/1.0 connection is that of the response.
    follows = version != "1.0" or first.field("content-length") is not None
    assert [other.body for other in others] == [b"hello"] * follows
    return Got(status, first.body)


LONGER = [
    ("list,5,0123456789", b"01234"),
    ("tuple,5,0123456789", b"01234"),
    ("list,0,0123456789", b""),
    ("list,5,012,345,678", b"01234"),
    ("iterator,5,012,345,678", b"01234"),
    ("iterator,3,012,345", b"012"),
    ("iterator,0,012", b""),
    ("iterator,70000,x*69999,yz", b"x" * 69_999 + b"y"),
    ("endless,3,01,23", b"012"),
    ("write,5,0123,4567,89", b"01234"),
    ("write,4,0123,4567", b"0123"),
    ("write and go on,5,0123,4567", b"01234"),
    ("file,5,0123456789", b"01234"),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("query", "body"), LONGER, ids=[query for query, _ in LONGER])
def test_a_wsgi_body_longer_than_its_length(server: Served, query: str, body: bytes, version: str) -> None:
    query = f"{query},{version}".replace(" ", "_")
    assert ask(server.port, f"/of_length?{query}", version) == Got(200, body)
    kind = query.split(",")[0]
    if kind in ("iterator", "endless"):
        server.wait(f"{query} closed")
        assert f"{query} at its end" not in server.get("/names").json()
    if kind.startswith("write"):
        server.wait(f"{query} {EXCESS}")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("query", ["list,5,0123456789", "iterator,3,012,345", "endless,5,01", "file,5,0123456789"])
def test_a_head_request(server: Served, query: str, version: str) -> None:
    assert ask(server.port, f"/of_length?{query},{version}", version, "HEAD") == Got(200, b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_wsgi_body_of_its_length_is_iterated_to_its_end(server: Served, version: str) -> None:
    """What an application does behind its last part is done, as by other servers."""
    query = f"iterator,{6 + len(version)},012,345,{version}"
    assert ask(server.port, f"/of_length?{query}", version) == Got(200, b"012345" + version.encode())
    server.wait(f"{query} at its end")
    server.wait(f"{query} closed")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "query", ["list,100,01234", "list,1", "iterator,100,012,345", "write,100,012,345", "file,100,0123"]
)
def test_a_wsgi_body_shorter_than_its_length(server: Served, query: str, version: str) -> None:
    assert ask(server.port, f"/of_length?{query}", version).body is None


def test_an_application_that_sends_too_much_is_told_of_once(server: Served) -> None:
    for _ in range(2):
        assert ask(server.port, "/of_length?list,5,0123456789", "1.1") == Got(200, b"01234")
    assert server.log().count("longer than its Content-Length. The rest was left out") == 1


# -- files of an ASGI application ------------------------------------------------------------------------

CONTENTS = {"small": b"s" * 5000, "large": b"l" * 3_000_000, "empty": b""}
CHANGES = [
    pytest.param(content, change, id=f"{name}{change:+}")
    for name, content in CONTENTS.items()
    for change in (1, 100_000, 0, -1, -3000)
    if len(content) + change >= 0
]


class Changing:
    """Announces the length of a file, changes it, and sends it. `/hello` is another response."""

    def __init__(self, path: Path, change: int) -> None:
        self.path = path
        self.change = change
        self.errors: list[Exception] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/hello":
            headers = [(b"content-length", b"5")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"hello"})
            return
        length = self.path.stat().st_size
        headers = [(b"content-length", str(length).encode()), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["path"] == "/early":
            # The head is sent now.
            await asyncio.sleep(0)
        with self.path.open("ab") as file:
            file.truncate(length + self.change)
        try:
            await send({"type": "http.response.pathsend", "path": str(self.path)})
        except Exception as error:
            self.errors.append(error)
            raise


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", ["/", "/early"])
@pytest.mark.parametrize(("content", "change"), CHANGES)
async def test_a_file_that_changes_after_its_length_was_read(
    tmp_path: Path, content: bytes, change: int, path: str, version: str, compress: bool
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    app = Changing(file, change)
    options: dict[str, Any] = {"compress": compression_settings()} if compress else {}
    async with serving(app=app, **options) as running:
        fields = [("accept-encoding", "gzip")] if compress else []
        got = await asyncio.to_thread(ask, running.port, path, version, "GET", *fields)
    if change < 0:
        assert got.body is None
        assert len(app.errors) == 1
        return
    assert got.status == 200
    assert got.body is not None
    is_packed = compress and 1024 <= len(content) <= 4 << 20
    assert (gzip.decompress(got.body) if is_packed else got.body) == content
    assert not app.errors
