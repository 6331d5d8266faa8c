"""The test suites of httpcore and httpx, on their own pools and on the facade: nothing may fail on the facade alone.

Each suite runs on the facade in coroutines and plain code, and in green threads (what is not asynchronous). httpcore2
and httpx2 are released without tests: they are held to the tests of those that they follow, with their names. Tests
that do not pass without the facade either, such as those of names that httpx2 does not have, do not count: the files of
what did not pass run there, too.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests import programs
from tests.ecosystem.suites import Outcomes, check, outcomes_in
from tests.programs import ROOT

FOLDER = ROOT / ".build" / "httpx"

# By name, with the reason.
EXCUSED = {
    "tests.test_timeouts::test_pool_timeout[asyncio]": (
        "A connection is free as soon as its answer has arrived whole, so that a second request need not wait until "
        "the program closes the first response."
    )
}

# What a suite must at least pass, in coroutines and plain code, and in green threads.
LEAST = {"httpcore": (209, 81), "httpcore2": (209, 81), "httpx": (1380, 1130), "httpx2": (1350, 1110)}

PYTEST = ["-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "httpbin_stand_in"]
# Not those that use the network outside.
PYTEST += ["-m", "not network"]


def suite(package: str, folder: Path) -> Path:
    """Copy the tests for a package; returns the folder with `tests` in it."""
    name = package.removesuffix("2")
    sources = sorted(FOLDER.glob(f"{name}-*/tests"))
    if not sources:
        pytest.skip(f"{name}'s sources are not here: scripts/httpx-tests.sh fetches them")
    shutil.copytree(sources[-1], folder / "tests")
    if package != name:
        for file in (folder / "tests").rglob("*.py"):
            text = re.sub(r"\b(httpcore|httpx)\b", r"\g<1>2", file.read_text())
            file.write_text(text)
    return folder


def outcomes(folder: Path, name: str, *before: str, only: str = "", files: tuple[str, ...] = ()) -> Outcomes:
    """Run a suite, or some of its files, with options of the interpreter before `-m pytest`."""
    report = folder / f"{name}.xml"
    report.unlink(missing_ok=True)
    words = ["-k", only] if only else []
    plugins = str(ROOT / "tests" / "ecosystem" / "plugins")
    command = [sys.executable, "-X", "faulthandler", *before, *PYTEST, *words, f"--junit-xml={report}", *files]
    done = programs.run_command(*command, cwd=folder, env={"PYTHONPATH": plugins}, limit_s=280)
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    print(name, done.stdout.splitlines()[-1])
    return outcomes_in(report)


@pytest.mark.parametrize("package", sorted(LEAST))
@pytest.mark.allows_open_fds("the junit report")
@pytest.mark.time_limit(600)  # a whole test suite, several times
def test_the_same_tests_pass(package: str, tmp_path: Path) -> None:
    folder = suite(package, tmp_path)
    run = ("-m", "oneloop", "run", "--replace", package.replace("httpx", "httpcore"))
    in_coroutines, in_green_threads = LEAST[package]
    check(
        lambda files: outcomes(folder, "facade", *run, files=files),
        lambda files: outcomes(folder, "python", files=files),
        EXCUSED if package.startswith("httpx") else {},
        in_coroutines,
    )
    only = "not asyncio and not trio"
    check(
        lambda files: outcomes(folder, "green", *run, "--patch", only=only, files=files),
        lambda files: outcomes(folder, "patched", "-m", "oneloop", "run", "--patch", only=only, files=files),
        least=in_green_threads,
    )
