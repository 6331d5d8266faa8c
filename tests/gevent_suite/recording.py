"""Makes unittest record the outcome of each test of a process, for `runner.py`, and run only those that are chosen."""

from __future__ import annotations

import json
import os
from fnmatch import fnmatchcase
from typing import Any, TextIO
from unittest.case import TestCase
from unittest.runner import TextTestResult, TextTestRunner
from unittest.suite import TestSuite

from tests.suites.recording import RecordingResult, each_test

LIMIT = "GEVENT_SUITE_LIMIT"
"""The environment variable with the seconds that a test may take."""
CHOICE = "GEVENT_SUITE_CHOICE"
"""The environment variable with a JSON file: the tests to run (null: all), those not to run, by name and by pattern."""


def short_id(test: TestCase) -> str:
    return test.id().removeprefix("__main__.")


def install(results: str) -> None:
    """Make unittest's runner write the outcomes to the file `results`. Called when unittest has been loaded."""
    stream = open(results, "a")
    limit_s = float(os.environ.pop(LIMIT))
    with open(os.environ.pop(CHOICE)) as file:
        choice: dict[str, list[str] | None] = json.load(file)
    runner = TextTestRunner
    run = runner.run

    def make_result(self: Any) -> Result:
        return Result(stream, limit_s, self.stream, self.descriptions, self.verbosity)

    def run_chosen(self: Any, test: Any) -> Any:
        chosen = TestSuite()
        for one in each_test(test):
            name = short_id(one)
            stream.write(json.dumps({"known": name}) + "\n")
            if _is_chosen(name, choice):
                chosen.addTest(one)
        stream.flush()
        return run(self, chosen)

    runner._makeResult = make_result  # type: ignore[attr-defined,method-assign]
    runner.run = run_chosen  # type: ignore[method-assign]


def _is_chosen(name: str, choice: dict[str, list[str] | None]) -> bool:
    only = choice["only"]
    if name in (choice["skip"] or ()) or any(fnmatchcase(name, pattern) for pattern in choice["dropped"] or ()):
        return False
    return only is None or name in only


class Result(RecordingResult, TextTestResult):
    """What gevent's tests show, and the record of it."""

    def __init__(self, results: TextIO, limit_s: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.record_to(results, limit_s)

    def name_of(self, test: TestCase) -> str:
        return short_id(test)
