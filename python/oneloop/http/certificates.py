"""`Certificates`: the TLS context that the options ask for, on rustls where it can be, and new certificates for it."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oneloop.http.options import Options
    from oneloop.tls import TlsContext

__all__ = ["Certificates"]

log = logging.getLogger("oneloop.error")

# The values of --ssl-version that leave the choice to the library: rustls' choice is as good.
_ANY_VERSION = (int(ssl.PROTOCOL_TLS), int(ssl.PROTOCOL_TLS_SERVER))


class Certificates:
    """A context for `create_server(ssl=)`, and its files.

    Args:
        options: `ssl_certfile` is given.

    Raises:
        OSError: a file cannot be read.
        ssl.SSLError: a file does not have what it should.
        ValueError: an option is wrong.
    """

    def __init__(self, options: Options) -> None:
        assert options.ssl_certfile is not None
        self._options = options
        self.context: TlsContext | ssl.SSLContext = _openssl(options) if _needs_openssl(options) else _rustls(options)

    def reload(self) -> None:
        """Read the files again; if they are wrong, that is logged and the old certificates stay."""
        try:
            if isinstance(self.context, ssl.SSLContext):
                _load(self.context, self._options)
            else:
                self.context.reload()
        except (OSError, ssl.SSLError, ValueError) as error:
            log.error("The certificates cannot be read again, the old ones stay: %s", error)
        else:
            log.info("The certificates were read again.")


def _needs_openssl(options: Options) -> bool:
    """Whether an option asks for what rustls does not have: a choice of ciphers, old versions, encrypted keys."""
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
        if error.reason != "ENCRYPTED_KEY":
            raise
        key = options.ssl_keyfile or options.ssl_certfile
        raise ValueError(f"the private key in {key} is encrypted: give --ssl-keyfile-password") from error


def _openssl(options: Options) -> ssl.SSLContext:
    context = ssl.SSLContext(options.ssl_version)
    context.verify_mode = ssl.VerifyMode(options.ssl_cert_reqs)
    context.set_alpn_protocols(["http/1.1"])
    if options.ssl_ciphers is not None:
        try:
            context.set_ciphers(options.ssl_ciphers)
        except ssl.SSLError as error:
            raise ValueError(f"--ssl-ciphers {options.ssl_ciphers}: OpenSSL has no such ciphers") from error
    _load(context, options)
    return context


def _load(context: ssl.SSLContext, options: Options) -> None:
    assert options.ssl_certfile is not None
    # Without a password, OpenSSL would ask the terminal for one, and the server would wait there.
    try:
        context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, options.ssl_keyfile_password or "")
    except ssl.SSLError as error:
        if error.reason:
            raise
        # OpenSSL says "PEM lib" for what is no PEM and for a wrong password alike.
        key = options.ssl_keyfile or options.ssl_certfile
        raise ValueError(f"{options.ssl_certfile}, {key}: no PEM, or not --ssl-keyfile-password ({error})") from error
    if options.ssl_ca_certs is not None:
        context.load_verify_locations(options.ssl_ca_certs)
