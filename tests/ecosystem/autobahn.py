"""Runs the Autobahn test suite against a WebSocket echo server, or a client that echoes, and reads its report."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.ecosystem.conftest import accepts, running
from tests.programs import ROOT

WSTEST = ROOT / ".build" / "autobahn" / "wstest"

# All but compression: framing, control frames, UTF-8, close codes, limits. 301 cases in 12 s on two cores.
PROTOCOL = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*"]
# 216 cases, a quarter of an hour on two cores: 1,000 messages each, up to 128 KiB, with every set of parameters.
COMPRESSION = ["12.*", "13.*"]


def verdicts(directory: Path, port: int, cases: list[str], limit_s: float) -> dict[str, set[str]]:
    """Run the cases that match, one after the other.

    Args:
        directory: Where the report is written.
        port: Of an echo server on 127.0.0.1 that takes messages of 16 MiB.
        cases: Patterns such as "7.*".
        limit_s: For all of them.

    Returns:
        For each case what the suite says of the behaviour and of the closing: OK, NON-STRICT, INFORMATIONAL, FAILED,
        UNIMPLEMENTED (no compression was agreed on), UNCLEAN, WRONG CODE.

    Raises:
        RuntimeError: The suite ended without a report.
    """
    specification = directory / "autobahn.json"
    reports = directory / "reports"
    server = {"agent": "server", "url": f"ws://127.0.0.1:{port}/"}
    specification.write_text(
        json.dumps(
            {
                "outdir": str(reports),
                "servers": [server],
                "cases": cases,
                "exclude-cases": [],
                "exclude-agent-cases": {},
            }
        )
    )
    log = directory / "wstest.log"
    with log.open("wb") as output:
        subprocess.run(
            [str(WSTEST), "-m", "fuzzingclient", "-s", str(specification)],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=limit_s,
            check=False,
        )
    return _read(reports, "server", log)


def client_verdicts(
    directory: Path, port: int, program: list[str], cases: list[str], limit_s: float
) -> dict[str, set[str]]:
    """Let a client go through the cases that match, on the fuzzing server; see `verdicts`.

    Args:
        directory: Where the report is written.
        port: For the fuzzing server.
        program: The client, which gets the port as its last argument, and calls itself "client".
        cases: Patterns such as "7.*".
        limit_s: For all of them.
    """
    specification = directory / "autobahn.json"
    reports = directory / "reports"
    wanted = {"url": f"ws://127.0.0.1:{port}", "webport": 0, "outdir": str(reports), "cases": cases}
    specification.write_text(json.dumps({**wanted, "exclude-cases": [], "exclude-agent-cases": {}}))
    log = directory / "wstest.log"
    command = [str(WSTEST), "-m", "fuzzingserver", "-s", str(specification)]
    with running(command, log, lambda: accepts(("127.0.0.1", port)), cwd=directory):
        done = subprocess.run(
            [*program, str(port)], cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return _read(reports, "client", log)


def _read(reports: Path, agent: str, log: Path) -> dict[str, set[str]]:
    index = reports / "index.json"
    if not index.exists():
        raise RuntimeError(f"the Autobahn test suite has written no report:\n{log.read_text()[-2000:]}")
    report = json.loads(index.read_text())[agent]
    return {case: {found["behavior"], found["behaviorClose"]} for case, found in report.items()}
