"""Blocking clients, many at once in threads that are green threads, on real servers.

Each program of `clients` runs as it is, in the interpreter's threads, and patched. That calls are made at once is seen by
their servers: each is answered when all have come.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ecosystem.green_server import Barriers, serving

ROOT = Path(__file__).resolve().parents[2]
WAYS = {"threads": [], "patched": ["-m", "oneloop", "run", "--patch"]}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> list[str]:
    return WAYS[request.param]


def run_program(way: list[str], name: str, *arguments: object) -> None:
    """Every part of the program passes, and it ends without a word on stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *way, "-m", f"tests.ecosystem.clients.{name}", *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}; passed: {done.stdout.split()}\n{done.stderr}"
    assert done.stderr == "", done.stderr


@pytest.mark.time_limit(70)
def test_http(way: list[str]) -> None:
    from test.test_asyncio import utils as cpython

    pytest.importorskip("requests")
    together = Barriers()
    with serving(False, together) as plain, serving(True, together) as secure:
        run_program(way, "http", plain, secure, cpython.ONLYCERT)
