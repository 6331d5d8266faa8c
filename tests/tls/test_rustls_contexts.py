"""How contexts of `oneloop.tls` are made, what they show, and what they refuse."""

from __future__ import annotations

import asyncio
import gc
import ssl
import weakref
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from oneloop import tls
from tests.protocols import Recorder
from tests.tls.authority import Authority
from tests.transport.conftest import socket_pair

BOTH = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def split(file: Path, folder: Path) -> tuple[Path, Path]:
    """The certificates and the key of a file, in files of their own."""
    text = file.read_text()
    begin = text.index("-----BEGIN CERTIFICATE")
    if text.startswith("-----BEGIN CERTIFICATE"):
        begin = text.index("-----BEGIN", begin + 1)
        chain, key = text[:begin], text[begin:]
    else:
        key, chain = text[:begin], text[begin:]
    chain_file, key_file = folder / "chain.pem", folder / "key.pem"
    chain_file.write_text(chain)
    key_file.write_text(key)
    return chain_file, key_file


def test_what_a_servers_context_shows(authority: Authority, tmp_path: Path) -> None:
    context = tls.server_context(authority.server, alpn=["h2", "http/1.1"])
    assert context.verify_mode is ssl.CERT_NONE
    assert context.check_hostname is False
    assert context.protocol is ssl.PROTOCOL_TLS_SERVER
    assert [context.minimum_version, context.maximum_version] == BOTH
    assert context.alpn == ["h2", "http/1.1"]
    assert context.keylog_filename is None
    assert "server" in repr(context)
    assert isinstance(context, tls.TlsContext)


def test_what_a_clients_context_shows(authority: Authority, tmp_path: Path) -> None:
    log = tmp_path / "secrets"
    context = tls.client_context(ca=[authority.authority, authority.other_authority], keylog_filename=log)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname is True
    assert context.protocol is ssl.PROTOCOL_TLS_CLIENT
    assert context.alpn == []
    assert context.keylog_filename == str(log)
    assert "client" in repr(context)


def test_files_of_every_form(authority: Authority, tmp_path: Path) -> None:
    chain, key = split(authority.server, tmp_path)
    tls.server_context(chain, key)
    tls.server_context(str(chain), str(key))
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    for form in (serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL):
        key.write_bytes(private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        tls.server_context(chain, key)
    issued = trustme.CA().issue_cert("localhost", key_type=trustme.KeyType.RSA)
    issued.private_key_and_cert_chain_pem.write_to_path(str(chain))
    tls.server_context(chain)


def test_encrypted_keys_are_refused(authority: Authority, tmp_path: Path) -> None:
    chain, key = split(authority.server, tmp_path)
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    for form in (serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL):
        key.write_bytes(private.private_bytes(serialization.Encoding.PEM, form, secret))
        with pytest.raises(ssl.SSLError, match=rf"ENCRYPTED_KEY\] {key}: .*decrypt it .* or use ssl.SSLContext"):
            tls.server_context(chain, key)


def test_files_that_are_wrong_are_named(authority: Authority, tmp_path: Path) -> None:
    chain, key = split(authority.server, tmp_path)
    missing, empty, broken = tmp_path / "missing", tmp_path / "empty", tmp_path / "broken"
    empty.touch()
    with pytest.raises(FileNotFoundError) as raised:
        tls.server_context(missing)
    assert raised.value.filename == str(missing)
    with pytest.raises(IsADirectoryError):
        tls.client_context(ca=tmp_path)
    with pytest.raises(ssl.SSLError, match=rf"NO_CERTIFICATE\] {empty}: the file has no certificate"):
        tls.server_context(empty)
    with pytest.raises(ssl.SSLError, match=rf"NO_PRIVATE_KEY\] {chain}: the file has no private key"):
        tls.server_context(chain)
    with pytest.raises(ssl.SSLError, match=r"X509: KEY_VALUES_MISMATCH.*client.pem.*chain.pem") as mismatch:
        tls.server_context(chain, authority.client)
    assert (mismatch.value.library, mismatch.value.reason) == ("X509", "KEY_VALUES_MISMATCH")
    broken.write_text(chain.read_text().replace("-----END", "--END"))
    with pytest.raises(ssl.SSLError, match=rf"BAD_CERTIFICATE\] {broken}: .*is missing"):
        tls.server_context(broken, key)
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(ssl.SSLError, match=rf"{broken}"):
        tls.server_context(broken, key)
    with pytest.raises(ssl.SSLError, match=rf"{broken}"):
        tls.client_context(ca=broken)
    with pytest.raises(ssl.SSLError, match=rf"{empty}"):
        tls.server_context(chain, key, client_ca=empty)


def test_arguments_that_are_wrong(authority: Authority) -> None:
    server = authority.server
    with pytest.raises(ValueError, match=r"'required' or 'optional', not 'never'"):
        tls.server_context(server, client_certificate="never")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"not the string 'h2'"):
        tls.server_context(server, alpn="h2")
    for wrong in ("", "x" * 256):
        with pytest.raises(ValueError, match=rf"1 to 255 bytes, not {len(wrong)}"):
            tls.server_context(server, alpn=[wrong])
    with pytest.raises(ValueError, match=r"keyfile was given without certfile"):
        tls.client_context(keyfile=server)
    with pytest.raises(ValueError, match=r"no server could be trusted: .* or verify=False"):
        tls.client_context(ca=[])
    with pytest.raises(ValueError, match=r"not TLSv1_1"):
        tls.server_context(server, minimum_version=ssl.TLSVersion.TLSv1_1)
    with pytest.raises(ValueError, match=r"above"):
        tls.server_context(server, minimum_version=BOTH[1], maximum_version=BOTH[0])


def test_versions_that_are_supported(authority: Authority) -> None:
    for version in BOTH:
        context = tls.server_context(authority.server, minimum_version=version, maximum_version=version)
        assert context.minimum_version is context.maximum_version is version
    lowest, highest = ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.MAXIMUM_SUPPORTED
    context = tls.server_context(authority.server, minimum_version=lowest, maximum_version=highest)
    assert [context.minimum_version, context.maximum_version] == BOTH


@pytest.mark.parametrize("name", ["set_ciphers", "load_verify_locations", "load_cert_chain", "wrap_socket", "options"])
def test_what_a_context_does_not_offer_is_named(authority: Authority, name: str) -> None:
    context = tls.server_context(authority.server)
    assert not hasattr(context, name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': .*use an ssl.SSLContext"):
        getattr(context, name)


def test_a_context_does_not_change(authority: Authority) -> None:
    context: Any = tls.server_context(authority.server)
    for name in ("sni_callback", "verify_mode", "anything"):
        with pytest.raises(AttributeError, match=rf"'{name}' cannot be set.*server_context\(\)"):
            setattr(context, name, None)
        with pytest.raises(AttributeError):
            delattr(context, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = context.nothing


def test_contexts_are_made_by_functions_only() -> None:
    for kind in (tls.TlsContext, tls.TlsObject):
        with pytest.raises(TypeError):
            kind()


def test_contexts_are_freed(authority: Authority) -> None:
    reference = weakref.ref(tls.server_context(authority.server))
    gc.collect()
    assert reference() is None


@pytest.mark.oneloop_only("stock asyncio knows no contexts but those of ssl")
async def test_contexts_of_the_other_side(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    server, client = tls.server_context(authority.server), tls.client_context(ca=authority.authority)
    stock_client = authority.client_context()
    # From Python 3.14 on `ssl` looks at that first.
    stock_client.check_hostname = False
    for stock, ours in ((authority.server_context(), server), (stock_client, client)):
        texts = []
        for context in (stock, ours):
            sock, peer = socket_pair("unix")
            given: Any = context
            with sock, peer:
                making: Any = (
                    loop.create_connection(Recorder, sock=sock, ssl=given, server_hostname="localhost")
                    if ours is server
                    else loop.connect_accepted_socket(Recorder, sock, ssl=given)
                )
                with pytest.raises(ssl.SSLError) as raised:
                    await making
                texts.append(str(raised.value).partition(" (_ssl.c")[0])
        assert texts[0] == texts[1]


@pytest.mark.oneloop_only("stock asyncio knows no contexts but those of ssl")
async def test_names_that_are_none(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    client: Any = tls.client_context(ca=authority.authority)
    for name, text in (
        ("", "check_hostname requires server_hostname"),
        (".example.org", "cannot be an empty string or start with a leading dot"),
        ("a b", "not a valid host name"),
    ):
        sock, peer = socket_pair("unix")
        with sock, peer:
            with pytest.raises(ValueError, match=text):
                await loop.create_connection(Recorder, sock=sock, ssl=client, server_hostname=name)


def test_stock_loops_say_that_they_cannot(authority: Authority) -> None:
    context: Any = tls.client_context(ca=authority.authority)
    loop = asyncio.SelectorEventLoop()
    sock, peer = socket_pair("unix")
    with sock, peer:
        connecting = loop.create_connection(Recorder, sock=sock, ssl=context, server_hostname="localhost")
        with pytest.raises(AttributeError, match=r"no attribute 'wrap_bio': .*use an ssl.SSLContext"):
            loop.run_until_complete(connecting)
    loop.close()
