"""TLS by rustls: contexts that go wherever oneloop's API takes `ssl=`.

`server_context()` and `client_context()` read certificates and keys from PEM files and return a `TlsContext`. It is
used in place of an `ssl.SSLContext` with this loop's `create_server`, `create_connection`, `start_tls` and with
asyncio's streams. It speaks TLS 1.2 and 1.3 with the cipher suites that are safe today. What it does not offer
(passwords of keys, a choice of ciphers, callbacks) is an AttributeError that says so; `ssl.SSLContext` offers them.

Errors of a connection are those of `ssl`: `ssl.SSLError`, `ssl.SSLCertVerificationError` and so on.
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
        certfile: the certificate and those of its issuers, the server's own first (PEM).
        keyfile: its private key, not encrypted; without this file, the key is in `certfile`.
        alpn: names of application protocols, the preferred one first. A client that offers protocols, and none of
            these, is refused (RFC 7301).
        sni: other certificates, by the name that the client asks for: `{"example.org": (certfile, keyfile)}`. A name
            may begin with `*.`, for all names with one label in its place. Clients that ask for another name get
            `certfile`.
        client_ca: certificates of the authorities whose clients are accepted (PEM). Without it, no client is asked for
            a certificate.
        client_certificate: whether a client without a certificate is refused ("required") or accepted ("optional"). A
            client whose certificate is not valid is refused in any case.
        minimum_version: `ssl.TLSVersion.TLSv1_2` or `TLSv1_3`.
        maximum_version: the same.
        resumption: let clients resume sessions, with tickets that hold all of the state. Their keys are in memory, one
            set for each context, and change every six hours.
        keylog_filename: a file to which the secrets of all connections are appended, to decrypt recordings.

    Raises:
        OSError: a file cannot be read.
        ssl.SSLError: a file does not have what it should, or the key is not that of the certificate.
        ValueError: an argument is wrong.
    """
    if client_certificate not in ("required", "optional"):
        raise ValueError(f"client_certificate is 'required' or 'optional', not {client_certificate!r}")
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
        ca: who is trusted: a file with certificates of authorities (PEM), "system" for the system's store (or the files
            that the environment variables SSL_CERT_FILE and SSL_CERT_DIR name in its place), or a list of these.
        verify: False trusts every server. The connection can then be read by whoever can intercept it.
        check_hostname: whether the certificate must be made out to the name of the host. Names are looked for among the
            certificate's subjectAltNames only.
        alpn: names of application protocols, the preferred one first.
        certfile: the client's own certificate and those of its issuers, its own first (PEM), for servers that ask.
        keyfile: its private key, not encrypted; without this file, the key is in `certfile`.
        minimum_version: `ssl.TLSVersion.TLSv1_2` or `TLSv1_3`.
        maximum_version: the same.
        resumption: remember the last sessions, to resume them when the same server is connected to again.
        keylog_filename: a file to which the secrets of all connections are appended, to decrypt recordings.

    Raises:
        OSError: a file cannot be read.
        ssl.SSLError: a file does not have what it should, the key is not that of the certificate, or the system's store
            is empty.
        ValueError: an argument is wrong.
    """
    if keyfile is not None and certfile is None:
        raise ValueError("keyfile needs certfile")
    given = [ca] if isinstance(ca, str | os.PathLike) else list(ca)
    if verify and not given:
        raise ValueError("ca names nobody to trust; verify=False trusts everybody")
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
        raise TypeError("alpn is a list of names, not one string")
    return [name.encode("ascii") for name in alpn]


def _versions(minimum: ssl.TLSVersion, maximum: ssl.TLSVersion) -> tuple[int, int]:
    """Those limits as numbers; the `…_SUPPORTED` ones are this library's."""
    if minimum == ssl.TLSVersion.MINIMUM_SUPPORTED:
        minimum = _LOWEST
    if maximum == ssl.TLSVersion.MAXIMUM_SUPPORTED:
        maximum = _HIGHEST
    for version in (minimum, maximum):
        if version not in (_LOWEST, _HIGHEST):
            raise ValueError(f"oneloop.tls speaks TLS 1.2 and 1.3, not {ssl.TLSVersion(version).name}")
    if minimum > maximum:
        raise ValueError("minimum_version is above maximum_version")
    return int(minimum), int(maximum)


# Called natively.


def _encode_hostname(name: str) -> str:
    """A name in the form that DNS has, as `ssl` makes it."""
    return name if name.isascii() else name.encode("idna").decode("ascii")


def _decode_certificate(der: bytes) -> dict[str, Any]:
    """What `ssl.SSLSocket.getpeercert()` shows of a certificate: CPython's own decoder, so that nothing can differ."""
    # The decoder reads a PEM file: one in memory.
    with open(os.memfd_create("certificate"), "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor
        file.write(ssl.DER_cert_to_PEM_cert(der))
        file.flush()
        decode = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
        decoded: dict[str, Any] = decode(f"/proc/self/fd/{file.fileno()}")
        return decoded
