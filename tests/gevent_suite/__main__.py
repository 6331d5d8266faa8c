"""Command line: run gevent's tests on the facade, and say what differs.

Exit status 0 when every test passes, skips itself, is left out by name or is excused by name; 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from tests.gevent_suite import catalogue
from tests.gevent_suite.runner import ROOT, FileResults, Suite
from tests.suites.exceptions import VERSION


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gevent_suite", description=__doc__)
    parser.add_argument("files", nargs="*", help="files of gevent.tests, without test__ if you like; all by default")
    parser.add_argument("--on", choices=("oneloop", "gevent"), default="oneloop", help="what the tests run on")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that one test may take")
    parser.add_argument("--verbose", action="store_true", help="print why each test failed")
    parser.add_argument("--save", type=Path, help="write a line per test to this file")
    parser.add_argument(
        "--strict",
        action="store_true",
        default="ONELOOP_STRICT" in os.environ,
        help="entries of exceptions.toml that hold no more are errors",
    )
    arguments = parser.parse_args()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job
        signal.signal(signal.SIGINT, signal.default_int_handler)
    exceptions = catalogue.load()
    folder = wheel_folder()
    all_files = exceptions.all_files(folder)
    files = tuple(full_name(name) for name in arguments.files) or all_files
    began_s = time.monotonic()
    suite = Suite(folder, arguments.on, arguments.limit, exceptions)
    results = suite.run_files(files, jobs=arguments.jobs)
    spent = f"{time.monotonic() - began_s:.0f} s, {sum(one.cpu_s for one in results):.0f} s of CPU"
    known = {f"{one.file}.{name}" for one in results for name in one.known}
    problems = [problem for one in results for problem in failures(one, exceptions)]
    stale = exceptions.names_nothing(known, files) + exceptions.leaves_out_nothing(catalogue.files_in(folder))
    stale = stale if arguments.on == "oneloop" else []
    stale += [line for one in results for line in needless(one, exceptions)]
    print_table(results)
    print_details(results, verbose=arguments.verbose)
    if arguments.save:
        lines = [f"{one.file}.{name} {end.outcome}\n" for one in results for name, end in sorted(one.outcomes.items())]
        arguments.save.write_text("".join(lines))
    problems += stale if arguments.strict else []
    for line in [] if arguments.strict else stale:
        print(f"WARNING exceptions.toml: {line}")
    for problem in problems:
        print(f"FAIL {problem}")
    verdict = f"{'FAILED' if problems else 'passed'} in {spent}"
    print(f"gevent's tests on {arguments.on}, Python {VERSION}: {verdict}", flush=True)
    return 1 if problems else 0


def wheel_folder() -> Path:
    """Where scripts/gevent-tests.sh has unpacked the wheel.

    Raises:
        SystemExit: it was not called.
    """
    requirements = (ROOT / "requirements" / "test.txt").read_text().splitlines()
    release = next(line.removeprefix("gevent==") for line in requirements if line.startswith("gevent=="))
    folder = ROOT / ".build" / "gevent" / release
    if not (folder / "gevent" / "tests").is_dir():
        raise SystemExit(f"{folder} has no tests: call scripts/gevent-tests.sh {VERSION}")
    return folder


def full_name(name: str) -> str:
    return name if name.startswith("test_") else f"test__{name}"


def failures(results: FileResults, exceptions: catalogue.Catalogue) -> list[str]:
    """What is wrong with the results of a file, as lines that name the test."""
    names = [f"{results.file}.{name}" for name, end in sorted(results.outcomes.items()) if end.outcome == "failed"]
    return [f"fails: {name}" for name in names if exceptions.excuse(name) is None]


def needless(results: FileResults, exceptions: catalogue.Catalogue) -> list[str]:
    """Excused tests that pass."""
    return [
        f"excused, but passes: {results.file}.{name} ({excuse})"
        for name, end in sorted(results.outcomes.items())
        if end.outcome == "passed" and (excuse := exceptions.excuse(f"{results.file}.{name}")) is not None
    ]


def print_table(results: list[FileResults]) -> None:
    print(f"{'file':<44}{'passed':>8}{'skipped':>9}{'failed':>8}{'left out':>10}{'CPU s':>8}")
    sums = [0] * 4
    for one in sorted(results, key=lambda one: one.file):
        counts = [one.count("passed"), one.count("skipped"), one.count("failed")]
        counts.append(len(one.known - set(one.outcomes)))
        sums = [before + new for before, new in zip(sums, counts, strict=True)]
        print(f"{one.file:<44}{counts[0]:>8}{counts[1]:>9}{counts[2]:>8}{counts[3]:>10}{one.cpu_s:>8.1f}")
    print(f"{'all':<44}{sums[0]:>8}{sums[1]:>9}{sums[2]:>8}{sums[3]:>10}{sum(one.cpu_s for one in results):>8.1f}")


def print_details(results: list[FileResults], *, verbose: bool) -> None:
    for one in results:
        for name, result in sorted(one.outcomes.items()):
            if result.is_retried:
                print(f"note: {one.file}.{name} passed only when run again alone")
            elif result.outcome == "failed":
                last = result.detail.strip().splitlines()[-1:] or ["no message"]
                print(f"note: {one.file}.{name} failed: {last[0][:200]}")
            else:
                continue
            if verbose:
                print(result.detail)


if __name__ == "__main__":
    sys.exit(main())
