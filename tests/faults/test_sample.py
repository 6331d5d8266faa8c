"""A part of `make faults`: faults that once did damage, and a few of every scenario. Each group is a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / ".build" / "faults" / "python"

# Scenario, call, kind, number: see the commits with the words "faults".
ONCE_WRONG = [
    ("tcp sock_*", "recv", "EINTR", 6),
    ("unix sock_*", "recv", "EINTR", 6),
    ("tcp protocol", "accept4", "EHOSTUNREACH", 2),
    ("subprocess", "epoll_wait", "spurious", 4),
    ("files open ring", "io_uring_enter", "EAGAIN", 3),
    ("files names ring", "io_uring_enter", "EBUSY", 5),
    ("files whole threads", "openat", "EINTR", 2),
]

pytestmark = pytest.mark.skipif(
    not list(BUILT.glob("oneloop/_native*.so")), reason="there is no build with faults: scripts/build-faults.sh"
)


def _run(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(BUILT)}
    command = [sys.executable, "-m", "tests.faults", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.time_limit(300)
@pytest.mark.parametrize(("scenario", "call", "kind", "number"), ONCE_WRONG)
def test_what_was_wrong_once(scenario: str, call: str, kind: str, number: int) -> None:
    _run(scenario, "--case", f"{call}:{kind}:{number}")


@pytest.mark.time_limit(300)
@pytest.mark.parametrize("room", ["tcp", "udp", "tls", "pipe", "files", "green", "http", "check", "both"])
def test_a_few_of_all(room: str) -> None:
    assert "0 forbidden" in _run(room, "--most", "3", "--every", "61", "--wrong")
