"""The matrix "Process": each way in which a process ends, alone and as a child of fork, spawn and forkserver.

Its exit status and its output must be those of stock asyncio, also if it ends while a loop is busy in a daemon thread.
All processes of one column run at the same time, once for the whole module.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests import programs
from tests.loop.exiting import LIMIT_S, WAYS

STARTS = ["alone", "fork", "spawn", "forkserver"]
# Python 3.12 and later warn of a fork in a process with threads.
COMMAND = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.loop.exiting"]
NEEDS_S = 2 * LIMIT_S


@dataclass(frozen=True)
class Outcome:
    """How a process has ended, without what differs from run to run."""

    status: int | None
    stdout: str
    stderr: tuple[str, ...]


def told(text: str) -> tuple[str, ...]:
    """The lines of stderr without numbers, addresses and the frames of tracebacks."""
    lines = [line for line in text.splitlines() if line and not line[0].isspace()]
    return tuple(re.sub(r"0x[0-9a-f]+|\d+|<[^>]*>+", "", line) for line in lines)


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=programs.ROOT,
        env={
            **os.environ,
            "PYTHONPATH": f"{programs.ROOT}{os.pathsep}{programs.ROOT / 'python'}",
            # Compiled once, not by each process, also where nothing may be written beside the source.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / f"oneloop-exits-{os.getuid()}"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def alone(loop: str) -> dict[str, Outcome]:
    start(loop, "return").communicate(timeout=NEEDS_S)
    running = {way: start(loop, way) for way in WAYS}
    outcomes = {}
    for way, process in running.items():
        stdout, stderr = process.communicate(timeout=NEEDS_S)
        outcomes[way] = Outcome(process.returncode, stdout, told(stderr))
    return outcomes


def as_children(loop: str, method: str, folder: Path) -> dict[str, Outcome]:
    folder.mkdir()
    parent = start(loop, method, str(folder))
    stdout, stderr = parent.communicate(timeout=NEEDS_S)
    assert (parent.returncode, stderr) == (0, ""), stderr

    def read(way: str, suffix: str) -> str:
        return (folder / f"{way}.{suffix}").read_text()

    return {
        way: Outcome(status, read(way, "out"), told(read(way, "err"))) for way, status in json.loads(stdout).items()
    }


Outcomes = Callable[[str, str], dict[str, Outcome]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    """The outcomes of all ways on a loop, by the way in which the processes are started."""

    @cache
    def find(loop: str, how: str) -> dict[str, Outcome]:
        if how == "alone":
            return alone(loop)
        return as_children(loop, how, tmp_path_factory.mktemp("exits") / "output")

    yield find
    find.cache_clear()


@pytest.mark.time_limit(2 * NEEDS_S)
@pytest.mark.parametrize("how", STARTS)
@pytest.mark.parametrize("way", WAYS)
def test_a_process_ends_as_on_asyncio(outcomes: Outcomes, way: str, how: str) -> None:
    stock = outcomes("asyncio", how)[way]
    # A program that did not come to its end would say nothing about it.
    assert stock.stdout or stock.status, stock
    assert outcomes("oneloop", how)[way] == stock
