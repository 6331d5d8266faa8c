"""The tests' side of the farm: starts the process, knows its ports, asks what it has seen, ends it."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.programs import ROOT

PATIENCE_S = 60.0


class Farm:
    """A running farm."""

    def __init__(self, ports: dict[str, int], pid: int, authority: Path | None) -> None:
        self.ports, self.pid, self.authority = ports, pid, authority
        self.dns = f"127.0.0.1:{ports['dns']}"

    def url(self, path: str, listener: str = "http", host: str = "127.0.0.1") -> str:
        """A URL of one of its servers; TLS for those that speak it, and for those that spoil it."""
        plain = listener in ("http", "other", "proxy", "silent", "closed", "full")
        return f"{'http' if plain else 'https'}://{host}:{self.ports[listener]}{path}"

    def filled(self, text: str) -> str:
        """The text with `{http}` and the other listeners' names replaced by their ports."""
        return text.format(**self.ports)

    def seen(self) -> dict[str, Any]:
        """What it has counted; see `farm.counts`."""
        return self._ask("/count")

    def clear(self) -> None:
        """Forgets what it has seen, and the questions to its resolver."""
        self._ask("/clear")
        self.questions(clear=True)

    def connections(self) -> int:
        """How many it has accepted, on all ports that count them."""
        return sum(self.seen()["connections"].values())

    def questions(self, clear: bool = False) -> dict[str, int]:
        """How often its resolver was asked for each name."""
        with socket.create_connection(("127.0.0.1", self.ports["dns_control"]), PATIENCE_S) as sock:
            sock.sendall(b"clear\n" if clear else b"count\n")
            found: dict[str, int] = json.loads(sock.makefile("rb").read())
        return found

    def _ask(self, target: str) -> dict[str, Any]:
        with socket.create_connection(("127.0.0.1", self.ports["control"]), PATIENCE_S) as sock:
            sock.sendall(f"GET {target} HTTP/1.1\r\nHost: control\r\n\r\n".encode())
            body = sock.makefile("rb").read().partition(b"\r\n\r\n")[2]
        found: dict[str, Any] = json.loads(body)
        return found


@contextlib.contextmanager
def start(folder: Path | None = None, *, hosts: str = "") -> Iterator[Farm]:
    """A farm, ended afterwards. With a folder for certificates it speaks TLS, which needs trustme.

    What it wrote to stderr is an error of its own and fails the tests.
    """
    authority = None
    options = ["--hosts", hosts] if hosts else []
    if folder is not None:
        from tests.check.farm import certificates

        authority = certificates.make(folder)
        options += ["--certificates", str(folder)]
    # No pipe: a farm that says much, as one without descriptors does, must not wait until somebody reads it.
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            [sys.executable, "-m", "tests.check.farm", *options],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            process.communicate()
            said.seek(0)
            raise AssertionError(f"the farm did not come up: {said.read()}")
        try:
            yield Farm(json.loads(line), process.pid, authority)
        finally:
            process.communicate(timeout=PATIENCE_S)
            said.seek(0)
            errors = said.read()
    assert errors == "", errors
