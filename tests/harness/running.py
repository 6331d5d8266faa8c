"""Runs groups of tests, several at the same time, each in a process of its own, and collects how each test ended.

A group of pytest that dies (a crash, the watchdog) costs one test: that test has failed, and the others of its group
that have not run yet run in a new process. Knows nothing of second runs: tests/harness/again.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
PYTEST = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-ra", "--durations=5", "--color=no"]
RECORDED = ["-p", "tests.harness.record"]
SHOWN_LINES = 60
"""How many lines of a group that passed are printed: the skipped tests, the slowest tests, the sums."""
MOST_DEATHS = 5
"""A group whose processes died so often is not gone on with."""

_SUMS = re.compile(r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?)\b")
_CARGO_SUMS = re.compile(r"^test result: .*?(\d+) passed; (\d+) failed")


@dataclass(frozen=True)
class Group:
    """Tests that run in one process, and the command that runs them."""

    name: str
    command: list[str] = field(hash=False)
    kind: Literal["pytest", "cargo", "suite", "other"] = "other"
    """A suite is tests/conformance: it prints `FAIL` and the name of a test, and has an option `--only`."""
    environment: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass
class Outcome:
    """How a group ended; with pytest, how each of its tests ended."""

    group: Group
    status: int
    time_s: float
    output: str
    tests: dict[str, str] = field(default_factory=dict)
    """passed, failed, skipped, xfailed or xpassed, by the test's name."""
    final: dict[str, str] = field(default_factory=dict)
    """Why a test that failed must not be run again."""

    def sums(self) -> Counter[str]:
        """How many tests passed, failed and so on."""
        return Counter(self.tests.values()) if self.tests else sums_of(self.output)


def sums_of(output: str) -> Counter[str]:
    """Return how many tests passed, failed and so on, from the output of pytest or cargo."""
    sums: Counter[str] = Counter()
    for line in output.splitlines():
        cargo = _CARGO_SUMS.match(line)
        if cargo:
            sums.update(passed=int(cargo[1]), failed=int(cargo[2]))
        elif re.search(r" in \d[\d.]*s\b", line):
            for number, word in _SUMS.findall(line):
                sums["failed" if word.startswith("error") else word] += int(number)
    return sums


@dataclass
class _Attempt:
    """What one process of a group left."""

    status: int
    output: str
    collected: list[str] = field(default_factory=list)
    tests: dict[str, str] = field(default_factory=dict)
    final: dict[str, str] = field(default_factory=dict)
    running: str | None = None
    has_ended: bool = False


def run(group: Group, only: Collection[str] | None = None) -> Outcome:
    """Run a group, over as many processes as deaths need.

    Args:
        group: What is run.
        only: With pytest, the names of the tests to run; all by default.
    """
    began_s = time.monotonic()
    outcome = Outcome(group, 0, 0.0, "")
    left = only
    for _ in range(MOST_DEATHS):
        attempt = _run_process(group, left)
        outcome.status = outcome.status or attempt.status
        outcome.output += attempt.output
        outcome.tests |= attempt.tests
        outcome.final |= attempt.final
        if group.kind != "pytest" or attempt.has_ended:
            break
        died = f"its process ended with status {attempt.status}"
        moment = "after its last test" if attempt.collected else "before its first test"
        lost = attempt.running or f"{group.name} ({moment})"
        outcome.tests[lost], outcome.final[lost] = "failed", died
        outcome.status = outcome.status or 1
        outcome.output += f"\n=== {lost}: {died}\n"
        left = [name for name in attempt.collected if name not in outcome.tests]
        if not left:
            break
    for name in attempt.collected if attempt.has_ended else ():
        if name not in outcome.tests:  # pytest was interrupted, or failed itself
            outcome.tests[name], outcome.final[name] = "failed", f"was not run: pytest ended with {attempt.status}"
            outcome.status = outcome.status or 1
    outcome.time_s = time.monotonic() - began_s
    return outcome


def _run_process(group: Group, only: Collection[str] | None) -> _Attempt:
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log,
        # pytest removes old temporary folders, and groups that share them disturb each other there.
        tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryDirectory(prefix="record", ignore_cleanup_errors=True) as notes,
    ):
        environment = {**os.environ, **group.environment, "PYTHONUNBUFFERED": "1", "PYTEST_DEBUG_TEMPROOT": folder}
        record = Path(notes, "record")
        record.touch()
        if group.kind == "pytest":
            environment["ONELOOP_TEST_RECORD"] = str(record)
            if only is not None:
                Path(notes, "only").write_text("\n".join(only))
                environment["ONELOOP_TEST_ONLY"] = str(Path(notes, "only"))
        # The log is a file, because a process that a test leaves behind would keep a pipe open.
        process = subprocess.Popen(
            group.command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        status = process.wait()
        log.seek(0)
        attempt = _Attempt(status, log.read())
        for line in record.read_text().splitlines():
            _read(attempt, json.loads(line))
    return attempt


def _read(attempt: _Attempt, record: dict[str, object]) -> None:
    match record:
        case {"collected": list(names)}:
            attempt.collected = names
        case {"begun": str(name)}:
            attempt.running = name
        case {"test": str(name), "outcome": str(outcome), "final": str(final)}:
            attempt.running = None
            attempt.tests[name] = outcome
            if final and outcome == "failed":
                attempt.final[name] = final
        case {"ended": int(status)}:
            # After that the interpreter ends, and may die of what the tests have left.
            attempt.has_ended = status == attempt.status


def run_all(waiting: list[Group], jobs: int) -> list[Outcome]:
    """Run groups, `jobs` of them at the same time. Each one's output is printed when it ends."""
    queue: SimpleQueue[Group] = SimpleQueue()
    for group in waiting:
        queue.put(group)
    outcomes: list[Outcome] = []
    lock = threading.Lock()

    def work() -> None:
        while True:
            try:
                group = queue.get_nowait()
            except Empty:
                return
            outcome = run(group)
            with lock:
                outcomes.append(outcome)
                show(outcome)

    workers = [threading.Thread(target=work) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return outcomes


def show(outcome: Outcome) -> None:
    """Print a group's output; if it passed, only the last lines."""
    lines = outcome.output.splitlines()
    word = "ok" if outcome.status == 0 else f"FAILED with status {outcome.status}"
    print(f"=== {outcome.group.name}: {word}, {outcome.time_s:.0f} s", flush=True)
    print("\n".join(lines if outcome.status else lines[-SHOWN_LINES:]), flush=True)
