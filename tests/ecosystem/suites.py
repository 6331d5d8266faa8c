"""Test suites of other projects, which run in processes of their own: what passes without oneloop must pass on it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

Outcomes = dict[str, str]
"""passed, failed or skipped, by the test's name."""
Run = Callable[[tuple[str, ...]], Outcomes]
"""Runs a suite, or only some of its files."""


def outcomes_in(report: Path) -> Outcomes:
    """How the tests of a junit report ended."""
    found: Outcomes = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        # Addresses in parameters differ from run to run.
        name = re.sub(r"0x[0-9a-f]+", "0x", f"{case.get('classname')}::{case.get('name')}")
        kinds = {child.tag for child in case}
        found[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return found


def file_of(name: str) -> str:
    """The file of a test: "tests.streams.test_tls.TestTLSStream::test_x" is in tests/streams/test_tls.py."""
    parts = name.partition("::")[0].split(".") if not name.startswith("::") else name[2:].split(".")
    module = next(index for index, part in enumerate(parts) if part.startswith("test_"))
    return "/".join(parts[: module + 1]) + ".py"


def files_of(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({file_of(name) for name in names}))


def check(ours: Run, stock: Run, excused: Collection[str] = (), least: int = 0) -> None:
    """Run a suite on oneloop. The files of what did not pass run on the original, too: what passes only there is lost.

    What is lost is lost twice, so that a loaded machine does not decide. A test that only oneloop's run has counts as
    well. At least `least` tests pass, so that a suite that does not run is noticed; those of `excused` do not.
    """
    on_ours = ours(())
    failed = {name for name, outcome in on_ours.items() if outcome != "passed"}
    on_stock = stock(files_of(failed)) if failed else {}
    lost = {name for name in failed if on_stock.get(name, "passed") == "passed"} - set(excused)
    if lost:
        print("failed at first:", *lost)
        again = ours(files_of(lost))
        lost = {name for name in lost if again.get(name) != "passed"}
    assert not lost, f"pass without oneloop, and failed twice with it: {sorted(lost)}"
    assert len(on_ours) - len(failed) >= least
    assert [name for name in excused if on_ours.get(name) == "passed"] == []
