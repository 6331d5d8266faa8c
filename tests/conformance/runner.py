"""Runs modules in child processes, a few at a time, and collects one outcome per test.

A child that hangs or dies costs one test: that test is a failure that carries the stacks or the signal, and a new
child goes on with the rest. A test that fails is run once more alone, so that a loaded machine does not decide;
what passes only then is reported as such. Deaths by a signal are not run again. Of excuses it knows only which
failures need no second run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.suites.outcomes import Attempt, Outcome, read_attempt

ROOT = Path(__file__).resolve().parents[2]
TOO_LONG = 124
"""The exit status of a child that was ended because it took too long: timeout(1)'s."""


@dataclass
class LoopResults:
    """All outcomes of one loop, by test id, and every test id that exists, run or not."""

    loop: str
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def count(self, outcome: str, module: str | None = None, *, ours: bool = False) -> int:
        """How many tests ended so; with `ours`, only those that made a loop of oneloop's and so say something of it."""
        return sum(
            1
            for result in self.outcomes.values()
            if result.outcome == outcome
            and (result.used_ours or not ours)
            and (module is None or result.name.startswith(module + "."))
        )


def run_child(loop: str, module: str, limit_s: float, *, only: set[str] | None, skip: set[str]) -> Attempt:
    """Run one child over one module, bounded in time."""
    with tempfile.TemporaryDirectory() as directory:
        results, skip_file = Path(directory, "results"), Path(directory, "skip")
        results.touch()
        skip_file.write_text("\n".join(skip))
        command = [sys.executable, "-m", "tests.conformance.child", "--loop", loop, "--module", module]
        command += ["--results", str(results), "--limit", str(limit_s), "--skip", str(skip_file)]
        if only is not None:
            only_file = Path(directory, "only")
            only_file.write_text("\n".join(only))
            command += ["--only", str(only_file)]
        # A file and not a pipe: a process that a test left behind would keep a pipe open.
        output = Path(directory, "output")
        with output.open("wb") as stream:
            try:
                code = subprocess.run(
                    command,
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    timeout=900,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                code = TOO_LONG
        text = output.read_bytes().decode(errors="replace")[-6000:]
        return read_attempt(results, code, f"exit status {code}\n{text}" if code else text)


def run_module(
    loop: str, module: str, limit_s: float, only: set[str] | None = None, *, is_expected: Callable[[str], bool]
) -> LoopResults:
    """Run a whole module, over as many children as hangs and crashes need; retry what failed."""
    results = LoopResults(loop)
    while True:
        attempt = run_child(loop, module, limit_s, only=only, skip=set(results.outcomes))
        results.known |= attempt.known
        results.outcomes.update((ended.name, ended) for ended in attempt.ended)
        if attempt.hanging is not None:
            lost = Outcome(attempt.hanging, "failed", "did not end:\n" + attempt.said, is_final=attempt.status < 0)
            results.outcomes[lost.name] = lost
            continue
        if attempt.status:
            name = f"{module}.<module>"
            results.outcomes[name] = Outcome(name, "failed", attempt.said)
        break
    for failed in [result for result in results.outcomes.values() if result.outcome == "failed"]:
        if failed.is_final or is_expected(failed.name):
            continue
        again = run_child(loop, module, limit_s, only={failed.name}, skip=set())
        if again.ended and again.hanging is None and all(ended.outcome == "passed" for ended in again.ended):
            failed.outcome, failed.is_retried = "passed", True
    return results


def run_loop(
    loop: str,
    modules: tuple[str, ...],
    *,
    jobs: int,
    limit_s: float,
    is_expected: Callable[[str], bool],
    only: set[str] | None = None,
) -> LoopResults:
    """Run modules on one loop, `jobs` at a time. What is expected to fail is not run again when it does."""
    total = LoopResults(loop)
    with ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(lambda module: run_module(loop, module, limit_s, only, is_expected=is_expected), modules):
            total.outcomes.update(part.outcomes)
            total.known |= part.known
    return total
