"""Whom contexts of `oneloop.tls` trust, and that errors are those of `ssl`."""

from __future__ import annotations

import asyncio
import datetime
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from oneloop import tls
from tests.tls.authority import HOST, VERSIONS, Authority
from tests.tls.pair import connected, failures

pytestmark = pytest.mark.oneloop_only("stock asyncio knows no contexts but those of ssl")


def facts(error: BaseException | None) -> Any:
    """What programs look at in an error of ssl's."""
    assert isinstance(error, ssl.SSLError), error
    # Later versions of OpenSSL add this to "certificate is not yet valid".
    clock = " or the system clock is incorrect"
    text = str(error).partition(" (_ssl.c")[0].replace(clock, "")
    return (
        type(error),
        error.args[0],
        text,
        error.library,
        error.reason,
        getattr(error, "verify_code", None),
        getattr(error, "verify_message", "").replace(clock, ""),
    )


def self_signed(path: Path) -> Path:
    """A certificate that is its own issuer."""
    from test.test_asyncio import utils as cpython

    path.write_text(Path(cpython.ONLYCERT).read_text() + Path(cpython.ONLYKEY).read_text())
    return path


def own(path: Path, is_authority: bool = False) -> Path:
    """A self-signed certificate of a new key. All have the same name."""
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = made.public_bytes(Encoding.PEM)
    path.write_bytes(text + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


@pytest.mark.parametrize(
    ("file", "host", "code"),
    [
        ("expired", HOST, 10),
        ("future", HOST, 9),
        ("wrong_host", HOST, 62),
        ("wrong_host", "127.0.0.1", 64),
        ("unknown", HOST, 20),
        ("self_signed", HOST, 18),
        ("self_signed_anew", HOST, 18),
        ("unknown_authority", HOST, 18),
        ("untrusted_root", HOST, 19),
    ],
)
async def test_servers_that_are_not_trusted(
    loop: asyncio.AbstractEventLoop, authority: Authority, file: str, host: str, code: int, tmp_path: Path
) -> None:
    trusted = authority.authority
    path = tmp_path / "server.pem"
    if file == "unknown":
        path, trusted = authority.server, authority.other_authority
    elif file == "self_signed":
        self_signed(path)
    elif file == "self_signed_anew":
        trusted = own(tmp_path / "old.pem")
        own(path)
    elif file == "unknown_authority":
        own(path, is_authority=True)
    elif file == "untrusted_root":
        path.write_text(authority.server.read_text() + authority.authority.read_text())
        trusted = authority.other_authority
    elif file == "future":
        later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=10)
        other = trustme.CA()
        issued = other.issue_cert(HOST, not_before=later, not_after=later + datetime.timedelta(days=1))
        issued.private_key_and_cert_chain_pem.write_to_path(str(path))
        trusted = tmp_path / "other.pem"
        other.cert_pem.write_to_path(str(trusted))
    else:
        path = getattr(authority, file)
    server = tls.server_context(path)
    _, expected = await failures(loop, server, authority.client_context(trusted=trusted), hostname=host)
    told, found = await failures(loop, server, tls.client_context(ca=trusted), hostname=host)
    assert facts(found) == facts(expected)
    assert isinstance(found, ssl.SSLCertVerificationError)
    assert found.verify_code == code
    assert isinstance(told, ssl.SSLError)
    assert told.reason is not None
    assert "ALERT" in told.reason


@pytest.mark.parametrize("hostname", ["other.example", None])
async def test_a_name_that_is_not_checked(
    loop: asyncio.AbstractEventLoop, authority: Authority, hostname: str | None
) -> None:
    client = tls.client_context(ca=authority.authority, check_hostname=False)
    assert not client.check_hostname
    assert client.verify_mode is ssl.CERT_REQUIRED
    async with connected(loop, tls.server_context(authority.server), client, hostname=hostname) as pair:
        assert pair.client.ssl_object.server_hostname == hostname
        assert pair.client.ssl_object.getpeercert()["subjectAltName"]
    _, error = await failures(loop, tls.server_context(authority.expired), client)
    assert isinstance(error, ssl.SSLCertVerificationError)


async def test_nothing_is_verified(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    client = tls.client_context(verify=False, maximum_version=VERSIONS[version])
    assert client.verify_mode is ssl.CERT_NONE
    assert not client.check_hostname
    for file in (authority.server, authority.expired):
        async with connected(loop, tls.server_context(file), client, hostname=None) as pair:
            end = pair.client.ssl_object
            assert end.getpeercert() == {}
            assert end.getpeercert(True) == end.get_unverified_chain()[0]


async def test_the_systems_store(
    loop: asyncio.AbstractEventLoop, authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = tls.server_context(authority.server)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.authority))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    client = tls.client_context()
    async with connected(loop, server, client):
        pass
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.other_authority))
    both = tls.client_context(ca=["system", authority.authority])
    async with connected(loop, server, both):
        pass
    client.reload()
    _, error = await failures(loop, server, client)
    assert isinstance(error, ssl.SSLCertVerificationError)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    with pytest.raises(ssl.SSLError, match=r"NO_CERTIFICATES_IN_STORE.*missing.pem"):
        tls.client_context()


async def test_names_in_other_scripts(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    issuer = trustme.CA()
    issuer.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = issuer.issue_cert("bücher.example")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    client = tls.client_context(ca=tmp_path / "ca.pem")
    server = tls.server_context(tmp_path / "server.pem")
    async with connected(loop, server, client, hostname="bücher.example") as pair:
        assert pair.client.ssl_object.server_hostname == "xn--bcher-kva.example"


@pytest.mark.parametrize("asks", ["required", "optional"])
@pytest.mark.parametrize("maker", ["oneloop", "ssl"])
async def test_clients_with_a_certificate(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, asks: Any, maker: str
) -> None:
    server = tls.server_context(authority.server, client_ca=authority.authority, client_certificate=asks)
    assert server.verify_mode is (ssl.CERT_REQUIRED if asks == "required" else ssl.CERT_OPTIONAL)
    if maker == "ssl":
        client: Any = authority.client_context(version)
        client.load_cert_chain(authority.client)
    else:
        client = tls.client_context(
            ca=authority.authority, certfile=authority.client, maximum_version=VERSIONS[version]
        )
    async with connected(loop, server, client) as pair:
        assert pair.server.transport.get_extra_info("peercert")["subject"][-1] == (("commonName", "a client"),)
        assert pair.server.ssl_object.version() == f"TLSv{version}"


async def test_a_server_of_ssl_asks_for_a_certificate(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str
) -> None:
    server = authority.server_context(version)
    server.load_verify_locations(authority.authority)
    server.verify_mode = ssl.CERT_REQUIRED
    async with connected(loop, server, tls.client_context(ca=authority.authority, certfile=authority.client)) as pair:
        assert pair.server.ssl_object.getpeercert()["subject"][-1] == (("commonName", "a client"),)


async def test_clients_without_a_certificate(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str
) -> None:
    client = authority.client_context(version)
    optional = tls.server_context(authority.server, client_ca=authority.authority, client_certificate="optional")
    async with connected(loop, optional, client) as pair:
        assert pair.server.ssl_object.getpeercert() is None
    stock = authority.server_context(version)
    stock.verify_mode = ssl.CERT_REQUIRED
    stock.load_verify_locations(authority.authority)
    expected, _ = await failures(loop, stock, client)
    required = tls.server_context(authority.server, client_ca=authority.authority)
    found, told = await failures(loop, required, client)
    assert facts(found) == facts(expected)
    assert isinstance(told, ssl.SSLError)
    assert told.reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED"


@pytest.mark.parametrize("asks", ["required", "optional"])
async def test_clients_with_a_certificate_of_others(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, asks: Any
) -> None:
    client = tls.client_context(ca=authority.authority, certfile=authority.client, maximum_version=VERSIONS[version])
    server = tls.server_context(authority.server, client_ca=authority.other_authority, client_certificate=asks)
    found, told = await failures(loop, server, client)
    assert isinstance(found, ssl.SSLCertVerificationError)
    assert found.verify_code == 20
    assert isinstance(told, ssl.SSLError)
    assert told.reason == "TLSV1_ALERT_UNKNOWN_CA"


@pytest.mark.parametrize("is_authority", [False, True])
async def test_clients_with_a_certificate_that_was_made_anew(
    loop: asyncio.AbstractEventLoop, authority: Authority, tmp_path: Path, is_authority: bool
) -> None:
    """The one of the same name that is trusted is the old one."""
    old, new = own(tmp_path / "old.pem", is_authority), own(tmp_path / "new.pem", is_authority)
    stock = authority.server_context()
    stock.verify_mode = ssl.CERT_REQUIRED
    stock.load_verify_locations(old)
    client = tls.client_context(ca=authority.authority, certfile=new)
    expected, _ = await failures(loop, stock, client)
    found, _ = await failures(loop, tls.server_context(authority.server, client_ca=old), client)
    assert facts(found) == facts(expected)


async def test_an_authoritys_own_certificate_as_a_servers(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """OpenSSL accepts it where rustls does not: the error says what is wrong."""
    issuer = trustme.CA()
    issuer.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    issuer.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server = tls.server_context(tmp_path / "ca.pem", tmp_path / "key.pem")
    _, error = await failures(loop, server, tls.client_context(ca=tmp_path / "ca.pem"))
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert "a CA certificate is used as the peer's own" in str(error)


async def test_a_self_signed_certificate_that_is_trusted(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    path = self_signed(tmp_path / "server.pem")
    async with connected(loop, tls.server_context(path), tls.client_context(ca=path)) as pair:
        assert pair.client.ssl_object.getpeercert()["subjectAltName"] == (("DNS", HOST),)


def test_roots_are_many(tmp_path: Path) -> None:
    """A store as large as a system's is read without trouble."""
    issuers = [trustme.CA(key_type=trustme.KeyType.ECDSA) for _ in range(50)]
    path = tmp_path / "roots.pem"
    path.write_bytes(b"".join(issuer.cert_pem.bytes() for issuer in issuers))
    context = tls.client_context(ca=path)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert os.path.getsize(path) > 20_000
