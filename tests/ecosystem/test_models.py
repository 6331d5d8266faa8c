"""The SDKs of model providers, which stand on httpx2: the same on httpcore2 and on the facade."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ecosystem.conftest import accepts, running
from tests.ports import free_port
from tests.programs import ROOT

PROGRAM = str(ROOT / "tests" / "ecosystem" / "clients" / "on_models.py")


def output(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=100, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.time_limit(300)
def test_the_same_answers(tmp_path: Path) -> None:
    port = free_port()
    server = [sys.executable, "-m", "oneloop", "serve", "tests.ecosystem.models:app", "--port", str(port)]
    server += ["--log-level", "warning", "--no-access-log"]
    with running(server, tmp_path / "log", lambda: accepts(("127.0.0.1", port)), cwd=ROOT):
        stock = output(PROGRAM, str(port))
        assert stock.count("Hello, wörld!") >= 4
        assert output("-m", "oneloop", "run", "--replace", "httpcore2", PROGRAM, str(port)) == stock
        assert output("-m", "oneloop", "run", "--replace", "httpcore2", "--patch", PROGRAM, str(port)) == stock
