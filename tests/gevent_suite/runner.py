"""Runs files of gevent's tests in child processes, a few at a time, and collects one outcome per test.

A child that hangs or dies costs one test: that test is a failure that carries the stacks or the signal, and a new child
goes on with the rest. A test that fails is run once more alone, so that a loaded machine does not decide; what passes
only then is reported as such. A file without unittest is one test, `FILE.<script>`: its exit status decides.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.gevent_suite import entry, recording
from tests.gevent_suite.catalogue import Catalogue
from tests.suites.outcomes import Attempt, Outcome, read_attempt

ROOT = Path(__file__).resolve().parents[2]
FILE_LIMIT_S = 300.0
NONE_RAN = 5
"""The status of unittest, since Python 3.12, if all tests were skipped or left out."""


@dataclass
class FileResults:
    """All outcomes of one file, by the name of the test, and every test that exists, run or not."""

    file: str
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    cpu_s: float = 0.0

    def count(self, outcome: str) -> int:
        return sum(1 for result in self.outcomes.values() if result.outcome == outcome)


@dataclass(frozen=True)
class Suite:
    """Where the tests are, and what they run on."""

    folder: Path
    on: str
    limit_s: float
    exceptions: Catalogue

    def environment(self, results: Path, choice: Path) -> dict[str, str]:
        """Return the environment of a child."""
        # Not what this process was started with: the tests look at some of these.
        left_out = ("GEVENT", "PYTHON", "ONELOOP", "COVERAGE")
        variables = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        variables |= {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "gevent_suite" / "children"), str(ROOT)]),
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            # As gevent's own runner sets them. What is outside of this machine is not asked.
            "GEVENTTEST_USE_RESOURCES": "-network",
            "GEVENT_DEBUG": "debug",
            # A test that only a wall-clock figure fails skips itself then.
            "GITHUB_ACTIONS": "1",
            entry.RESULTS: str(results),
            recording.LIMIT: str(self.limit_s),
            recording.CHOICE: str(choice),
        }
        if self.on == "oneloop":
            variables[entry.FOLDER] = str(self.folder)
        return variables

    def run_child(self, file: str, *, only: set[str] | None, skip: set[str]) -> Attempt:
        """Run one child over one file, bounded in time."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            results, choice, output = (Path(directory, name) for name in ("results", "choice", "output"))
            results.touch()
            chosen = {
                "only": None if only is None else [*only],
                "skip": [*skip],
                "dropped": self.exceptions.dropped_of(file),
            }
            choice.write_text(json.dumps(chosen), encoding="utf-8")
            # A file and not a pipe: a process that a test left behind would keep a pipe open.
            with output.open("wb") as stream:
                process = subprocess.Popen(
                    [sys.executable, "-m", f"gevent.tests.{file}"],
                    cwd=self.folder / "gevent" / "tests",
                    env=self.environment(results, choice),
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                status, cpu_s = _wait(process)
            text = output.read_bytes().decode(errors="replace")[-6000:]
            return read_attempt(results, status, text, cpu_s)

    def run_file(self, file: str) -> FileResults:
        """Run a whole file, over as many children as hangs and crashes need; run what failed again."""
        found = FileResults(file)
        while True:
            attempt = self.run_child(file, only=None, skip=set(found.outcomes))
            found.known |= attempt.known
            found.cpu_s += attempt.cpu_s
            found.outcomes.update((ended.name, ended) for ended in attempt.ended)
            if attempt.hanging is None:
                break
            said, is_final = f"did not end:\n{attempt.said}", attempt.status < 0
            found.outcomes[attempt.hanging] = Outcome(attempt.hanging, "failed", said, is_final=is_final)
        if not found.known:
            self._judge_script(found, attempt)
        elif attempt.status and not found.count("failed") and (attempt.status != NONE_RAN or found.count("passed")):
            found.outcomes["<exit>"] = Outcome("<exit>", "failed", f"exit status {attempt.status}\n{attempt.said}")
        self._run_again(found)
        return found

    def _judge_script(self, found: FileResults, attempt: Attempt) -> None:
        name = "<script>"
        found.known.add(name)
        detail = f"exit status {attempt.status}\n{attempt.said}"
        found.outcomes[name] = Outcome(name, "failed" if attempt.status else "passed", detail if attempt.status else "")

    def _run_again(self, found: FileResults) -> None:
        for failed in [one for one in found.outcomes.values() if one.outcome == "failed"]:
            # What is expected to fail need not fail twice.
            if failed.is_final or self.exceptions.excuse(f"{found.file}.{failed.name}") is not None:
                continue
            is_one = not failed.name.startswith("<")
            again = self.run_child(found.file, only={failed.name} if is_one else None, skip=set())
            found.cpu_s += again.cpu_s
            good = all(ended.outcome == "passed" for ended in again.ended)
            if again.hanging is None and again.status == 0 and good and bool(again.ended) == bool(again.known):
                failed.outcome, failed.is_retried = "passed", True

    def run_files(self, files: tuple[str, ...], *, jobs: int) -> list[FileResults]:
        """Run files, `jobs` at a time."""
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(self.run_file, files))


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Wait for a child, end what it left behind, and return its status and the CPU time of it and its children."""
    expired = False
    try:
        # The status is not collected yet: the process group's number stays taken.
        with _alarm(process.pid, FILE_LIMIT_S) as alarm:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        expired = alarm.expired
    finally:
        _end_group(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (-signal.SIGKILL if expired else process.returncode), usage.ru_utime + usage.ru_stime


def _end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


class _alarm:  # noqa: N801 - used like a function
    """Kills a process group when its time is over."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.expired = False
        self._pid = pid
        self._timer = threading.Timer(seconds, self._expire)

    def _expire(self) -> None:
        self.expired = True
        _end_group(self._pid)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
