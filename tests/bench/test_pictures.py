"""The charts of the documents, from cases with known figures."""

from __future__ import annotations

from bench.record import plan, store
from bench.report import pictures
from bench.report.document import CaseData
from tests.bench.test_record import make_case, make_result


def case_data() -> CaseData:
    return store.read_case("tcp", store.case_part(make_result(make_case("1 KiB, 10 connections"))))


def test_every_row_with_a_ratio_is_in_the_chart() -> None:
    drawn = pictures.pictures([case_data()])["benchmarks-ratios.svg"]
    assert drawn.count("<circle") == 2, "the main figure and p99"
    assert "tcp: 1 KiB, 10 connections" in drawn
    assert "0.95 ±0.20" in drawn


def test_the_costs_are_those_of_the_rows() -> None:
    bars = {bar.label: bar for bar in pictures.bars(case_data())}
    assert list(bars) == ["floor", "oneloop", "rloop", "uvloop"]
    assert bars["oneloop"].text == "4.53 µs (×0.90)"
    assert bars["oneloop"].kind == "ours"
    drawn = pictures.pictures([case_data()])["benchmarks-costs.svg"]
    assert "4.53 µs" in drawn
    assert "curio" not in drawn


def test_without_ratios_there_are_no_charts() -> None:
    assert pictures.pictures([]) == {}


def test_the_shown_rows_are_measured() -> None:
    names = {f"{suite}: {case.name}" for suite in plan.RECORDED for case in plan.cases(suite)}
    assert set(pictures.SHOWN) <= names
