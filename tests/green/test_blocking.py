"""Which functions of the standard library let other green threads run in a patched program, and which block it.

Each one is called in a green thread, or in a coroutine or a callback of a loop that it runs, while another one counts.
An OS thread, which is not patched, ends the wait. The functions that block are those that `docs/how-to/patching.md`
lists, and no others.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests import programs

PROGRAM = programs.ROOT / "tests" / "green" / "blocking_program.py"
DOCUMENT = programs.ROOT / "docs" / "how-to" / "patching.md"


def counted(where: str) -> dict[str, int]:
    """Call all functions there; return how often the other green thread ran during each call."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), where],
        cwd=programs.ROOT,
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


@pytest.fixture(scope="module", params=["thread", "coroutine", "callback"])
def counts(request: pytest.FixtureRequest) -> dict[str, int]:
    return counted(request.param)


def documented() -> set[str]:
    """The functions that the document lists in the section of those that block."""
    section = DOCUMENT.read_text().partition("### What still blocks")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_what_is_patched_lets_others_run(counts: dict[str, int]) -> None:
    blocking = {name for name, count in counts.items() if count == 0}
    assert blocking - documented() == set()


def test_what_is_documented_blocks(counts: dict[str, int]) -> None:
    assert {name for name in documented() if counts.get(name) != 0} == set()
