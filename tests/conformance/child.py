"""Runs one module of `test.test_asyncio` on one loop, in a process of its own.

Records in `--results` what becomes of each test (`suites/recording.py`). Decides nothing: comparing and excusing is the
parent's.
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
import unittest
from pathlib import Path
from typing import TextIO

from tests.conformance import bootstrap, catalogue
from tests.suites.recording import RecordingResult, each_test

PACKAGE = "test.test_asyncio"


def short_id(test: unittest.TestCase) -> str:
    return test.id().removeprefix(PACKAGE + ".")


class Result(RecordingResult):
    """Knows which tests made a loop of ours."""

    def __init__(self, stream: TextIO, limit_s: float) -> None:
        super().__init__()
        self.record_to(stream, limit_s)
        self._loops_made = 0

    def name_of(self, test: unittest.TestCase) -> str:
        return short_id(test)

    def seen(self) -> dict[str, object]:
        return {"used_ours": bootstrap.loops_made() > self._loops_made}

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        self._loops_made = bootstrap.loops_made()
        super().startTest(test)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        # What a failed test left running is not the next one's.
        asyncio._set_running_loop(None)
        super().stopTest(test)


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
    chosen.run(Result(stream, arguments.limit))


if __name__ == "__main__":
    sys.exit(main())
