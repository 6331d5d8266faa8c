"""The soak's machinery, for a few seconds; `make soak` runs it for minutes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.programs import ROOT
from tests.stress.soak import judge


@pytest.mark.time_limit(110)
def test_a_short_soak(loop_name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.stress.soak", "--minutes", "0.03", "--loop", loop_name],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "jobs done" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_leaks_is_told_from_what_only_moves(capsys: pytest.CaptureFixture[str]) -> None:
    moves = [(40 << 20, 12), (60 << 20, 14), (41 << 20, 12), (75 << 20, 30), (40 << 20, 12), (70 << 20, 12)]
    leaks = [((40 << 20) + n * (1 << 19), 12) for n in range(8)]
    opens = [(40 << 20, 12 + n) for n in range(8)]
    assert judge(moves, []) == 0
    assert judge(leaks, []) == 1
    assert "resident memory grew" in capsys.readouterr().out
    assert judge(opens, []) == 1
    assert "descriptors grew" in capsys.readouterr().out
    assert judge(moves, [{"message": "x"}]) == 1
    assert "exception handler was called 1 times" in capsys.readouterr().out
