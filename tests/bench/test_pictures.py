"""The charts of the documents: they fit the tables, and the tables are read as they are written."""

from __future__ import annotations

import re

import pytest

from bench.report import pictures


@pytest.mark.parametrize("name", pictures.pictures())
def test_charts_fit_the_tables(name: str) -> None:
    drawn = (pictures.FOLDER / name).read_text(encoding="utf-8")
    assert drawn == pictures.pictures()[name], "run `python -m bench.report.pictures`"


def test_every_row_with_a_ratio_is_in_the_chart() -> None:
    page = (pictures.ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    table = page.partition("## All rows")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if re.search(r"\| [\d.][^|]* \| [^|]* \| [A-D] \|$", line)]
    assert len(pictures.ratios(page)) == len(lines) > 50


def test_ratios_are_read_with_their_ranges() -> None:
    page = (
        "## All rows\n\n"
        "| suite | row | oneloop | best rival | ratio | floor | run |\n"
        "|---|---|---:|---:|---:|---:|---|\n"
        "| tls | `a` | 1 | 2 Go | 0.96; 0.79 | – | C |\n"
        "| green | b | 1 | gevent | 0.28–0.43 | – | C |\n"
        "| reading | c | 1 | – | – | – | C |\n"
    )
    found = [(row.suite, row.row, row.spans) for row in pictures.ratios(page)]
    assert found == [("tls", "a", [(0.96, 0.96), (0.79, 0.79)]), ("green", "b", [(0.28, 0.43)])]


def test_costs_are_read_in_nanoseconds() -> None:
    page = (pictures.ROOT / "docs/benchmarks-raw.md").read_text(encoding="utf-8")
    bars = {bar.label: bar for bar in pictures.cases(page)["tcp: 1 KiB, 10 connections"]}
    assert list(bars) == ["floor", "oneloop", "rloop", "uvloop", "asyncio"]
    assert bars["oneloop"].value == pytest.approx(4390)
    assert bars["oneloop"].text == "4.39 µs (×0.93)"
    assert bars["oneloop"].kind == "ours"


def test_a_missing_row_is_an_error() -> None:
    with pytest.raises(ValueError, match="run A has no rows"):
        pictures.cases("## Run A\n")
