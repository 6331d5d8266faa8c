"""Runs programs with `python` and with `oneloop run`, to compare what they do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.programs import run_command

LIMIT_S = 60.0

PYTHON = (sys.executable,)
ONELOOP_RUN = (sys.executable, "-m", "oneloop", "run")

NO_LOOP = "oneloop run: this program created no event loop, so oneloop did nothing.\n"
"""What `oneloop run` says at the end of a program without loops, on stderr; all else is as under `python`."""


def run(*command: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; never raises for its exit status."""
    return run_command(*command, cwd=cwd, env=env, limit_s=LIMIT_S)
