"""The PROXY protocol in front of HTTP and of TLS; what trusted proxies say to WSGI applications."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
from test.test_asyncio.utils import ONLYCERT, ONLYKEY

from tests.http.service import Service, read_all

REQUEST = b"GET /client HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
HEADER_1 = b"PROXY TCP4 192.0.2.1 192.0.2.2 1111 443\r\n"
HEADER_2 = (
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"
    + socket.inet_aton("192.0.2.1")
    + socket.inet_aton("192.0.2.2")
    + (1111).to_bytes(2, "big")
    + (443).to_bytes(2, "big")
)
CLIENT = b"('192.0.2.1', 1111)"
WSGI = """
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [" ".join(environ[name] for name in ("wsgi.url_scheme", "REMOTE_ADDR", "PATH_INFO")).encode()]
"""


def connected(service: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), 30)


@pytest.mark.parametrize("header", [HEADER_1, HEADER_2], ids=["version 1", "version 2"])
@pytest.mark.parametrize("is_split", [False, True])
def test_who_is_behind_it(tmp_path: Path, header: bytes, is_split: bool) -> None:
    with Service(tmp_path, "--proxy-protocol") as service:
        sock = connected(service)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        whole = header + REQUEST
        for piece in [whole[at : at + 1] for at in range(len(whole))] if is_split else [whole]:
            sock.sendall(piece)
        response = read_all(sock)
        assert response.startswith(b"HTTP/1.1 200 OK")
        assert response.endswith(CLIENT + b" http")


def test_who_does_not_begin_with_it_gets_no_response(tmp_path: Path) -> None:
    with Service(tmp_path, "--proxy-protocol") as service:
        sock = connected(service)
        sock.sendall(REQUEST)
        assert read_all(sock) == b""


@pytest.mark.parametrize(("allowed", "is_taken"), [("127.0.0.0/8", True), ("192.0.2.9, ::1", False)])
def test_whose_header_is_taken(tmp_path: Path, allowed: str, is_taken: bool) -> None:
    with Service(tmp_path, "--proxy-protocol", "--proxy-allow-ips", allowed) as service:
        sock = connected(service)
        sock.sendall(HEADER_1 + REQUEST)
        response = read_all(sock)
        if is_taken:
            assert response.endswith(CLIENT + b" http")
        else:
            assert response == b""
            service.log.wait_for(r"A connection from 127\.0\.0\.1\S* was closed: it is no proxy of --proxy-allow-ips")
        assert service.end() == 0


@pytest.mark.parametrize(("allowed", "is_taken"), [("unix", True), ("127.0.0.1", False)])
def test_whose_header_is_taken_on_a_unix_socket(tmp_path: Path, allowed: str, is_taken: bool) -> None:
    options = ("--uds", "s", "--proxy-protocol", "--proxy-allow-ips", allowed)
    with Service(tmp_path, *options, port=None) as service:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(30)
        sock.connect(str(tmp_path / "s"))
        sock.sendall(HEADER_1 + REQUEST)
        assert read_all(sock).endswith(CLIENT + b" http") is is_taken
        assert service.end() == 0


@pytest.mark.parametrize("options", [(), ("--ssl-ciphers", "ECDHE+AESGCM")], ids=["rustls", "openssl"])
@pytest.mark.parametrize("is_at_once", [False, True])
def test_tls_begins_behind_it(tmp_path: Path, options: tuple[str, ...], is_at_once: bool) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    certificate = ("--ssl-certfile", ONLYCERT, "--ssl-keyfile", ONLYKEY)
    with Service(tmp_path, "--proxy-protocol", *certificate, *options) as service:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(incoming, outgoing)
        with pytest.raises(ssl.SSLWantReadError):
            session.do_handshake()
        sock = connected(service)
        first = outgoing.read()
        if is_at_once:
            sock.sendall(HEADER_1 + first)
        else:
            sock.sendall(HEADER_1)
            sock.sendall(first)
        with sock:
            text = b""
            is_shaken = False
            while not text.endswith(b"https"):
                data = sock.recv(65536)
                assert data, text
                incoming.write(data)
                try:
                    if not is_shaken:
                        session.do_handshake()
                        is_shaken = True
                        session.write(REQUEST)
                        sock.sendall(outgoing.read())
                    text += session.read(65536)
                except ssl.SSLWantReadError:
                    sock.sendall(outgoing.read())
        assert text.startswith(b"HTTP/1.1 200 OK")
        assert text.endswith(CLIENT + b" https")


def test_a_client_that_leaves_before_tls_is_not_counted_for_ever(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    certificate = ("--ssl-certfile", ONLYCERT, "--ssl-keyfile", ONLYKEY)
    with Service(tmp_path, "--proxy-protocol", "--limit-concurrency", "3", *certificate) as service:
        for first in (b"", b"\x16\x03\x01\x02", b"no TLS"):
            for _ in range(3):
                with connected(service) as sock:
                    sock.sendall(HEADER_1 + first)
                    sock.shutdown(socket.SHUT_WR)
                    while sock.recv(4096):
                        pass
        sock = connected(service)
        sock.sendall(HEADER_1)
        with context.wrap_socket(sock) as secured:
            secured.sendall(REQUEST)
            assert secured.recv(4096).startswith(b"HTTP/1.1 200 OK")
        assert service.end() == 0
    assert "never retrieved" not in service.log.text


@pytest.mark.parametrize("form", [("--threads", "2"), ("--green",)], ids=["threads", "green"])
def test_wsgi_behind_a_proxy_and_tls(tmp_path: Path, form: tuple[str, ...]) -> None:
    options = (*form, "--ssl-certfile", ONLYCERT, "--ssl-keyfile", ONLYKEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with Service(tmp_path, *options, source=WSGI) as service:
        said = []
        for fields in (b"", b"X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\n"):
            with context.wrap_socket(connected(service)) as sock:
                sock.sendall(b"GET /a%20b HTTP/1.0\r\nHost: x\r\n" + fields + b"\r\n")
                said.append(read_all(sock).partition(b"\r\n\r\n")[2])
        assert said == [b"https 127.0.0.1 /a b", b"http 192.0.2.7 /a b"]
        assert service.end() == 0
