"""The records, their tests and the page agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reports.page import PAGE, page
from tests.reports.record import AREAS, FOLDER, ROOT, Report, functions, reports

HERE = Path(__file__).parent


def test_every_file_of_records_is_read() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(AREAS)


@pytest.mark.parametrize("report", reports(), ids=lambda report: report.name)
def test_a_record_has_a_test(report: Report) -> None:
    for test in report.tests:
        path, _, function = test.partition("::")
        assert function in functions(path), test


def test_a_test_has_a_record() -> None:
    told = {test for report in reports() for test in report.tests}
    for path in HERE.glob("test_*.py"):
        if path.name != Path(__file__).name:
            name = path.relative_to(ROOT).as_posix()
            assert {f"{name}::{function}" for function in functions(name)} <= told


def test_no_report_is_there_twice() -> None:
    names = [report.name for report in reports()]
    assert len(set(names)) == len(names)
    sources = [source for report in reports() for source in report.sources]
    assert len(set(sources)) == len(sources), sorted(source for source in sources if sources.count(source) > 1)


def test_the_page_is_what_the_records_give() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.reports"
