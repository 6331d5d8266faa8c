"""httptools' own tests, in a process in which `import httptools` gives the facade: all pass."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.programs import ROOT

SOURCES = sorted((ROOT / ".build" / "httptools").glob("httptools-*/tests"))

# The process of `oneloop run` is the one whose imports are replaced.
COMMAND = [sys.executable, "-X", "faulthandler", "-m", "oneloop", "run", "--replace", "httptools", "-m", "unittest"]


def test_its_own_tests() -> None:
    if not SOURCES:
        pytest.skip("httptools' sources are not here: scripts/httptools-tests.sh fetches them")
    done = subprocess.run(
        [*COMMAND, "test_parser"], cwd=SOURCES[-1], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ran = re.search(r"Ran (\d+) tests", done.stderr)
    assert ran is not None, done.stderr
    assert int(ran[1]) >= 41
    assert "skipped" not in done.stderr
