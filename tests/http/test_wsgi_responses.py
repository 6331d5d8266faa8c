"""`start_response`, `write`, and what iterables become: PEP 3333."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.http.wsgi_fixtures import server
from tests.http.wsgi_peers import Served, head, read_all, read_until, taken_apart

__all__ = ["server"]


def test_a_list_of_one_has_a_length(server: Served) -> None:
    response = server.get("/hello")
    assert response.status == "200 OK"
    assert response.body == b"hello"
    assert response.field("content-length") == "5"
    assert response.field("content-type") == "text/plain"
    assert response.field("date")
    assert response.field("connection") == "close"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/parts?one,two", b"onetwo"),
        ("/parts?one,,two,", b"onetwo"),
        ("/generator", b"onetwo"),
        ("/empty", b""),
        ("/parts?", b""),
        ("/sized?6,one,two", b"onetwo"),
        ("/slow_parts?", b"first second"),
    ],
)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_iterables(server: Served, path: str, body: bytes, version: str) -> None:
    server.get("/tell?a%20part%20was%20seen")
    data = server.exchange(head(path, "Connection: close", version=version))
    (response,) = taken_apart(data)
    assert response.body == body
    assert not response.is_cut
    is_chunked = response.field("transfer-encoding") == "chunked"
    assert is_chunked == (version == "1.1" and path.split("?")[0] not in ("/empty", "/sized") and body != b"")
    if not body:
        assert response.field("content-length") == "0"


def test_keep_alive_and_pipelining(server: Served) -> None:
    paths = ["/hello", "/parts?a,b", "/empty", "/status?204+None", "/generator", "/sized?2,a,b"]
    with server.connect() as sock:
        sock.sendall(b"".join(head(path) for path in paths) + head("/hello", "Connection: close"))
        responses = taken_apart(read_all(sock))
    assert [response.body for response in responses] == [b"hello", b"ab", b"", b"", b"onetwo", b"ab", b"hello"]
    with server.connect() as sock:
        for _ in range(3):
            sock.sendall(head("/hello", "Connection: keep-alive", version="1.0"))
            data = read_until(sock, b"hello")
            assert b"connection: keep-alive" in data


def test_head_has_no_body(server: Served) -> None:
    for path in ("/hello", "/parts?a,b", "/generator", "/empty", "/sized?6,one,two", "/sized?6"):
        data = server.exchange(head(path, method="HEAD"), head("/hello", "Connection: close"))
        top, _, rest = data.partition(b"\r\n\r\n")
        assert top.startswith(b"HTTP/1.1 200 OK"), data
        assert rest.startswith(b"HTTP/1.1 200 OK"), data
        if "sized" in path:
            assert b"content-length: 6" in top


def test_statuses_keep_their_reason(server: Served) -> None:
    assert server.get("/status?200+Fine").status == "200 Fine"
    assert server.get("/status?299+A+b+c").status == "299 A b c"
    assert server.get("/status?404+Nothing").status == "404 Nothing"
    assert server.get("/status?204+Empty").status == "204 Empty"
    assert server.get("/status?200").status == "200 "
    response = server.get("/status?304+Same")
    assert response.field("content-length") is None
    assert response.field("transfer-encoding") is None
    data = server.exchange(head("/body_with_204"), head("/hello", "Connection: close"))
    assert [response.body for response in taken_apart(data)] == [b"", b"hello"]
    assert b"a body" not in data
    # RFC 9110 section 8.6: a 204 has no length, whatever the application says.
    top = data.partition(b"\r\n\r\n")[0].lower()
    assert b"x-one: 1" in top
    assert b"content-length" not in top


def test_write_is_not_buffered(server: Served) -> None:
    with server.connect() as sock:
        sock.sendall(head("/written", "Connection: close"))
        data = read_until(sock, b"first \r\n")
        server.get("/tell?first%20was%20seen")
        data += read_all(sock)
    (response,) = taken_apart(data)
    assert response.body == b"first second third"


def test_headers_are_sent_as_given(server: Served) -> None:
    given = [("X-One", "1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X-Latin", "\xe4"), ("Server", "mine")]
    response = server.post("/fields", json.dumps(given).encode())
    for name, value in given:
        assert (name.lower(), value) in response.fields
    assert response.field("server") == "mine"
    assert response.body == b"accepted"


def test_wrong_arguments(server: Served) -> None:
    results = server.get("/mistakes").json()
    assert all(result in ("TypeError", "ValueError", "AssertionError", "RuntimeError") for result in results), results


def test_start_response_again(server: Served) -> None:
    response = server.get("/twice")
    assert response.status == "500 Replaced"
    assert response.field("x-second") == "2"
    assert response.field("x-first") is None
    assert response.body == b"replaced"
    server.wait("twice refused")
    response = server.get("/twice_late")
    assert response.is_cut
    assert response.body == b"part"
    server.wait("raised again: a reason")


BEFORE = [
    "/no_start",
    "/no_start_empty",
    "/wrong_type",
    "/returns_none",
    "/raises",
    "/raises_started",
    "/raises_exit",
    "/exits",
]


@pytest.mark.parametrize("path", [*BEFORE, "/sized?5,abc", "/sized?5"])
def test_mistakes_before_the_head_has_left(server: Served, path: str) -> None:
    data = server.exchange(head(path))
    (response,) = taken_apart(data)
    if path == "/sized?5,abc":
        # Some of it has left: it ends short.
        assert response.is_cut
        return
    assert response.status == "500 Internal Server Error"
    assert response.field("connection") == "close"
    assert b"secret" not in data
    assert b"Traceback" not in data


def test_mistakes_are_logged(server: Served) -> None:
    before = server.log().count("secret of the traceback")
    server.get("/raises")
    # The source line is among it in some versions.
    assert server.log().count("secret of the traceback") > before
    assert "Exception in WSGI application" in server.log()


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_mistakes_after_the_head_has_left(server: Served, version: str) -> None:
    data = server.exchange(head("/raises_midway", version=version))
    assert b"part" in data or version == "1.0"
    if version == "1.0":
        assert data.endswith(b"<reset>")
    else:
        (response,) = taken_apart(data)
        assert response.is_cut
    assert b"secret" not in data
    server.wait("midway closed")


def test_iterables_are_closed(server: Served) -> None:
    for path, name in [("/parts?a,b", "parts"), ("/sized?1,a", "sized"), ("/wrong_type", "wrong")]:
        server.get(path)
        server.wait(f"{name} closed")
    assert server.get("/raises_closing").body == b"whole"
    server.wait("raising closed")


@pytest.mark.parametrize("size", [1, 65_536])
def test_a_client_that_goes(server: Served, size: int) -> None:
    """The iterable is closed."""
    name = f"endless {size}"
    with server.connect() as sock:
        sock.sendall(head(f"/endless?{name.replace(' ', '%20')},{size}"))
        assert sock.recv(1000)
    server.wait(f"{name} closed")


def test_a_client_that_goes_while_the_application_writes(server: Served) -> None:
    with server.connect() as sock:
        sock.sendall(head("/endless_write"))
        assert sock.recv(1000)
    server.wait("write raised DisconnectedError")


def test_a_client_that_does_not_read(server: Served) -> None:
    """200 MB leave memory flat, and others are served meanwhile."""
    before = server.get("/counters").json()["memory"]
    with server.connect() as sock:
        sock.sendall(head("/large?3200,65536", "Connection: close"))
        server.wait("large began")
        assert server.get("/hello").body == b"hello"
        assert "256 parts" not in server.get("/names").json()
        during = server.get("/counters").json()["memory"]
        data = 0
        while more := sock.recv(1 << 20):
            data += len(more)
    assert data > 3200 * 65_536
    after = server.get("/counters").json()["memory"]
    assert max(during, after) - before < 24 << 20


@pytest.mark.parametrize(("size", "start"), [(0, 0), (10, 3), (1_000_000, 0), (1_000_000, 999_999)])
def test_files(server: Served, size: int, start: int) -> None:
    response = server.get(f"/file?{size},{start}")
    expected = (bytes(range(256)) * (size // 256 + 1))[:size][start:]
    assert response.field("content-length") == str(len(expected))
    assert response.body == expected


def test_files_in_memory(server: Served) -> None:
    assert server.get("/file_in_memory").body == b"m" * 100_000


def test_a_file_that_unpacks_another_one_is_read(server: Served) -> None:
    assert server.get("/file_packed").body == b"p" * 100_000


def test_a_file_that_says_no_size_is_read(server: Served) -> None:
    assert server.get("/file_of_kernel").body == Path("/proc/version").read_bytes()
    server.wait("memory closed")


def test_long_files_between_other_responses(server: Served) -> None:
    assert len(server.get("/file?1000000,0").body) == 1_000_000
    data = server.exchange(head("/file?1000000,5") + head("/hello", "Connection: close"))
    first, second = taken_apart(data)
    assert len(first.body) == 999_995
    assert second.body == b"hello"


@pytest.mark.parametrize("length", [0, 1, 4096, 70_000, 131_072, 299_995])
def test_a_file_longer_than_its_content_length(server: Served, length: int) -> None:
    # PEP 3333: exactly that many bytes.
    path = f"/file_of_length?300000,5,{length}"
    first, second = taken_apart(server.exchange(head(path) + head("/hello", "Connection: close")))
    assert first.status == "200 OK"
    assert first.body == (bytes(range(256)) * 1200)[5 : 5 + length]
    assert second.body == b"hello"


@pytest.mark.parametrize("length", [10, 100_000])
def test_a_file_shorter_than_its_content_length(server: Served, length: int) -> None:
    (response,) = taken_apart(server.exchange(head(f"/file_of_length?{length},5,{length}")))
    assert response.is_cut
    assert len(response.body) == length - 5


@pytest.mark.parametrize("name", ["Connection", "Keep-Alive", "Transfer-Encoding", "TE", "Trailer", "Upgrade"])
def test_fields_of_the_connection_are_left_out(server: Served, name: str) -> None:
    """As with gunicorn. The server logs it once."""
    for _ in range(2):
        response = server.post("/fields", json.dumps([(name, "chunked"), ("X-One", "1")]).encode())
        assert (response.status, response.body) == ("200 OK", b"accepted")
        assert response.field("x-one") == "1"
        assert "chunked" not in [value for known, value in response.fields if known == name.lower()]
    assert server.log().count(f'"{name.lower()}"') == 1


@pytest.mark.parametrize("value", ["close", "Close", "x, close"])
def test_an_application_closes_the_connection(server: Served, value: str) -> None:
    body = json.dumps([("Connection", value)]).encode()
    request = head("/fields", f"Content-Length: {len(body)}", method="POST") + body
    (response,) = taken_apart(server.exchange(request + head("/hello")))
    assert (response.field("connection"), response.body) == ("close", b"accepted")


def test_a_client_that_goes_in_mid_file(server: Served, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    before = server.log()
    with server.connect() as sock:
        sock.sendall(head(f"/file_closed?{path}"))
        assert sock.recv(1000)
    server.wait(f"{path} closed")
    assert server.log() == before


def test_a_head_of_an_endless_body(server: Served) -> None:
    data = server.exchange(head("/endless?headless,10", method="HEAD"), head("/hello", "Connection: close"))
    assert data.endswith(b"hello")
    server.wait("headless closed")


def test_nothing_is_left(server: Served) -> None:
    counters = server.get("/counters").json()
    assert counters["requests"] == 1
    assert counters["threads"] <= 8
