"""The Autobahn test suite for WebSocket (scripts/autobahn.sh installs it where there is a Python 2.7)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ecosystem import autobahn
from tests.ecosystem.conftest import accepts, running
from tests.ports import free_port
from tests.programs import ROOT

APPLICATION = "tests.ecosystem.websocket_echo:app"


def uvicorn(port: int) -> list[str]:
    options = ["--port", str(port), "--log-level", "warning", "--ws", "websockets-sansio"]
    return [sys.executable, "-m", "uvicorn", APPLICATION, *options]


def oneloop(port: int) -> list[str]:
    options = ["--port", str(port), "--log-level", "warning", "--no-access-log", "--ws-max-size", str(64 << 20)]
    return [sys.executable, "-m", "oneloop", "serve", APPLICATION, *options]


def verdicts(
    directory: Path, command: Callable[[int], list[str]], cases: list[str], limit_s: float
) -> dict[str, set[str]]:
    """What the suite says of the server that the command starts on a port."""
    port = free_port()
    with running(command(port), directory / "server.log", lambda: accepts(("127.0.0.1", port)), cwd=ROOT):
        return autobahn.verdicts(directory, port, cases, limit_s)


pytestmark = pytest.mark.skipif(not autobahn.WSTEST.exists(), reason="needs Python 2.7 (scripts/autobahn.sh)")


@pytest.mark.time_limit(120)
def test_the_driver_itself(tmp_path: Path) -> None:
    """On a server that others have tested: cases are chosen, run and read."""
    found = verdicts(tmp_path, uvicorn, ["1.1.*", "7.9.*"], 60)
    assert {case.rpartition(".")[0] for case in found} == {"1.1", "7.9"}
    assert {verdict for verdicts in found.values() for verdict in verdicts} == {"OK"}


GROUPS = [*(f"12.{number}" for number in range(1, 6)), *(f"13.{number}" for number in range(1, 8))]
SOME = [f"{group}.{(1, 9)[index % 2]}" for index, group in enumerate(GROUPS)]
"""Of the cases of compression one of each kind of data and of each agreement, with small or large messages. A pattern
matches also what it is the start of; all of them run in `make test-all`."""


@pytest.mark.time_limit(1800)
@pytest.mark.parametrize(
    ("cases", "count"),
    [(autobahn.PROTOCOL, 301), (autobahn.COMPRESSION, 216) if "ONELOOP_AUTOBAHN" in os.environ else (SOME, 12)],
    ids=["protocol", "compression"],
)
def test_oneloop(tmp_path: Path, cases: list[str], count: int) -> None:
    """No case fails. NON-STRICT: of what comes at once with a wrong frame, nothing is answered any more."""
    found = verdicts(tmp_path, oneloop, cases, 1700)
    assert len(found) == count
    wrong = {case: said for case, said in found.items() if not said <= {"OK", "NON-STRICT", "INFORMATIONAL"}}
    assert not wrong


CLIENT = [sys.executable, "-m", "tests.ecosystem.websocket_client"]


@pytest.mark.time_limit(1800)
@pytest.mark.parametrize(
    ("cases", "count"),
    [(autobahn.PROTOCOL, 301), (autobahn.COMPRESSION, 216) if "ONELOOP_AUTOBAHN" in os.environ else (SOME, 12)],
    ids=["protocol", "compression"],
)
def test_the_client(tmp_path: Path, cases: list[str], count: int) -> None:
    """The cases of a client, which are the server's with the masks the other way round."""
    found = autobahn.client_verdicts(tmp_path, free_port(), CLIENT, cases, 1700)
    assert len(found) == count
    wrong = {case: said for case, said in found.items() if not said <= {"OK", "NON-STRICT", "INFORMATIONAL"}}
    assert not wrong
