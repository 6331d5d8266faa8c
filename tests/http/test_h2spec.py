"""h2spec: the conformance tests of HTTP/2, strict, over TLS and without."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from test.test_asyncio.utils import ONLYCERT, ONLYKEY

from tests.http.service import ROOT, Service

H2SPEC = ROOT / ".build" / "h2spec" / "h2spec"

TLS = ("--ssl-certfile", ONLYCERT, "--ssl-keyfile", ONLYKEY)

pytestmark = [
    pytest.mark.skipif(not H2SPEC.exists(), reason="h2spec is not here: scripts/h2spec.sh compiles it"),
    pytest.mark.time_limit(200),
]

# The path takes 0.3 s: some cases send on a stream whose response has not been sent.
APP = """
import asyncio


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})
        return
    await asyncio.sleep(0.3)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})
"""

# By the start of its name. nghttp2 ends the connection, not the stream: streams that a client can provoke the server to
# reset are an attack (CVE-2025-8671).
FAILS = "Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a stream"

LEAST = 140
"""The cases that must pass at least, so that a run that ends early is noticed."""

RUNS = 3
"""A case that fails is run again with its section: on a busy machine h2spec may send what it wants to be refused only
after the response, or not wait for the response."""


def failures(service: Service, report: Path, options: tuple[str, ...], sections: list[str]) -> tuple[set[str], int]:
    """Run all cases, or these sections. Returns the failed ones, as `section: name`, and the number of all."""
    words = [*sections, "--strict", "--port", str(service.port), "--junit-report", str(report)]
    if options == TLS:
        words += ["--tls", "--insecure"]
    done = subprocess.run([H2SPEC, *words], capture_output=True, text=True, timeout=180, check=False)
    assert report.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    # It writes what it has received, as it is.
    text = re.sub(rb"[^\t\n\r -~]", b"?", report.read_bytes())
    report.unlink()
    cases = list(ET.fromstring(text).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return {f"{case.get('package')}: {case.get('classname')}" for case in failed}, len(cases)


@pytest.mark.parametrize("options", [("--http", "h2c"), TLS], ids=["plain", "tls"])
def test_conformance(tmp_path: Path, options: tuple[str, ...]) -> None:
    with Service(tmp_path, *options, source=APP) as service:
        failed, count = failures(service, tmp_path / "report.xml", options, [])
        assert count >= LEAST
        for _ in range(RUNS - 1):
            sections = sorted({name.partition(":")[0] for name in failed if FAILS not in name})
            if sections:
                failed &= failures(service, tmp_path / "report.xml", options, sections)[0] | {
                    name for name in failed if FAILS in name
                }
        assert service.end() == 0
    assert [name for name in failed if FAILS not in name] == []
    assert len(failed) == 1
