"""Servers with TLS."""

from __future__ import annotations

import contextlib
import ssl as stock
from collections.abc import Callable
from typing import Any

import pytest
from test.test_asyncio import utils as cpython

from oneloop import green
from oneloop.green import socket, ssl
from oneloop.green.server import StreamServer
from tests import certificates
from tests.green.wsgi import plain, read_all, served, taken_apart

FILES = {"certfile": cpython.ONLYCERT, "keyfile": cpython.ONLYKEY}


def green_context() -> Any:
    context = ssl.SSLContext(stock.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cpython.ONLYCERT, cpython.ONLYKEY)
    return context


GIVEN: dict[str, Callable[[], dict[str, Any]]] = {
    "files": lambda: FILES,
    "more": lambda: {
        **FILES,
        "ca_certs": cpython.ONLYCERT,
        "cert_reqs": stock.CERT_NONE,
        "ciphers": "HIGH",
        "ssl_version": stock.PROTOCOL_TLS_SERVER,
    },
    "green context": lambda: {"ssl_context": green_context()},
    "context of the standard library": lambda: {"ssl_context": certificates.server_context()},
    "later handshake": lambda: {"ssl_context": green_context(), "do_handshake_on_connect": False},
}


def connect(server: StreamServer) -> Any:
    context = ssl.SSLContext(stock.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = stock.CERT_NONE
    sock = socket.create_connection(server.address)
    sock.settimeout(20)
    return context.wrap_socket(sock)


def echo(connection: Any, _: Any) -> None:
    assert isinstance(connection, ssl.SSLSocket)
    assert connection.gettimeout() is None
    while data := connection.recv(100):
        connection.sendall(data)


@pytest.mark.parametrize("name", GIVEN)
def test_each_connection_speaks_tls(name: str) -> None:
    server = StreamServer(("127.0.0.1", 0), echo, spawn=10, **GIVEN[name]())
    assert server.ssl_enabled
    with server:
        server.start()

        def ask() -> bytes:
            with connect(server) as sock:
                sock.sendall(b"hello")
                data: bytes = sock.recv(100)
                return data

        asking = [green.spawn(ask) for _ in range(5)]
        green.joinall(asking, raise_error=True)
        assert [one.value for one in asking] == [b"hello"] * 5


def test_a_client_that_does_not_shake_hands(capsys: pytest.CaptureFixture[str]) -> None:
    with StreamServer(("127.0.0.1", 0), echo, spawn=10, **FILES) as server:
        server.start()
        with socket.create_connection(server.address) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            # Possibly an alert, and the end.
            with contextlib.suppress(ConnectionResetError):
                assert b"HTTP" not in read_all(sock)
        server.handshake_timeout = 0.001
        with socket.create_connection(server.address) as sock:
            assert sock.recv(1) == b""
        server.handshake_timeout = 20
        with connect(server) as sock:
            sock.sendall(b"hello")
            assert sock.recv(100) == b"hello"
    told = capsys.readouterr().err
    assert "HTTP_REQUEST" in told
    assert "TimeoutError: _ssl.c" in told or "TimeoutError: The handshake operation timed out" in told


def test_what_is_no_tls_server() -> None:
    with pytest.raises(ValueError, match="certfile"):
        StreamServer(("127.0.0.1", 0), echo, keyfile=cpython.ONLYKEY)
    with (
        pytest.raises(TypeError, match="plain socket"),
        green_context().wrap_socket(socket.socket(), server_side=True) as sock,
    ):
        StreamServer(sock, echo)


def test_https() -> None:
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        assert environ["wsgi.url_scheme"] == "https"
        assert environ["HTTPS"] == "on"
        return plain(environ, start_response)

    get = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    with served(app, **FILES) as server, connect(server) as sock, connect(server) as idle:
        sock.sendall(get)
        assert taken_apart(sock.recv(1000))[0].body == b"GET /"
        sock.sendall(get + get.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert [one.body for one in taken_apart(read_all(sock))] == [b"GET /", b"GET /"]
        idle.sendall(get)
        assert idle.recv(1000)
        server.close()
        assert idle.recv(1) == b""
