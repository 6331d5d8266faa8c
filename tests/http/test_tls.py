"""TLS: by rustls where it can be, by OpenSSL where an option needs it; certificates that change while it serves."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
from pathlib import Path

import pytest
from test.test_asyncio.utils import ONLYCERT, ONLYKEY

from tests.http.service import Service, read_all
from tests.tls.authority import Authority, make

pytestmark = pytest.mark.time_limit(90)

REQUEST = b"GET /client HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def ask(port: int, context: ssl.SSLContext | None = None) -> tuple[bytes, bytes]:
    """The answer, and the certificate of the server."""
    with socket.create_connection(("127.0.0.1", port), 30) as plain:
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
