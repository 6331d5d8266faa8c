"""Runs one module of the interpreter's tests in this process, and writes the result of each test as a line of JSON.

    python child.py MODULE OUT PATCHED CHOSEN

OUT is the file for the lines. PATCHED is "patched" or "plain". CHOSEN is a file with the names of the tests to leave
out and, if not all tests are run, of the tests to run.
"""

from __future__ import annotations

import json
import os
import sys

if __name__ == "__main__" and sys.argv[3] == "patched":
    from oneloop.green import monkey

    monkey.patch_all()

import time
import traceback
import unittest
from typing import Any


class Lines(unittest.TestResult):
    """Writes a line when a test begins, and another one when it has ended."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._pid = os.getpid()
        self._state = ""
        self._details = ""
        self._began_s = 0.0

    def _write(self, **line: object) -> None:
        # A forked child that a test has left behind must not write here.
        if os.getpid() == self._pid:
            os.write(self._fd, json.dumps(line).encode() + b"\n")

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self._state, self._details = "passed", ""
        self._began_s = time.monotonic()
        self._write(begins=test.id())

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().stopTest(test)
        taken_s = round(time.monotonic() - self._began_s, 2)
        self._write(ended=test.id(), state=self._state, details=self._details[-3000:], seconds=taken_s)

    def _fail(self, test: Any, error: Any) -> None:
        self._state = "failed"
        self._details = "".join(traceback.format_exception(*error))
        if not isinstance(test, unittest.TestCase):
            # setUpClass or setUpModule.
            self._write(ended=str(test), state="failed", details=self._details[-3000:])

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._fail(test, err)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._fail(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._fail(test, err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        if self._state == "passed":
            self._state, self._details = "skipped", reason

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        self._state = "failed"


def tests_of(suite: Any) -> list[unittest.TestCase]:
    found: list[unittest.TestCase] = []
    for one in suite:
        found += [one] if isinstance(one, unittest.TestCase) else tests_of(one)
    return found


def main() -> None:
    module, out, _, chosen = sys.argv[1:]
    with open(chosen) as file:
        choice = json.load(file)
    from test import support

    support.verbose = 0
    suite = unittest.TestSuite(
        test
        for test in tests_of(unittest.defaultTestLoader.loadTestsFromName(f"test.{module}"))
        if test.id() not in choice["left_out"] and (choice["only"] is None or test.id() in choice["only"])
    )
    result = Lines(out)
    suite.run(result)
    result._write(ended="", state="over")


if __name__ == "__main__":
    main()
