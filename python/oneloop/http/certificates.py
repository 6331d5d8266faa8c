"""`Certificates`: the server's TLS context (rustls if the options allow it, else OpenSSL), and its reloading."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oneloop.http.options import Options
    from oneloop.tls import TlsContext

__all__ = ["Certificates"]

log = logging.getLogger("oneloop.error")

# The values of --ssl-version that leave the choice of the version to the library, so rustls can be used.
_ANY_VERSION = (int(ssl.PROTOCOL_TLS), int(ssl.PROTOCOL_TLS_SERVER))


class Certificates:
    """A context for `create_server(ssl=)`, and its files.

    Args:
        options: options with `ssl_certfile`.

    Raises:
        OSError: a file cannot be read.
        ssl.SSLError: a file does not contain a valid certificate or key.
        ValueError: an option is missing or wrong.
    """

    def __init__(self, options: Options) -> None:
        assert options.ssl_certfile is not None
        self._options = options
        self.context: TlsContext | ssl.SSLContext = _openssl(options) if _needs_openssl(options) else _rustls(options)

    def reload(self) -> None:
        """Read the files again. On an error, log it and keep the old certificates."""
        try:
            if isinstance(self.context, ssl.SSLContext):
                _load(self.context, self._options)
            else:
                self.context.reload()
        except (OSError, ssl.SSLError, ValueError) as error:
            log.error("Cannot reload the certificates, so the old ones are still used: %s", error)
        else:
            log.info("The certificates were reloaded.")


def _needs_openssl(options: Options) -> bool:
    """Return True if an option is not supported by rustls: ciphers, other TLS versions, encrypted keys."""
    return (
        options.ssl_ciphers is not None
        or options.ssl_keyfile_password is not None
        or options.ssl_version not in _ANY_VERSION
    )


def _rustls(options: Options) -> TlsContext:
    from oneloop import tls

    assert options.ssl_certfile is not None
    try:
        return tls.server_context(
            options.ssl_certfile,
            options.ssl_keyfile,
            alpn=("http/1.1",),
            client_ca=options.ssl_ca_certs if options.ssl_cert_reqs else None,
            client_certificate="optional" if options.ssl_cert_reqs == int(ssl.CERT_OPTIONAL) else "required",
        )
    except ssl.SSLError as error:
        if error.reason == "NO_PRIVATE_KEY" and options.ssl_keyfile is None:
            raise ValueError(f"{options.ssl_certfile} has no private key: name its file with --ssl-keyfile") from error
        if error.reason != "ENCRYPTED_KEY":
            raise
        key = options.ssl_keyfile or options.ssl_certfile
        raise ValueError(f"the private key in {key} is encrypted: add --ssl-keyfile-password") from error


def _openssl(options: Options) -> ssl.SSLContext:
    context = ssl.SSLContext(options.ssl_version)
    context.verify_mode = ssl.VerifyMode(options.ssl_cert_reqs)
    context.set_alpn_protocols(["http/1.1"])
    if options.ssl_ciphers is not None:
        try:
            context.set_ciphers(options.ssl_ciphers)
        except ssl.SSLError as error:
            raise ValueError(f"--ssl-ciphers {options.ssl_ciphers}: OpenSSL has none of these ciphers") from error
    _load(context, options)
    return context


def _load(context: ssl.SSLContext, options: Options) -> None:
    assert options.ssl_certfile is not None
    # Always pass a password: otherwise OpenSSL asks for one on the terminal, and the server would hang.
    try:
        context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, options.ssl_keyfile_password or "")
    except ssl.SSLError as error:
        if error.reason:
            raise
        # OpenSSL reports "PEM lib" for a file that is not PEM, a missing key and a wrong password.
        if options.ssl_keyfile is None:
            reason = "is not PEM, has no private key (then name its file with --ssl-keyfile)"
        else:
            reason = f"or {options.ssl_keyfile} is not PEM"
        raise ValueError(f"{options.ssl_certfile} {reason}, or --ssl-keyfile-password is wrong ({error})") from error
    if options.ssl_ca_certs is not None:
        context.load_verify_locations(options.ssl_ca_certs)
