"""`Certificates`: the server's TLS context (rustls if the options allow it, else OpenSSL), and its reloading."""

from __future__ import annotations

import logging
import ssl
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

    from oneloop.http.options import Options
    from oneloop.tls import TlsContext

__all__ = ["Certificates", "own_certificate"]

log = logging.getLogger("oneloop.error")

# The values of --ssl-version that leave the choice of the version to the library, so rustls can be used.
_ANY_VERSION = (int(ssl.PROTOCOL_TLS), int(ssl.PROTOCOL_TLS_SERVER))


# The certificates that contexts send, in PEM. A TLS library reports only those that it receives.
_own: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def own_certificate(context: object) -> str | None:
    """Return the certificate, in PEM, that connections of a context send; None if the context is not of this module."""
    return None if context is None else _own.get(context)


def _note_certificate(context: object, options: Options) -> None:
    assert options.ssl_certfile is not None
    text = Path(options.ssl_certfile).read_text("ascii", "replace")
    start, end = text.find(ssl.PEM_HEADER), text.find(ssl.PEM_FOOTER)
    if 0 <= start < end:
        _own[context] = text[start : end + len(ssl.PEM_FOOTER)] + "\n"


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
        self.context: TlsContext | Replaceable = (
            Replaceable(_openssl(options)) if _needs_openssl(options) else _rustls(options)
        )

    def reload(self) -> None:
        """Read the files again. On an error, log it and keep the old certificates."""
        try:
            if isinstance(self.context, Replaceable):
                # Loading into the context in use would leave it with a certificate and another one's key.
                self.context.current = _openssl(self._options)
            else:
                self.context.reload()
                _note_certificate(self.context, self._options)
        except (OSError, ssl.SSLError, ValueError) as error:
            log.error("Cannot reload the certificates, so the old ones are still used: %s", error)
        else:
            log.info("The certificates were reloaded.")


class Replaceable(ssl.SSLContext):
    """A context whose connections are made by another one, which can be replaced.

    It is the one context that servers and connections know. Its own settings are not used.
    """

    current: ssl.SSLContext

    def __new__(cls, current: ssl.SSLContext) -> Self:
        """Create the context. The settings of `current` are used."""
        made = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        made.current = current
        return made

    def __init__(self, current: ssl.SSLContext) -> None:
        """Do nothing: `__new__` does it, as that of the base class."""

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Make a connection with the current context."""
        return self.current.wrap_bio(*args, **kwargs)

    def get_ciphers(self) -> list[Any]:
        """Return the current context's ciphers."""
        return self.current.get_ciphers()


def _needs_openssl(options: Options) -> bool:
    """Return True if an option is not supported by rustls: ciphers, other TLS versions, encrypted keys."""
    return (
        options.ssl_ciphers is not None
        or options.ssl_keyfile_password is not None
        or options.ssl_version not in _ANY_VERSION
    )


def _protocols(options: Options) -> list[str]:
    """Return the names of the protocols for ALPN, the preferred one first."""
    names = {"1": ["http/1.1"], "auto": ["h2", "http/1.1"]}
    return names.get(options.http, ["h2"])


def _rustls(options: Options) -> TlsContext:
    from oneloop import tls

    assert options.ssl_certfile is not None
    try:
        context = tls.server_context(
            options.ssl_certfile,
            options.ssl_keyfile,
            alpn=_protocols(options),
            client_ca=options.ssl_ca_certs if options.ssl_cert_reqs else None,
            client_certificate="optional" if options.ssl_cert_reqs == int(ssl.CERT_OPTIONAL) else "required",
        )
        _note_certificate(context, options)
        return context
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
    context.set_alpn_protocols(_protocols(options))
    if options.ssl_ciphers is not None:
        try:
            context.set_ciphers(options.ssl_ciphers)
        except ssl.SSLError as error:
            raise ValueError(f"--ssl-ciphers {options.ssl_ciphers}: OpenSSL has none of these ciphers") from error
    _load(context, options)
    _note_certificate(context, options)
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
