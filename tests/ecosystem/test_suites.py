"""When another project's suite counts as passed, on suites of a few names."""

from __future__ import annotations

import pytest

from tests.ecosystem.suites import Outcomes, check, file_of

A, B, C = (f"tests.test_{name}.TestIt::test_it[{name}]" for name in "abc")
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@pytest.mark.parametrize(
    ("ours", "stock", "again", "excused", "passes"),
    [
        ({A: PASSED, B: PASSED}, {}, {}, {}, True),
        ({A: PASSED, B: FAILED}, {B: FAILED}, {}, {}, True),
        ({A: PASSED, B: SKIPPED}, {B: SKIPPED}, {}, {}, True),
        ({A: PASSED, B: FAILED}, {B: PASSED}, {B: FAILED}, {}, False),
        ({A: PASSED, B: SKIPPED}, {B: PASSED}, {B: SKIPPED}, {}, False),
        # A loaded machine.
        ({A: PASSED, B: FAILED}, {B: PASSED}, {B: PASSED}, {}, True),
        # A file that can't be imported on oneloop only has another name there.
        ({A: PASSED, "::tests.test_b": FAILED}, {B: PASSED}, {"::tests.test_b": FAILED}, {}, False),
        ({A: PASSED, B: FAILED}, {B: PASSED}, {}, {B: "reason"}, True),
        ({A: PASSED, B: PASSED}, {}, {}, {B: "reason"}, False),
        # A suite that does not run.
        ({}, {}, {}, {}, False),
        ({A: FAILED}, {A: FAILED}, {}, {}, False),
    ],
)
def test_verdicts(ours: Outcomes, stock: Outcomes, again: Outcomes, excused: dict[str, str], passes: bool) -> None:
    asked: list[tuple[str, ...]] = []

    def run_ours(files: tuple[str, ...]) -> Outcomes:
        return again if files else ours

    def run_stock(files: tuple[str, ...]) -> Outcomes:
        asked.append(files)
        return stock

    if passes:
        check(run_ours, run_stock, excused, least=1)
    else:
        with pytest.raises(AssertionError):
            check(run_ours, run_stock, excused, least=1)
    # The whole suite never runs on the original.
    assert () not in asked


def test_files() -> None:
    assert file_of("tests.streams.test_tls.TestTLSStream::test_x") == "tests/streams/test_tls.py"
    assert file_of("::tests.test_x") == "tests/test_x.py"
