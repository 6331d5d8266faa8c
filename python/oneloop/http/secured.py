"""`tls_of`: the information about a TLS connection for an ASGI application (ASGI's `tls` extension, version 0.2).

Called once for each connection. Unknown values are None, as the extension specifies.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from oneloop.http.certificates import own_certificate

if TYPE_CHECKING:
    import asyncio

__all__ = ["tls_of"]

VERSIONS = {"TLSv1": 0x0301, "TLSv1.1": 0x0302, "TLSv1.2": 0x0303, "TLSv1.3": 0x0304}

# The attribute names of RFC 4514 section 3, by the names in `ssl`.
NAMES = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}


def tls_of(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """Return the value of the scope's `extensions["tls"]`.

    Args:
        transport: a TLS transport, after its handshake.
    """
    session = transport.get_extra_info("ssl_object")
    cipher = transport.get_extra_info("cipher")
    version = session.version() if hasattr(session, "version") else None
    certificate = transport.get_extra_info("peercert")
    return {
        "server_cert": _own(transport, session),
        "client_cert_chain": _chain(session),
        "client_cert_name": _name(certificate) if certificate else None,
        # With an invalid client certificate the handshake fails, so there is never an error here.
        "client_cert_error": None,
        "tls_version": VERSIONS.get(version or ""),
        "cipher_suite": _suite(transport, cipher[0]) if cipher else None,
    }


def _own(transport: asyncio.BaseTransport, session: Any) -> str | None:
    """Return the certificate that the server has sent. With OpenSSL, a session has the context that has made it."""
    made_by = getattr(session, "context", None)
    context = made_by if isinstance(made_by, ssl.SSLContext) else transport.get_extra_info("sslcontext")
    return own_certificate(context)


def _chain(session: Any) -> list[str]:
    """Return the peer's certificate chain in PEM, its own first. Before Python 3.13, ssl has only that one."""
    own = session.getpeercert(binary_form=True) if hasattr(session, "getpeercert") else None
    if not own:
        return []
    if hasattr(session, "get_unverified_chain"):
        return [_pem(certificate) for certificate in session.get_unverified_chain()]
    return [_pem(own)]


def _pem(certificate: bytes) -> str:
    return ssl.DER_cert_to_PEM_cert(certificate)


def _suite(transport: asyncio.BaseTransport, name: str) -> int | None:
    """Return IANA's number of a cipher suite: the lower 16 bits of OpenSSL's number."""
    context = transport.get_extra_info("sslcontext")
    if not hasattr(context, "get_ciphers"):
        return None
    return next((suite["id"] & 0xFFFF for suite in context.get_ciphers() if suite["name"] == name), None)


def _name(certificate: dict[str, Any]) -> str | None:
    """Return the subject's distinguished name in the format of RFC 4514, which has the last part first."""
    parts = [
        "+".join(f"{NAMES.get(key, key)}={_escaped(value)}" for key, value in part)
        for part in reversed(certificate.get("subject", ()))
    ]
    return ",".join(parts) or None


def _escaped(value: str) -> str:
    text = "".join(f"\\{character}" if character in '"+,;<>\\' else character for character in value)
    text = text.replace("\0", "\\00")
    if text.startswith((" ", "#")):
        text = "\\" + text
    if text.endswith(" ") and len(text) > 1:
        text = text[:-1] + "\\ "
    return text
