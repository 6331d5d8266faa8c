"""TLS: by rustls where it can be, by OpenSSL where an option needs it; certificates that change while it serves."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import ssl
from pathlib import Path

import pytest
from test.test_asyncio.utils import ONLYCERT, ONLYKEY

from tests.certificates import client_context
from tests.http.http2_peer import Peer
from tests.http.service import Service, read_all
from tests.tls.authority import Authority, make

pytestmark = pytest.mark.time_limit(180)

REQUEST = b"GET /client HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def ask(port: int, context: ssl.SSLContext | None = None, *, prefix: bytes = b"") -> tuple[bytes, bytes]:
    """The response, and the certificate of the server."""
    with socket.create_connection(("127.0.0.1", port), 30) as plain:
        plain.sendall(prefix)
        with (context or client_context()).wrap_socket(plain, server_hostname="localhost") as sock:
            certificate = sock.getpeercert(binary_form=True) or b""
            sock.sendall(REQUEST)
            return read_all(sock), certificate


@pytest.mark.parametrize(
    "options", [(), ("--ssl-ciphers", "ECDHE+AESGCM"), ("--ssl-version", "17"), ("--workers", "2")]
)
def test_https(tmp_path: Path, options: tuple[str, ...]) -> None:
    with Service(tmp_path, "--ssl-certfile", ONLYCERT, "--ssl-keyfile", ONLYKEY, *options) as service:
        assert service.shown.startswith("https://127.0.0.1:")
        answer, _ = ask(service.port)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b") https" in answer
        assert service.end() == 0


def test_an_encrypted_key(tmp_path: Path) -> None:
    from test.test_ssl import KEY_PASSWORD, ONLYKEY_PROTECTED

    options = ("--ssl-certfile", ONLYCERT, "--ssl-keyfile", ONLYKEY_PROTECTED)
    with Service(tmp_path, *options, "--ssl-keyfile-password", KEY_PASSWORD) as service:
        assert ask(service.port)[0].startswith(b"HTTP/1.1 200 OK")
        assert service.end() == 0
    with Service(tmp_path, *options, is_ready=False) as service:
        assert service.wait() == 3
    assert "Cannot start the server: " in service.log.text


@pytest.mark.parametrize("options", [(), ("--ssl-ciphers", "ECDHE+AESGCM")])
def test_a_certificate_without_its_key_names_the_option(tmp_path: Path, options: tuple[str, ...]) -> None:
    with Service(tmp_path, "--ssl-certfile", ONLYCERT, *options, is_ready=False) as service:
        assert service.wait() == 3
    assert "no private key" in service.log.text
    assert "name its file with --ssl-keyfile" in service.log.text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "is encrypted: add --ssl-keyfile-password"),
        (("--ssl-keyfile-password", "wrong"), "is not PEM, or --ssl-keyfile-password is wrong"),
        (("--ssl-ciphers", "nonsense"), "--ssl-ciphers nonsense: OpenSSL has none of these ciphers"),
    ],
)
def test_what_keeps_tls_from_starting_is_told(tmp_path: Path, options: tuple[str, ...], text: str) -> None:
    files = ("--ssl-certfile", ONLYCERT, "--ssl-keyfile", ONLYKEY.replace("ssl_key", "ssl_key.passwd"))
    with Service(tmp_path, *files, *options, is_ready=False) as service:
        assert service.wait() == 3
    assert text in service.log.text


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "issued").mkdir()
    return make(tmp_path / "issued")


@pytest.mark.parametrize("options", [(), ("--ssl-ciphers", "ECDHE+AESGCM")], ids=["rustls", "openssl"])
def test_sighup_reads_the_certificates_again(tmp_path: Path, authority: Authority, options: tuple[str, ...]) -> None:
    certificate = tmp_path / "used.pem"
    shutil.copy(authority.server, certificate)
    with Service(tmp_path, "--ssl-certfile", "used.pem", *options) as service:
        _, old = ask(service.port)
        shutil.copy(authority.other_server, certificate)
        service.send(signal.SIGHUP)
        service.log.wait_for("The certificates were reloaded")
        _, new = ask(service.port)
        assert new != old
        certificate.write_text("broken")
        service.send(signal.SIGHUP)
        service.log.wait_for("Cannot reload the certificates, so the old ones are still used: ")
        assert ask(service.port)[1] == new
        assert service.end() == 0


OWN = """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["extensions"]["tls"]["server_cert"].encode()})
"""


@pytest.mark.parametrize("options", [(), ("--ssl-ciphers", "ECDHE+AESGCM")], ids=["rustls", "openssl"])
def test_the_application_is_told_the_servers_certificate(
    tmp_path: Path, authority: Authority, options: tuple[str, ...]
) -> None:
    certificate = tmp_path / "used.pem"
    shutil.copy(authority.server, certificate)
    with Service(tmp_path, "--ssl-certfile", "used.pem", *options, source=OWN) as service:

        def told(peer: Peer) -> bytes:
            return ssl.PEM_cert_to_DER_cert(peer.get().body.decode())

        for replacement in (authority.other_server, authority.server):
            answer, sent = ask(service.port)
            assert ssl.PEM_cert_to_DER_cert(answer.partition(b"-----BEGIN")[1].decode() + pem_of(answer)) == sent
            with Peer(service.port, client_context()) as peer:
                assert told(peer) == sent
                shutil.copy(replacement, certificate)
                service.send(signal.SIGHUP)
                service.log.wait_for("The certificates were reloaded")
                # This connection began with the old one.
                assert told(peer) == sent
        assert service.end() == 0


def pem_of(answer: bytes) -> str:
    return (
        answer.partition(b"-----BEGIN")[2].partition(b"-----END CERTIFICATE-----\n")[0].decode() + ssl.PEM_FOOTER + "\n"
    )


@pytest.mark.parametrize("options", [(), ("--ssl-ciphers", "ECDHE+AESGCM")], ids=["rustls", "openssl"])
@pytest.mark.parametrize("wanted", ["1", "2"])
def test_certificates_of_clients(tmp_path: Path, authority: Authority, options: tuple[str, ...], wanted: str) -> None:
    asked = ("--ssl-certfile", str(authority.server), "--ssl-ca-certs", str(authority.authority))
    with Service(tmp_path, *asked, "--ssl-cert-reqs", wanted, *options) as service:
        context = authority.client_context()
        if wanted == "1":
            assert ask(service.port, context)[0].startswith(b"HTTP/1.1 200 OK")
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                # With TLS 1.3 the refusal comes with the first bytes that are read.
                assert not ask(service.port, context)[0]
                raise ConnectionError
        context.load_cert_chain(authority.client)
        assert ask(service.port, context)[0].startswith(b"HTTP/1.1 200 OK")
        assert service.end() == 0


@pytest.mark.parametrize("options", [(), ("--ssl-ciphers", "ECDHE+AESGCM")], ids=["rustls", "openssl"])
@pytest.mark.parametrize("proxied", [(), ("--proxy-protocol",)], ids=["plain", "proxied"])
def test_a_certificate_that_was_replaced_before_its_key(
    tmp_path: Path, authority: Authority, options: tuple[str, ...], proxied: tuple[str, ...]
) -> None:
    """The old pair is used until the new one is whole."""
    files = tmp_path / "used.pem", tmp_path / "key.pem"
    for file in files:
        shutil.copy(authority.server, file)
    given = ("--ssl-certfile", "used.pem", "--ssl-keyfile", "key.pem", *options, *proxied)
    with Service(tmp_path, *given) as service:
        prefix = b"PROXY TCP4 10.0.0.1 10.0.0.2 1000 443\r\n" if proxied else b""
        _, old = ask(service.port, prefix=prefix)
        shutil.copy(authority.other_server, files[0])
        service.send(signal.SIGHUP)
        service.log.wait_for("Cannot reload the certificates, so the old ones are still used: ")
        for _ in range(2):
            answer, certificate = ask(service.port, prefix=prefix)
            assert answer.startswith(b"HTTP/1.1 200 OK")
            assert certificate == old
        shutil.copy(authority.other_server, files[1])
        service.send(signal.SIGHUP)
        service.log.wait_for("The certificates were reloaded")
        assert ask(service.port, prefix=prefix)[1] not in (old, b"")
        assert service.end() == 0


@pytest.mark.parametrize("options", [(), ("--ssl-ciphers", "ECDHE+AESGCM")], ids=["rustls", "openssl"])
@pytest.mark.parametrize("way", ["eof", "close", "reset"])
def test_nothing_is_said_of_clients_that_leave(tmp_path: Path, options: tuple[str, ...], way: str) -> None:
    """Not even by the loop, whose messages name nobody."""
    source = """
        import asyncio

        async def app(scope, receive, send):
            if scope["type"] == "lifespan":
                raise RuntimeError
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
            for size in (10, 100_000) * 10:
                try:
                    await send({"type": "http.response.body", "body": bytes(size), "more_body": True})
                except OSError:
                    pass
            print("ended", flush=True)
    """
    with Service(tmp_path, "--ssl-certfile", ONLYCERT, "--ssl-keyfile", ONLYKEY, *options, source=source) as service:
        plain = socket.create_connection(("127.0.0.1", service.port), 30)
        with client_context().wrap_socket(plain, server_hostname="localhost") as sock:
            sock.sendall(REQUEST)
            while b"first" not in sock.recv(65536):
                pass
            if way == "eof":
                sock.shutdown(socket.SHUT_WR)
            elif way == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            else:
                with contextlib.suppress(TimeoutError):
                    sock.settimeout(0.1)
                    sock.unwrap()
            if way != "eof":
                sock.close()
            service.out.wait_for("ended")
        assert service.end() == 0
        lines = service.log.text.splitlines()
    assert [line for line in lines if not line.startswith("INFO:")] == []
    assert "200 OK (incomplete: " in service.out.text
