"""Calls that the standard library refuses, or that have nothing to do, end in a patched program as in a plain one.

An error that comes at once must not become a wait: nobody would end it.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tests import programs

PROGRAM = programs.ROOT / "tests" / "green" / "refused_program.py"


def started(how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", str(PROGRAM), how]
    return subprocess.Popen(command, cwd=programs.ROOT, stdout=subprocess.PIPE, text=True)


def test_they_end_as_in_a_plain_program() -> None:
    with started("plain") as plain, started("patched") as patched:
        expected, found = (json.loads(each.communicate(timeout=60)[0]) for each in (plain, patched))
    assert {call: end for call, end in found.items() if end != expected[call]} == {}
    assert len(found) == len(expected) > 300
