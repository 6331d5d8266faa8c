"""A pytest plugin: writes what happened to each test into a file, and can run only the tests that a file names.

`ONELOOP_TEST_RECORD` names the file; a line is a JSON object: the tests that were collected, a test that begins, a test
that has ended, the end of the run. So tests/harness/again.py knows which test a death belongs to and which tests have
not run. `ONELOOP_TEST_ONLY` names a file with a test per line; all others are left out. Without these it does nothing.

A failure that must never be run again is marked with the reason: a second run that passes would only hide it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

NEVER_AGAIN = ("tests/differential/",)
"""Tests that compare oneloop with an original: a difference is there, however rarely it is seen."""


class LeftBehindError(AssertionError):
    """A test left something behind: descriptors, threads, child processes, calls of the exception handler."""


def _all_of(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [one for inner in error.exceptions for one in _all_of(inner)]
    return [error]


def _reason(error: BaseException, report: pytest.TestReport, has_failed: bool) -> str:
    """Why a failure must not be run again; nothing if it may."""
    said = [report.longreprtext, *(text for _, text in report.sections)]
    if any(type(one).__name__ == "PanicException" for one in _all_of(error)) or any(
        "panicked at" in each for each in said
    ):
        return "a panic"
    # What a test that has failed leaves behind follows from its failure.
    if not has_failed and any(isinstance(one, LeftBehindError) for one in _all_of(error)):
        return "left something behind"
    if report.nodeid.startswith(NEVER_AGAIN):
        return "a difference from the original"
    return ""


class Record:
    """Writes the record of one run."""

    def __init__(self, file: Path, only: frozenset[str] | None) -> None:
        self._fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
        self._pid = os.getpid()
        self._only = only
        self._outcome = ""
        self._final = ""

    def _write(self, **record: object) -> None:
        if os.getpid() == self._pid:  # a test's child may end as pytest does
            os.write(self._fd, (json.dumps(record) + "\n").encode())

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._only is not None:
            items[:] = [item for item in items if item.nodeid in self._only]
        self._write(collected=[item.nodeid for item in items])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(test=report.nodeid, outcome="failed", final="could not be collected")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._outcome, self._final = "", ""
        self._write(begun=nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # what is expected to fail has been told apart
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and call.excinfo is not None:
            self._final = self._final or _reason(call.excinfo.value, report, self._outcome == "failed")
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._outcome = "failed"
        elif self._outcome != "failed" and (report.when == "call" or report.skipped):
            is_expected = hasattr(report, "wasxfail")
            self._outcome = (
                {"skipped": "xfailed", "passed": "xpassed"}[report.outcome] if is_expected else report.outcome
            )

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write(test=nodeid, outcome=self._outcome or "failed", final=self._final)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._write(ended=int(exitstatus))


def pytest_configure(config: pytest.Config) -> None:
    # Taken from the environment, so that a pytest which a test starts writes no record.
    file, only = os.environ.pop("ONELOOP_TEST_RECORD", None), os.environ.pop("ONELOOP_TEST_ONLY", None)
    if file is not None:
        names = frozenset(Path(only).read_text().splitlines()) if only is not None else None
        config.pluginmanager.register(Record(Path(file), names), "oneloop-record")
