"""`python -m tests.groups`: runs all tests in groups. Each group is a process; several groups run at the same time.

The groups are separate processes for another reason too: the ecosystem tests and the farm of tests/check have child
processes that tests of `waitpid(-1)` would find, and c-ares has a thread that would disturb tests of deadlocks.

When a group ends, its output is printed: the whole output if it failed, otherwise the last lines. The last line of all
has the sums. The exit status is 0 if all groups passed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-ra", "--durations=5", "--color=no"]
SHOWN_LINES = 60
"""How many lines of a group that passed are printed: the skipped tests, the slowest tests, the sums."""

_SUMS = re.compile(r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?)\b")
_CARGO_SUMS = re.compile(r"^test result: .*?(\d+) passed; (\d+) failed")


@dataclass(frozen=True)
class Group:
    """Tests that run in one process, and the command that runs them."""

    name: str
    command: list[str] = field(hash=False)


def _pytest(*paths: str) -> Group:
    return Group(", ".join(path.removeprefix("tests/") for path in paths), [*PYTEST, *paths])


def _rest(taken: list[Group], core: bool) -> Group:
    """A group of all test directories that are in no other group, so that a new directory is not forgotten."""
    named = {path for group in taken for path in group.command}
    left_out = {"tests/ecosystem", "tests/bench"} if core else set()
    found = sorted({f"tests/{path.relative_to(ROOT / 'tests').parts[0]}" for path in ROOT.glob("tests/*/**/test_*.py")})
    return _pytest(*[path for path in found if path not in named | left_out])


def groups(*, core: bool) -> list[Group]:
    """Return all groups, the longest first. With `core`, without Rust, ecosystem, bench and stubs."""
    conformance = Group("conformance", [sys.executable, "-m", "tests.conformance", "--jobs", "1"])
    rust = Group(
        "Rust", ["make", "--no-print-directory", "rust-test", f"PY={sys.version_info[0]}.{sys.version_info[1]}"]
    )
    stubs = Group("stubs", [sys.executable, "-m", "mypy.stubtest", "--ignore-missing-stub", "oneloop._native"])
    rooms = [
        _pytest("tests/file", "tests/aio"),
        _pytest("tests/loop", "tests/transport", "tests/tls"),
        _pytest("tests/check"),
        _pytest("tests/http"),
        _pytest("tests/green"),
    ]
    if core:
        return [conformance, _rest(rooms, core), *rooms]
    ecosystem = _pytest("tests/ecosystem")
    return [ecosystem, conformance, _rest([ecosystem, *rooms], core), *rooms, rust, stubs]


@dataclass
class Outcome:
    """How a group ended."""

    group: Group
    status: int
    time_s: float
    sums: Counter[str]
    output: str


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


def run(group: Group) -> Outcome:
    """Run a group and wait for its end."""
    began_s = time.monotonic()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log,
        # pytest removes old temporary folders, and groups that share them disturb each other there.
        tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as folder,
    ):
        status = _wait(group, log, folder)
        log.seek(0)
        output = log.read()
    return Outcome(group, status, time.monotonic() - began_s, sums_of(output), output)


def _wait(group: Group, log: IO[str], folder: str) -> int:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTEST_DEBUG_TEMPROOT": folder}
    # The log is a file, because a process that a test leaves behind would keep a pipe open.
    process = subprocess.Popen(
        group.command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
    )
    return process.wait()


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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.groups", description=__doc__)
    parser.add_argument("--core", action="store_true", help="only the tests that run on every Python version")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1, help="number of parallel groups")
    parser.add_argument("names", nargs="*", help="only groups whose name contains one of these")
    arguments = parser.parse_args()
    chosen = [
        group
        for group in groups(core=arguments.core)
        if not arguments.names or any(name in group.name for name in arguments.names)
    ]
    began_s = time.monotonic()
    outcomes = run_all(chosen, arguments.jobs)
    sums: Counter[str] = Counter()
    print(f"=== {time.monotonic() - began_s:.0f} s in total")
    for outcome in sorted(outcomes, key=lambda outcome: -outcome.time_s):
        sums += outcome.sums
        # A group with a bad exit status counts as a failure even if no test failed.
        sums["failed"] += bool(outcome.status and not outcome.sums["failed"])
        said = ", ".join(f"{number} {name}" for name, number in outcome.sums.items())
        print(f"{'ok    ' if outcome.status == 0 else 'FAILED'} {outcome.time_s:5.0f} s  {outcome.group.name}: {said}")
    print(f"{sums['passed']} passed, {sums['failed']} failed, {sums['skipped']} skipped")
    return 0 if outcomes and all(outcome.status == 0 for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
