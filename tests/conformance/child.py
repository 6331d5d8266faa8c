"""Runs one module of `test.test_asyncio` on one loop, in a process of its own.

Writes a JSON line to `--results` when a test starts and one when it ends, so that the parent knows which test a
hang or a crash belongs to. Each test has a time limit: beyond it faulthandler prints every thread's stack and
ends the process. Decides nothing: comparing and excusing is the parent's.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import importlib
import importlib.util
import json
import os
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from tests.conformance import bootstrap, catalogue

PACKAGE = "test.test_asyncio"


def short_id(test: unittest.TestCase) -> str:
    return test.id().removeprefix(PACKAGE + ".")


def each_test(suite: unittest.TestSuite | unittest.TestCase) -> Iterator[unittest.TestCase]:
    if isinstance(suite, unittest.TestCase):
        yield suite
        return
    for member in suite:
        yield from each_test(member)


class RecordingResult(unittest.TestResult):
    """Sends every start and outcome to the results file at once."""

    def __init__(self, stream: TextIO, limit_s: float) -> None:
        super().__init__()
        self._stream = stream
        self._limit_s = limit_s
        self._started = 0.0
        self._loops_made = 0
        self._outcome = "passed"
        self._detail = ""

    def _send(self, **record: object) -> None:
        self._stream.write(json.dumps(record) + "\n")
        self._stream.flush()

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        super().startTest(test)
        self._outcome, self._detail = "passed", ""
        self._started = time.monotonic()
        self._loops_made = bootstrap.loops_made()
        self._send(start=short_id(test))
        faulthandler.dump_traceback_later(self._limit_s, exit=True)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        faulthandler.cancel_dump_traceback_later()
        seconds = round(time.monotonic() - self._started, 3)
        # What a failed test left running is not the next one's.
        asyncio._set_running_loop(None)
        used_ours = bootstrap.loops_made() > self._loops_made
        self._send(
            test=short_id(test),
            outcome=self._outcome,
            detail=self._detail[-6000:],
            seconds=seconds,
            used_ours=used_ours,
        )
        super().stopTest(test)

    def _note(self, outcome: str, detail: str) -> None:
        if self._outcome != "failed":
            self._outcome, self._detail = outcome, detail

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802 - unittest's name
        super().addError(test, err)
        detail = self.errors[-1][1]
        if hasattr(test, "_testMethodName"):
            self._note("failed", detail)
        else:  # setUpModule, setUpClass and their likes
            self._send(test=test.id(), outcome="failed", detail=detail, seconds=0, used_ours=False)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802 - unittest's name
        super().addFailure(test, err)
        self._note("failed", self.failures[-1][1])

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802 - unittest's name
        super().addSkip(test, reason)
        self._note("skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addExpectedFailure(test, err)
        self._note("skipped", "expected failure")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().addUnexpectedSuccess(test)
        self._note("failed", "unexpected success")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note("failed", (self.failures or self.errors)[-1][1])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", choices=bootstrap.LOOPS, required=True)
    parser.add_argument("--module", required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that one test may take")
    parser.add_argument("--only", type=Path, help="file with one test id per line")
    parser.add_argument("--skip", type=Path, help="file with one test id per line")
    arguments = parser.parse_args()
    faulthandler.enable()
    bootstrap.install(arguments.loop)
    name = f"{PACKAGE}.{arguments.module}"
    with arguments.results.open("a") as stream, tempfile.TemporaryDirectory() as directory:
        if importlib.util.find_spec(name) is None:
            return 0
        with contextlib.chdir(directory):
            run_module(name, stream, arguments)
    # Threads or executors that a test left behind must not keep the process.
    sys.stdout.flush()
    os._exit(0)


def run_module(name: str, stream: TextIO, arguments: argparse.Namespace) -> None:
    bootstrap.adapt(importlib.import_module(name))
    loaded = unittest.defaultTestLoader.loadTestsFromName(name)
    exceptions = catalogue.load()
    only = set(arguments.only.read_text().split()) if arguments.only else None
    skip = set(arguments.skip.read_text().split()) if arguments.skip else set()
    chosen = unittest.TestSuite()
    for test in each_test(loaded):
        test_id = short_id(test)
        stream.write(json.dumps({"known": test_id}) + "\n")
        if exceptions.is_dropped(test_id) or test_id in skip or (only is not None and test_id not in only):
            continue
        chosen.addTest(test)
    stream.flush()
    chosen.run(RecordingResult(stream, arguments.limit))


if __name__ == "__main__":
    sys.exit(main())
