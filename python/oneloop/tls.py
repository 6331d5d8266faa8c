"""TLS with rustls: contexts for every `ssl=` argument of oneloop's loop.

`server_context()` and `client_context()` read certificates and keys from PEM files and return a `TlsContext`. Use it
instead of an `ssl.SSLContext` with `create_server`, `create_connection` and `start_tls` of a oneloop loop, and with
asyncio's streams. It supports TLS 1.2 and 1.3 with cipher suites that are considered safe today. Encrypted private
keys, a choice of ciphers and callbacks are not supported: using such an attribute raises an AttributeError that
recommends `ssl.SSLContext`.

Connections raise the exceptions of `ssl`: `ssl.SSLError`, `ssl.SSLCertVerificationError` etc.
"""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from oneloop._native import TlsContext, TlsObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["TlsContext", "TlsObject", "client_context", "server_context"]

Path: TypeAlias = str | os.PathLike[str]

_LOWEST = ssl.TLSVersion.TLSv1_2
_HIGHEST = ssl.TLSVersion.TLSv1_3


def server_context(
    certfile: Path,
    keyfile: Path | None = None,
    *,
    alpn: Iterable[str] = (),
    sni: Mapping[str, tuple[Path, Path | None]] | None = None,
    client_ca: Path | None = None,
    client_certificate: Literal["required", "optional"] = "required",
    minimum_version: ssl.TLSVersion = _LOWEST,
    maximum_version: ssl.TLSVersion = _HIGHEST,
    resumption: bool = True,
    keylog_filename: Path | None = None,
) -> TlsContext:
    """Return a context for servers.

    Args:
        certfile: PEM file with the certificate chain, the server's certificate first.
        keyfile: PEM file with the private key, not encrypted. None: the key is in `certfile`.
        alpn: names of application protocols, the preferred one first. The handshake fails if a client offers
            protocols and none of them is in this list (RFC 7301).
        sni: further certificates, by the server name that the client sends: `{"example.org": (certfile, keyfile)}`. A
            name that begins with `*.` matches names with exactly one label in place of the `*`. Clients that send
            another name, or none, get `certfile`.
        client_ca: PEM file with the certificate authorities that client certificates must be issued by. None: clients
            are not asked for a certificate.
        client_certificate: with "required", a client without a certificate is rejected; with "optional", it is
            accepted. A client with an invalid certificate is always rejected.
        minimum_version: `ssl.TLSVersion.TLSv1_2` or `TLSv1_3`.
        maximum_version: `ssl.TLSVersion.TLSv1_2` or `TLSv1_3`.
        resumption: allow clients to resume sessions, with stateless tickets. Each context keeps its ticket keys in
            memory and replaces them every six hours.
        keylog_filename: the secrets of all connections are appended to this file, so that captured traffic can be
            decrypted.

    Raises:
        OSError: a file cannot be read.
        ssl.SSLError: a file has no certificate or key, or the key does not belong to the certificate.
        ValueError: an argument is wrong.
    """
    if client_certificate not in ("required", "optional"):
        raise ValueError(f"client_certificate must be 'required' or 'optional', not {client_certificate!r}")
    return TlsContext._server(
        os.fsdecode(certfile),
        _decoded(keyfile),
        [(_encode_hostname(name), os.fsdecode(own), _decoded(key)) for name, (own, key) in (sni or {}).items()],
        _decoded(client_ca),
        client_certificate == "required",
        _protocols(alpn),
        _versions(minimum_version, maximum_version),
        resumption,
        _decoded(keylog_filename),
    )


def client_context(
    *,
    ca: Path | Sequence[Path] = "system",
    verify: bool = True,
    check_hostname: bool = True,
    alpn: Iterable[str] = (),
    certfile: Path | None = None,
    keyfile: Path | None = None,
    minimum_version: ssl.TLSVersion = _LOWEST,
    maximum_version: ssl.TLSVersion = _HIGHEST,
    resumption: bool = True,
    keylog_filename: Path | None = None,
) -> TlsContext:
    """Return a context for clients.

    Args:
        ca: the trusted certificate authorities: a PEM file, "system" for the system's certificate store (the
            environment variables SSL_CERT_FILE and SSL_CERT_DIR replace its location), or a list of these.
        verify: False accepts any server certificate. An attacker who can intercept the connection can then read it.
        check_hostname: whether the certificate must match the host name. Only the certificate's subjectAltName
            entries are compared, not its common name.
        alpn: names of application protocols, the preferred one first.
        certfile: PEM file with the client's certificate chain, its own certificate first, for servers that request one.
        keyfile: PEM file with the private key, not encrypted. None: the key is in `certfile`.
        minimum_version: `ssl.TLSVersion.TLSv1_2` or `TLSv1_3`.
        maximum_version: `ssl.TLSVersion.TLSv1_2` or `TLSv1_3`.
        resumption: keep recent sessions in memory, and resume them on the next connection to the same server.
        keylog_filename: the secrets of all connections are appended to this file, so that captured traffic can be
            decrypted.

    Raises:
        OSError: a file cannot be read.
        ssl.SSLError: a file has no certificate or key, the key does not belong to the certificate, or the system's
            store is empty.
        ValueError: an argument is wrong.
    """
    if keyfile is not None and certfile is None:
        raise ValueError("keyfile was given without certfile: pass the certificate of this key as certfile")
    given = [ca] if isinstance(ca, str | os.PathLike) else list(ca)
    if verify and not given:
        raise ValueError("ca is empty, so no server could be trusted: pass a PEM file or 'system', or verify=False")
    return TlsContext._client(
        [None if one == "system" else os.fsdecode(one) for one in given],
        verify,
        check_hostname,
        _decoded(certfile),
        _decoded(keyfile),
        _protocols(alpn),
        _versions(minimum_version, maximum_version),
        resumption,
        _decoded(keylog_filename),
    )


def _decoded(path: Path | None) -> str | None:
    return None if path is None else os.fsdecode(path)


def _protocols(alpn: Iterable[str]) -> list[bytes]:
    if isinstance(alpn, str):
        raise TypeError(f"alpn must be a list of protocol names, not the string {alpn!r}")
    return [name.encode("ascii") for name in alpn]


def _versions(minimum: ssl.TLSVersion, maximum: ssl.TLSVersion) -> tuple[int, int]:
    """Return the limits as numbers. MINIMUM_SUPPORTED and MAXIMUM_SUPPORTED mean this module's limits."""
    if minimum == ssl.TLSVersion.MINIMUM_SUPPORTED:
        minimum = _LOWEST
    if maximum == ssl.TLSVersion.MAXIMUM_SUPPORTED:
        maximum = _HIGHEST
    for version in (minimum, maximum):
        if version not in (_LOWEST, _HIGHEST):
            raise ValueError(f"oneloop.tls supports TLS 1.2 and 1.3 only, not {ssl.TLSVersion(version).name}")
    if minimum > maximum:
        raise ValueError(
            f"minimum_version ({ssl.TLSVersion(minimum).name}) is above maximum_version"
            f" ({ssl.TLSVersion(maximum).name})"
        )
    return int(minimum), int(maximum)


# Called by the native core.


def _encode_hostname(name: str) -> str:
    """Return a host name in the form used in DNS (IDNA), encoded as `ssl` does it."""
    return name if name.isascii() else name.encode("idna").decode("ascii")


def _decode_certificate(der: bytes) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
    """Return a certificate as the dictionary of `ssl.SSLSocket.getpeercert()`, decoded by CPython's own code."""
    # CPython's decoder reads a PEM file, so write one to memory.
    with open(os.memfd_create("certificate"), "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor
        file.write(ssl.DER_cert_to_PEM_cert(der))
        file.flush()
        decode = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
        decoded: dict[str, Any] = decode(f"/proc/self/fd/{file.fileno()}")
        return decoded
