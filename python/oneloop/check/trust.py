"""The TLS context of the checker, and whether this system has certificate authorities."""

from __future__ import annotations

import os
import ssl
from functools import cache
from pathlib import Path
from typing import cast

__all__ = ["context", "has_authorities"]


def context(insecure: bool) -> ssl.SSLContext:
    """Return the TLS context; it is made once, because loading the certificate authorities takes 20 ms or more."""
    return _made_context(insecure, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _made_context(insecure: bool, *_authorities: str | None) -> ssl.SSLContext:
    made = ssl.create_default_context()
    if insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    made.set_alpn_protocols(["http/1.1"])
    return made


def has_authorities() -> bool:
    """Return whether this system has certificate authorities that a context trusts."""
    paths = ssl.get_default_verify_paths()
    # None where the file or the folder does not exist, which the stubs do not say.
    file, folder = cast("tuple[str | None, str | None]", (paths.cafile, paths.capath))
    return file is not None or (folder is not None and any(Path(folder).iterdir()))
