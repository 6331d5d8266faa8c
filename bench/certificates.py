"""A temporary certificate authority and a server certificate for localhost, created once per run of the benchmarks."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from bench.model import RivalMissingError


@functools.cache
def _folder() -> Path:
    try:
        import trustme
    except ImportError:
        raise RivalMissingError("trustme is not installed: cannot create certificates") from None
    folder = Path(tempfile.mkdtemp(prefix="bench-tls-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    issued = authority.issue_cert("localhost", key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    issued.private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    return folder


def authority_file() -> Path:
    """The PEM file of the authority. Raises RivalMissingError without trustme."""
    return _folder() / "authority.pem"


def server_file() -> Path:
    """The server's key and chain in one PEM file. Raises RivalMissingError without trustme."""
    return _folder() / "server.pem"
