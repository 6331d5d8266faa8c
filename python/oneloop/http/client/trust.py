"""The TLS context of a client, from its arguments `verify` and `cert`."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any

from oneloop.http.client.protocols import NEVER, offer, offered

__all__ = ["context_for", "needs_files"]


def needs_files(verify: Any, cert: Any) -> bool:
    """Return True if a context reads files that the program has named.

    Clients then make it in their constructor, as httpx does: a file that is missing or damaged is a mistake of the
    program, and not a failure of a connection.
    """
    return bool(cert) or isinstance(verify, (str, os.PathLike))


def context_for(verify: Any, cert: Any, http2: int = NEVER) -> Any:
    """Return a context.

    Args:
        verify: True, None: the system's certificate authorities, or those of SSL_CERT_FILE and SSL_CERT_DIR; False: no
            check; a path: those in this file or folder; a context: itself, with `cert` added.
        cert: a client certificate: a path, or (path, key), or (path, key, password).
        http2: when HTTP/2 is spoken. A given context is made to offer it, unless that is never.

    Raises:
        OSError: a file cannot be read.
        ssl.SSLError: a file has no certificate or key, or they do not belong together.
        TypeError: `cert` is given beside a context of `oneloop.tls`, which takes none.
    """
    certificate: list[Any] = [cert] if isinstance(cert, (str, os.PathLike)) else list(cert or ())
    if verify is None:
        verify = True
    if not isinstance(verify, (bool, str, os.PathLike)):
        if certificate:
            if not hasattr(verify, "load_cert_chain"):
                raise TypeError(
                    f"cert= cannot be added to the context of verify=, {verify!r}: make that with a certificate"
                )
            verify.load_cert_chain(*certificate)
        return verify if http2 == NEVER else offer(verify, http2)
    is_folder = not isinstance(verify, bool) and Path(verify).is_dir()
    if len(certificate) < 3 and not is_folder:
        from oneloop.tls import client_context

        return client_context(
            ca="system" if isinstance(verify, bool) else verify,
            verify=verify is not False,
            alpn=offered(http2),
            certfile=certificate[0] if certificate else None,
            keyfile=certificate[1] if len(certificate) > 1 else None,
        )
    # A folder of certificates, or an encrypted key: only OpenSSL reads those.
    context = _openssl(verify)
    offer(context, http2)
    if certificate:
        context.load_cert_chain(*certificate)
    return context


def _openssl(verify: Any) -> ssl.SSLContext:
    if verify is False:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if verify is True:
        return ssl.create_default_context()
    path = Path(verify)
    if path.is_dir():
        return ssl.create_default_context(capath=path)
    return ssl.create_default_context(cafile=path)
