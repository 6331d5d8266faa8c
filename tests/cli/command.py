"""Runs programs with `python` and with `oneloop run`, to compare what they do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIMIT_S = 60.0

PYTHON = (sys.executable,)
ONELOOP_RUN = (sys.executable, "-m", "oneloop", "run")

NO_LOOP = "oneloop run: this program created no event loop, so oneloop did nothing.\n"
"""What `oneloop run` says at the end of a program without loops, on stderr; all else is as under `python`."""


def run(*command: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; never raises for its exit status."""
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
