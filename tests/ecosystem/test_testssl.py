"""testssl.sh, which looks for weak protocols, ciphers and known vulnerabilities, against a server of `oneloop.tls`."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import oneloop
import oneloop.tls
from tests.protocols import Echo
from tests.tls import authority

# Protocols, categories of ciphers, the server's preferences, forward secrecy, vulnerabilities.
CHECKS = ["-p", "-s", "-P", "-f", "-U"]
HARMLESS = {"OK", "INFO", "DEBUG"}
ABOUT_THE_CLIENT = {"engine_problem", "old_fart", "too_old_openssl"}
"""What testssl.sh says of the machine's own openssl (`fileout_insert_warning` in its source), not of the server."""
LIMIT_S = 300

Finding = dict[str, str]
"""With `id`, `severity` and `finding`, its text."""


def findings_on(run: Callable[[Coroutine[Any, Any, None]], None], context: Any, file: Path) -> list[Finding]:
    """What testssl.sh says of an echo server with a context, on the loop of `run`."""
    program = shutil.which("testssl") or shutil.which("testssl.sh")
    if program is None:
        pytest.skip("needs testssl.sh")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Echo, "127.0.0.1", 0, ssl=context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            options = ["--quiet", "--color=0", "--warnings=batch", "--nodns=min", "--ip=one"]
            command = [program, *options, f"--jsonfile={file}", *CHECKS, f"localhost:{port}"]
            await asyncio.to_thread(
                subprocess.run, command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=LIMIT_S
            )

    run(main())
    found: list[Finding] = json.loads(file.read_text())
    return found


@pytest.mark.time_limit(2 * LIMIT_S)
def test_nothing_is_found(tmp_path: Path) -> None:
    certificate = authority.make(tmp_path).server
    findings = findings_on(oneloop.run, oneloop.tls.server_context(certificate), tmp_path / "ours.json")
    by_name = {finding["id"]: finding["finding"] for finding in findings}
    assert by_name["TLS1_2"] == by_name["TLS1_3"].partition(" with ")[0] == "offered"
    assert by_name["cipher_order"].startswith("server")
    found = {finding["id"]: finding for finding in weaknesses(findings)}
    if found:
        # The control: what a new release of testssl.sh says of a stock server too is not about oneloop.
        stock = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        stock.load_cert_chain(certificate)
        for finding in weaknesses(findings_on(asyncio.run, stock, tmp_path / "stock.json")):
            print("of stock asyncio:", finding, "of oneloop:", found.pop(finding["id"], None))
    assert found == {}


def weaknesses(findings: list[Finding]) -> list[Finding]:
    """Return the findings that are about the server and not harmless."""
    return [
        finding
        for finding in findings
        if finding["severity"] not in HARMLESS
        and finding["id"] not in ABOUT_THE_CLIENT
        and "local support" not in finding["finding"]
    ]


@pytest.mark.parametrize(
    ("name", "severity", "text", "counts"),
    [
        ("engine_problem", "WARN", "No engine or GOST support via engine with your /usr/bin/openssl", False),
        ("SSLv2", "WARN", "not tested due to lack of local support", False),
        ("TLS1_2", "OK", "offered", False),
        ("TLS1", "LOW", "offered (deprecated)", True),
        ("heartbleed", "WARN", "check failed", True),
    ],
)
def test_a_warning_about_the_machine_is_no_finding(name: str, severity: str, text: str, counts: bool) -> None:
    assert bool(weaknesses([{"id": name, "severity": severity, "finding": text}])) is counts
