"""Records the outcome of each test of a process.

A JSON line says that a test exists, that it starts or that it has ended, so that the parent knows which test a hang or
a crash belongs to. Each test has a time limit: beyond it faulthandler prints every thread's stack and ends the process.
Imports nothing that a suite may have patched before it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import time
from typing import TYPE_CHECKING, Any, TextIO
from unittest.case import TestCase
from unittest.result import TestResult

if TYPE_CHECKING:
    from collections.abc import Iterator

_now_s = time.monotonic
_own_pid = os.getpid()


def each_test(suite: Any) -> Iterator[TestCase]:
    if isinstance(suite, TestCase):
        yield suite
        return
    for member in suite:
        yield from each_test(member)


class RecordingResult(TestResult):
    """Sends every start and outcome to the file at once. A subclass says how tests are named."""

    def record_to(self, results: TextIO, limit_s: float) -> None:
        """Begin: the open file, and the seconds that a test may take."""
        self._results = results
        self._limit_s = limit_s
        self._began_s = 0.0
        self._running: TestCase | None = None
        self._outcome, self._detail = "passed", ""

    def name_of(self, test: TestCase) -> str:
        raise NotImplementedError

    def seen(self) -> dict[str, object]:
        """What else is recorded of a test that has ended."""
        return {}

    def _send(self, **record: object) -> None:
        if os.getpid() == _own_pid:
            self._results.write(json.dumps(record) + "\n")
            self._results.flush()

    def startTest(self, test: TestCase) -> None:  # noqa: N802 - unittest's name
        super().startTest(test)
        self._outcome, self._detail = "passed", ""
        self._running = test
        self._began_s = _now_s()
        self._send(start=self.name_of(test))
        faulthandler.dump_traceback_later(self._limit_s, exit=True)

    def stopTest(self, test: TestCase) -> None:  # noqa: N802 - unittest's name
        faulthandler.cancel_dump_traceback_later()
        self._send_end(self.name_of(test), self._outcome, self._detail, _now_s() - self._began_s)
        super().stopTest(test)

    def _send_end(self, name: str, outcome: str, detail: str, seconds: float = 0.0) -> None:
        self._send(test=name, outcome=outcome, detail=detail[-6000:], seconds=round(seconds, 3), **self.seen())

    def _note(self, outcome: str, detail: str) -> None:
        if self._outcome != "failed":
            self._outcome, self._detail = outcome, detail

    def addError(self, test: TestCase, err: Any) -> None:  # noqa: N802 - unittest's name
        super().addError(test, err)
        if hasattr(test, "_testMethodName"):
            self._note("failed", self.errors[-1][1])
        else:  # setUpModule, setUpClass and their likes
            self._send_end(test.id(), "failed", self.errors[-1][1])

    def addFailure(self, test: TestCase, err: Any) -> None:  # noqa: N802 - unittest's name
        super().addFailure(test, err)
        self._note("failed", self.failures[-1][1])

    def addSkip(self, test: TestCase, reason: str) -> None:  # noqa: N802 - unittest's name
        super().addSkip(test, reason)
        if self._running is not getattr(test, "test_case", test):  # of which a subtest is a part
            # Python 3.12.0 does not start a test that is skipped as a whole.
            self._outcome, self._detail = "passed", ""
        self._note("skipped", reason)

    def addExpectedFailure(self, test: TestCase, err: Any) -> None:  # noqa: N802
        super().addExpectedFailure(test, err)
        self._note("skipped", "expected failure")

    def addUnexpectedSuccess(self, test: TestCase) -> None:  # noqa: N802
        super().addUnexpectedSuccess(test)
        self._note("failed", "unexpected success")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note("failed", (self.failures or self.errors)[-1][1])
