"""The soak's machinery, for a few seconds; `make soak` runs it for minutes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.programs import ROOT


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
