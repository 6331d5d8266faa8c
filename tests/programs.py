"""Runs commands to their end, and small Python programs on a named loop: for what would harm the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

LIMIT_S = 60.0
"""What a program that hangs is given; others need some milliseconds, and many seconds where the machine is busy."""

PRELUDE = """
import asyncio, faulthandler, os, signal, socket, sys, threading, time
faulthandler.enable()
faulthandler.dump_traceback_later({limit}, exit=True)
from tests.loops import FACTORIES
LOOP = {loop!r}
new_loop = FACTORIES[LOOP]
"""


def run_command(
    *command: str | Path,
    cwd: Path = ROOT,
    env: dict[str, str] | None = None,
    typed: str | None = None,
    limit_s: float = LIMIT_S,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return it with its output; never raises for its exit status.

    Its variables are those of this process and `env`. It reads from its standard input what was `typed`, or nothing.
    """
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL if typed is None else None,
        input=typed,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def source(loop: str, body: str, limit_s: float = LIMIT_S) -> str:
    """The whole text of a program: `new_loop()` makes the named loop, and nothing runs longer than the limit."""
    return PRELUDE.format(loop=loop, limit=limit_s) + textwrap.dedent(body)


def run(
    loop: str, body: str, *, limit_s: float = LIMIT_S, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return it with its output; never raises for its exit status."""
    return run_command(sys.executable, *options, "-c", source(loop, body, limit_s), limit_s=limit_s + 10)


def run_ok(loop: str, body: str, *, limit_s: float = LIMIT_S, options: tuple[str, ...] = ()) -> str:
    """Run a program that must succeed without a word on stderr; returns what it printed."""
    done = run(loop, body, limit_s=limit_s, options=options)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stderr == "", done.stderr
    return done.stdout
