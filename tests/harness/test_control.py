"""A test of a program of others: what fails on the control too is skipped, anything else counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.control import server_command
from tests.programs import ROOT

TEST = """
import os, subprocess
import pytest

IS_CONTROL = os.environ.get("ONELOOP_CONTROL") == "1"

@pytest.fixture
def ready():
    if {set_up!r} == "fails":
        assert False

{marker}
def test_program(ready):
    if IS_CONTROL:
        {stock}
    else:
        {ours}
"""
CONTROLLED = "@pytest.mark.controlled"


@pytest.mark.parametrize(
    ("marker", "ours", "stock", "set_up", "said"),
    [
        (CONTROLLED, "assert 0", "assert 0", "", "1 skipped"),
        (CONTROLLED, "subprocess.run('exit 1', shell=True, check=True)", "assert 0", "", "1 skipped"),
        (CONTROLLED, "assert 0", "pass", "", "1 failed"),
        (CONTROLLED, "assert 0", "os._exit(9)", "", "1 failed"),
        (CONTROLLED, "assert 0", "pytest.skip('it is not here')", "", "1 failed"),
        (CONTROLLED, "raise RuntimeError", "assert 0", "", "1 failed"),
        (CONTROLLED, "pass", "assert 0", "fails", "1 error"),
        (CONTROLLED, "pass", "assert 0", "", "1 passed"),
        ("", "assert 0", "assert 0", "", "1 failed"),
    ],
)
def test_what_a_failure_counts(marker: str, ours: str, stock: str, set_up: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "test_one.py"
    file.write_text(TEST.format(marker=marker, ours=ours, stock=stock, set_up=set_up))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = controlled\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(file)]
    # By a variable, so that the pytest of the control has it too.
    environment = {**os.environ, "PYTEST_PLUGINS": "tests.harness.control", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    last = done.stdout.splitlines()[-1]
    assert last.startswith(said), done.stdout + done.stderr
    assert ("not about oneloop" in done.stdout) is (said == "1 skipped")


def test_the_server_is_ours_without_the_variable() -> None:
    assert server_command("a:app", 1)[2:] == ["oneloop", "serve", "a:app", "--port", "1"]
    program = "from tests.harness.control import server_command; print(*server_command('a:app', 1)[2:])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "ONELOOP_CONTROL": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "uvicorn --loop asyncio a:app --port 1\n"
