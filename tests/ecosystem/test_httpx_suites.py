"""The test suites of httpcore and httpx, on their own pools and on the facade: nothing may fail on the facade alone.

Each suite runs three times: under `python`, on the facade in coroutines and plain code, and on the facade in green
threads (what is not asynchronous). httpcore2 and httpx2 are released without tests: they are held to the tests of those
that they follow, with their names. Tests that fail under `python` too, such as those of names that httpx2 does not
have, do not count.
"""

from __future__ import annotations

import re
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests import programs
from tests.programs import ROOT

FOLDER = ROOT / ".build" / "httpx"

# By name, with the reason; the test fails when one of these passes on the facade.
EXCUSED = {
    "tests.test_timeouts::test_pool_timeout[asyncio]": (
        "A connection is free as soon as its answer has arrived whole, so that a second request need not wait until "
        "the program closes the first response."
    )
}

# What a suite must at least pass, so that a suite that does not run is noticed.
LEAST = {"httpcore": 210, "httpcore2": 210, "httpx": 1380, "httpx2": 1350}

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


def outcomes(folder: Path, name: str, *before: str, only: str = "", files: tuple[str, ...] = ()) -> dict[str, str]:
    """Run a suite; test name to passed, failed or skipped."""
    report = folder / f"{name}.xml"
    report.unlink(missing_ok=True)
    words = ["-k", only] if only else []
    plugins = str(ROOT / "tests" / "ecosystem" / "plugins")
    command = [sys.executable, "-X", "faulthandler", *before, *PYTEST, *words, f"--junit-xml={report}", *files]
    done = programs.run_command(*command, cwd=folder, env={"PYTHONPATH": plugins}, limit_s=280)
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    print(name, done.stdout.splitlines()[-1])
    found: dict[str, str] = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return found


def lost(stock: dict[str, str], folder: Path, name: str, *before: str, only: str = "") -> dict[str, str]:
    """The tests that pass under `python` and not here, twice: a loaded machine does not decide."""
    ours = outcomes(folder, name, *before, only=only)
    missing = {test: ours.get(test, "missing") for test, outcome in stock.items() if outcome == "passed"}
    failed = {test: outcome for test, outcome in missing.items() if outcome != "passed"}
    if not set(failed) - set(EXCUSED):
        return failed
    print("failed at first:", *failed)
    files = sorted({test.partition("::")[0].replace(".", "/") + ".py" for test in failed})
    again = outcomes(folder, f"{name}-again", *before, only=only, files=tuple(files))
    return {test: outcome for test, outcome in failed.items() if again.get(test) != "passed"}


@pytest.mark.parametrize("package", sorted(LEAST))
@pytest.mark.allows_open_fds("the junit report")
@pytest.mark.time_limit(600)  # a whole test suite, several times
def test_the_same_tests_pass(package: str, tmp_path: Path) -> None:
    folder = suite(package, tmp_path)
    core = package.replace("httpx", "httpcore")
    run = ("-m", "oneloop", "run", "--replace", core)
    stock = outcomes(folder, "python")
    passing = [test for test, outcome in stock.items() if outcome == "passed"]
    assert len(passing) >= LEAST[package]
    on_facade = lost(stock, folder, "facade", *run)
    assert set(on_facade) - set(EXCUSED) == set()
    assert [test for test in EXCUSED if test in passing and test not in on_facade] == []
    only = "not asyncio and not trio"
    patched = outcomes(folder, "patched", "-m", "oneloop", "run", "--patch", only=only)
    assert lost(patched, folder, "green", *run, "--patch", only=only) == {}
