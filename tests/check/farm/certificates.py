"""The certificates of the farm's TLS ports, right and wrong ones. Needs trustme."""

from __future__ import annotations

import datetime
from pathlib import Path

import trustme

NAMES = ("localhost", "farm.test", "*.farm.test", "127.0.0.1")


def make(folder: Path) -> Path:
    """Writes a file with key and chain for each listener of `listeners.TLS`; returns the authority's."""
    kind = trustme.KeyType.ECDSA
    authority, other = trustme.CA(key_type=kind), trustme.CA(key_type=kind)
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    issued = {
        "tls": authority.issue_cert(*NAMES, key_type=kind),
        "expired": authority.issue_cert(
            *NAMES, key_type=kind, not_before=yesterday - datetime.timedelta(days=1), not_after=yesterday
        ),
        "wrong_name": authority.issue_cert("wrong.example", key_type=kind),
        "unknown_authority": other.issue_cert(*NAMES, key_type=kind),
    }
    for name, certificate in issued.items():
        certificate.private_key_and_cert_chain_pem.write_to_path(str(folder / f"{name}.pem"))
    # A certificate that signed itself: an authority's own.
    own = trustme.CA(key_type=kind)
    (folder / "self_signed.pem").write_bytes(own.private_key_pem.bytes() + own.cert_pem.bytes())
    file = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    return file
