"""A certificate authority for the TLS tests, and what it has issued: files for foreign programs, and contexts."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme

HOST = "localhost"
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True)
class Authority:
    """Files in PEM. Those of a server or client hold the key and the chain."""

    authority: Path
    server: Path
    other_server: Path
    expired: Path
    wrong_host: Path
    client: Path
    other_authority: Path
    """Has issued nothing of the above."""

    def server_context(
        self, version: str | None = None, file: Path | None = None, kind: type[ssl.SSLContext] = ssl.SSLContext
    ) -> ssl.SSLContext:
        context = kind(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file or self.server)
        return pinned(context, version)

    def client_context(
        self, version: str | None = None, trusted: Path | None = None, kind: type[ssl.SSLContext] = ssl.SSLContext
    ) -> ssl.SSLContext:
        """Trusts this authority and checks the name."""
        context = kind(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(trusted or self.authority)
        return pinned(context, version)


def pinned(context: ssl.SSLContext, version: str | None) -> ssl.SSLContext:
    """The context, bound to one version of TLS where one is given."""
    if version is not None:
        context.minimum_version = context.maximum_version = VERSIONS[version]
    return context


def make(folder: Path) -> Authority:
    """Issues everything anew; some 10 ms with elliptic curves."""
    kind = trustme.KeyType.ECDSA
    authority, other = trustme.CA(key_type=kind), trustme.CA(key_type=kind)
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    issued = {
        "server": authority.issue_cert(HOST, "127.0.0.1", key_type=kind),
        "other_server": authority.issue_cert("other.example", key_type=kind),
        "expired": authority.issue_cert(
            HOST, key_type=kind, not_before=yesterday - datetime.timedelta(days=1), not_after=yesterday
        ),
        "wrong_host": authority.issue_cert("wrong.example", key_type=kind),
        "client": authority.issue_cert("client@example.org", common_name="a client", key_type=kind),
    }
    files = {name: folder / f"{name}.pem" for name in [*issued, "authority", "other_authority"]}
    for name, certificate in issued.items():
        certificate.private_key_and_cert_chain_pem.write_to_path(str(files[name]))
    authority.cert_pem.write_to_path(str(files["authority"]))
    other.cert_pem.write_to_path(str(files["other_authority"]))
    return Authority(**files)
