"""Runs small Python programs in a process of their own, on a named loop: for what would harm the tests."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PRELUDE = """
import asyncio, faulthandler, os, signal, socket, sys, threading, time
faulthandler.enable()
faulthandler.dump_traceback_later({limit}, exit=True)
from tests.loops import FACTORIES
LOOP = {loop!r}
new_loop = FACTORIES[LOOP]
"""


def source(loop: str, body: str, limit_s: float = 30.0) -> str:
    """The whole text of a program: `new_loop()` makes the named loop, and nothing runs longer than the limit."""
    return PRELUDE.format(loop=loop, limit=limit_s) + textwrap.dedent(body)


def run(
    loop: str, body: str, *, limit_s: float = 30.0, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return it with its output; never raises for its exit status."""
    return subprocess.run(
        [sys.executable, *options, "-c", source(loop, body, limit_s)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s + 10,
        check=False,
    )


def run_ok(loop: str, body: str, *, limit_s: float = 30.0, options: tuple[str, ...] = ()) -> str:
    """Run a program that must succeed without a word on stderr; returns what it printed."""
    done = run(loop, body, limit_s=limit_s, options=options)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stderr == "", done.stderr
    return done.stdout
