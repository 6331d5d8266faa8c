"""Runs modules of the interpreter's tests in child processes, patched or not. A test that hangs is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Outcome", "run_module"]

ROOT = Path(__file__).parents[3]
CHILD = Path(__file__).parent / "child.py"
# A test that takes longer counts as hung. This is much more than the longest test needs, for busy machines.
TEST_LIMIT_S = 60.0
MODULE_LIMIT_S = 1200.0


@dataclass
class Outcome:
    """The results of a module's tests."""

    states: dict[str, str] = field(default_factory=dict)
    """Test -> passed, failed, skipped, hung or crashed."""
    details: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def update(self, other: Outcome) -> None:
        """Replace results by those of another run."""
        self.states.update(other.states)
        self.details.update(other.details)


def run_module(
    module: str,
    *,
    patched: bool,
    left_out: Iterable[str] = (),
    only: Iterable[str] | None = None,
    test_limit_s: float = TEST_LIMIT_S,
    limit_s: float = MODULE_LIMIT_S,
) -> Outcome:
    """Run a module of the interpreter's tests, in as many child processes as needed.

    Args:
        module: the name without the package: `test_socket`.
        patched: whether to call `monkey.patch_all()` first.
        left_out: the tests to leave out.
        only: the tests to run; None means all.
        test_limit_s: a test that takes longer is killed with its process; the other tests continue in another process.
        limit_s: the limit for the module; the tests left after that count as hung.
    """
    outcome = Outcome()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        while True:
            left_s = limit_s - (time.monotonic() - began)
            chosen = {"left_out": [*outcome.states, *left_out], "only": only if only is None else list(only)}
            if _run_once(module, outcome, Path(folder), patched, chosen, min(test_limit_s, left_s)):
                break
            if left_s <= 0:
                break
    outcome.seconds = round(time.monotonic() - began, 1)
    return outcome


def _run_once(
    name: str, outcome: Outcome, folder: Path, patched: bool, chosen: dict[str, list[str] | None], test_limit_s: float
) -> bool:
    """Run one child process. Return whether it ran to the end."""
    out, choice = folder / "out", folder / "chosen"
    out.unlink(missing_ok=True)
    out.touch()
    choice.write_text(json.dumps(chosen))
    work = folder / "work"
    work.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "TMPDIR": str(work)}
    with (folder / "output").open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, str(CHILD), name, str(out), "patched" if patched else "plain", str(choice)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=work,
            env=environment,
            start_new_session=True,
        )
        is_hung = _watch(child, out, test_limit_s)
    known = len(outcome.states)
    running, is_over = _read(out, outcome)
    if is_over:
        return True
    if running is None and len(outcome.states) > known:
        # The process ended between two tests: run the remaining tests in another one.
        return False
    if running is None:
        tail = (folder / "output").read_text(errors="replace")[-3000:]
        outcome.states.setdefault(f"{name} (module)", "hung" if is_hung else "crashed")
        outcome.details[f"{name} (module)"] = tail
        return True
    outcome.states[running] = "hung" if is_hung else "crashed"
    outcome.details[running] = (folder / "output").read_text(errors="replace")[-3000:]
    return False


def _watch(child: subprocess.Popen[bytes], out: Path, test_limit_s: float) -> bool:
    """Wait for a child process. Return whether it was killed because a test took too long."""
    size, changed = -1, time.monotonic()
    is_hung = False
    while True:
        try:
            child.wait(0.1)
            break
        except subprocess.TimeoutExpired:
            now = out.stat().st_size
            if now != size:
                size, changed = now, time.monotonic()
            elif time.monotonic() - changed > test_limit_s:
                is_hung = True
                break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return is_hung


def _read(out: Path, outcome: Outcome) -> tuple[str | None, bool]:
    """Read the results. Return the test that was running at the end, and whether all tests were run."""
    running, is_over = None, False
    for text in out.read_text().splitlines():
        line = json.loads(text)
        if "begins" in line:
            running = line["begins"]
        elif line["state"] == "over":
            is_over = True
        else:
            running = None
            outcome.states[line["ended"]] = line["state"]
            outcome.details[line["ended"]] = line.get("details", "")
    return running, is_over
