"""What a WSGI application is told of a request: PEP 3333 and RFC 3875."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.http.wsgi_fixtures import server
from tests.http.wsgi_peers import Served, head, read_all, served, taken_apart

__all__ = ["server"]


def test_of_a_plain_request(server: Served) -> None:
    environ = server.get("/environ/a?b=c&d").json()
    assert environ.pop("REMOTE_PORT").isdecimal()
    assert environ == {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/environ/a",
        "QUERY_STRING": "b=c&d",
        "RAW_URI": "/environ/a?b=c&d",
        "REQUEST_URI": "/environ/a?b=c&d",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": str(server.port),
        "SERVER_SOFTWARE": "oneloop",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "test.example",
        "HTTP_CONNECTION": "close",
        "wsgi.version": [1, 0],
        "wsgi.url_scheme": "http",
        "wsgi.input_terminated": True,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }


def test_values_are_strings_of_their_own_kind(server: Served) -> None:
    environ = server.get("/environ", version="1.0", method="DELETE").json()
    assert environ["SERVER_PROTOCOL"] == "HTTP/1.0"
    assert environ["REQUEST_METHOD"] == "DELETE"
    assert environ["QUERY_STRING"] == ""
    assert "CONTENT_LENGTH" not in environ
    assert "CONTENT_TYPE" not in environ
    assert server.get("/environ", method="FROBNICATE").json()["REQUEST_METHOD"] == "FROBNICATE"


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("/environ/%41%2f%20", "/environ/A/ "),
        ("/environ/%e2%82%ac", "/environ/\xe2\x82\xac"),
        ("/environ/%ff%00", "/environ/\xff\x00"),
        ("/environ/%zz%4", "/environ/%zz%4"),
        ("//environ/../x", None),
        ("/environ/a;b=c", "/environ/a;b=c"),
    ],
)
def test_paths_are_decoded_once(server: Served, raw: str, path: str | None) -> None:
    if path is None:
        assert server.get(raw).status.startswith("500")
        return
    environ = server.get(raw + "?%41=%2f").json()
    assert environ["PATH_INFO"] == path
    assert environ["QUERY_STRING"] == "%41=%2f"
    assert environ["RAW_URI"] == raw + "?%41=%2f"


def test_fields_of_a_body(server: Served) -> None:
    environ = server.post("/environ", b"{}", "Content-Type: application/json; a=b").json()
    assert environ["CONTENT_TYPE"] == "application/json; a=b"
    assert environ["CONTENT_LENGTH"] == "2"
    assert not {"HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"} & environ.keys()
    chunked = head("/environ", "Connection: close", "Transfer-Encoding: chunked", method="POST")
    (response,) = taken_apart(server.exchange(chunked, b"2\r\n{}\r\n0\r\n\r\n"))
    assert "CONTENT_LENGTH" not in response.json()
    assert response.json()["wsgi.input_terminated"] is True


def test_fields_of_one_name_are_joined(server: Served) -> None:
    environ = server.get(
        "/environ", "X-A: 1", "Cookie: a=1", "x-a: 2", "COOKIE: b=2", "X-A:", "Cookie: c=3", "X-B: \xe4", "x-b: \xf6"
    ).json()
    assert environ["HTTP_X_A"] == "1,2,"
    assert environ["HTTP_COOKIE"] == "a=1; b=2; c=3"
    assert environ["HTTP_X_B"] == "\xe4,\xf6"


def test_names_with_an_underscore_are_dropped(server: Served) -> None:
    environ = server.get(
        "/environ", "X_Real: forged", "X-Real: real", "x_real: forged", "Content_Length: 9", "CONTENT_TYPE: a/b"
    ).json()
    assert environ["HTTP_X_REAL"] == "real"
    assert not {"CONTENT_TYPE", "CONTENT_LENGTH", "HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"} & environ.keys()
    assert "HTTP_X_REAL" not in server.get("/environ", "X_Real: forged").json()


def test_proxy_is_dropped(server: Served) -> None:
    assert "HTTP_PROXY" not in server.get("/environ", "Proxy: http://evil.example").json()
    assert server.get("/environ", "Proxy-Authorization: x").json()["HTTP_PROXY_AUTHORIZATION"] == "x"


def test_targets_that_are_no_paths(server: Served) -> None:
    data = server.exchange(
        b"GET http://test.example/environ?a HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n\r\n"
    )
    (response,) = taken_apart(data)
    assert response.json()["PATH_INFO"] == "/environ"
    assert response.json()["RAW_URI"] == "/environ?a"
    data = server.exchange(b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    # Its path is empty, of which these applications know nothing.
    assert data.startswith(b"HTTP/1.1 500 ")


def test_each_request_has_its_own(server: Served) -> None:
    with server.connect() as sock:
        sock.sendall(head("/environ?1", "X-A: 1") + head("/environ?2", "Connection: close"))
        first, second = (response.json() for response in taken_apart(read_all(sock)))
    assert first["QUERY_STRING"] == "1"
    assert second["QUERY_STRING"] == "2"
    assert first["HTTP_X_A"] == "1"
    assert "HTTP_X_A" not in second
    assert first["REMOTE_PORT"] == second["REMOTE_PORT"]


@pytest.mark.parametrize("root", ["/root", "/root/"])
def test_root_path(root: str) -> None:
    with served("threads", root_path=root, multiprocess=True, threads=1) as running:
        for path in ("/root/environ/x", "/environ/x"):
            environ = running.get(path).json()
            assert environ["SCRIPT_NAME"] == "/root"
            assert environ["PATH_INFO"] == "/environ/x"
            assert environ["REQUEST_URI"] == path
        assert environ["wsgi.multiprocess"] is True
        assert environ["wsgi.multithread"] is False


def test_unix_sockets(tmp_path: Path) -> None:
    with served("threads", uds=str(tmp_path / "socket")) as running:
        environ = running.get("/environ").json()
        assert environ["SERVER_NAME"] == "test.example"
        assert environ["SERVER_PORT"] == "80"
        assert environ["REMOTE_ADDR"] == ""
        assert "REMOTE_PORT" not in environ
        with running.connect() as sock:
            sock.sendall(b"GET /environ HTTP/1.1\r\nHost: [::1]:81\r\nConnection: close\r\n\r\n")
            (response,) = taken_apart(read_all(sock))
    assert (response.json()["SERVER_NAME"], response.json()["SERVER_PORT"]) == ("[::1]", "81")


def test_ipv4_of_the_peer(server: Served) -> None:
    with server.connect() as sock:
        port = sock.getsockname()[1]
        sock.sendall(head("/environ", "Connection: close"))
        (response,) = taken_apart(read_all(sock))
    assert sock.family == socket.AF_INET
    assert response.json()["REMOTE_PORT"] == str(port)
