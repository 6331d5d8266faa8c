"""The tables of the documents: which rival is the best one, which rows oneloop does not lead, the noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.model import Case, Result, Row, Sample, Settings
from bench.report import page
from bench.report.document import Document, document, save


def unmeasured(rival: str, settings: Settings) -> Sample:
    raise AssertionError("the rows are given")


def run_of(rows: dict[str, tuple[float | None, ...]], failed: tuple[str, ...] = ()) -> Document:
    """A run of one case: the main figure of each rival in each round."""
    made = [
        Row(
            rival,
            "failed" if rival in failed else "ok",
            "died" if rival in failed else "",
            [None if value is None else Sample({"server_cpu_ns": value}) for value in values],
        )
        for rival, values in rows.items()
    ]
    case = Case("tcp", "1 KiB", {}, "server_cpu_ns", "CPU per message", [*rows], unmeasured)
    return document([Result(case, made, 3)], Settings(), "bench", {"cpu": "some"}, {"python": "3.13"})


ROUNDS: dict[str, tuple[float | None, ...]] = {
    "floor": (1000, 1000, 1000),
    "uvloop": (5000, 6000, 7000),
    "curio": (4000, 4000, 8000),
    "uvloop-again": (10, 10, 10),
    "aiohttp on oneloop": (10, 10, 10),
    "oneloop": (4400, 4600, 4500),
    "oneloop (again)": (2200, 4600, 9000),
}


def test_the_best_rival_is_the_one_with_the_highest_ratio() -> None:
    (line,) = page.lines(run_of(ROUNDS)["cases"][0])
    assert (line.best, line.floor, line.figure) == ("4.00 µs curio", "1.00 µs", "4.50 µs")
    # The median of the ratios within the rounds (1.1, 1.15, 0.5625), not the ratio of the medians (1.125).
    assert line.ratio is not None
    assert line.ratio["median"] == pytest.approx(1.1)
    assert line.noise is not None
    assert (line.noise["low"], line.noise["median"], line.noise["high"]) == (0.5, 1.0, 2.0)
    assert not line.leads


def test_a_rival_whose_median_is_higher_may_be_the_best() -> None:
    """A rival with one good round has the lowest median of two, and is not better in any other."""
    rounds: dict[str, tuple[float | None, ...]] = {
        "oneloop": (1.0, 10.0, 10.0, 10.0),
        "curio": (2.0, 9.0, 12.0, 12.0),
        "rloop": (0.9, 9.9, 9.9, 30.0),
        "trio": (None, 1.0, None, None),
    }
    (line,) = page.lines(run_of(rounds)["cases"][0])
    assert line.best.endswith("trio")
    del rounds["trio"]
    (line,) = page.lines(run_of(rounds)["cases"][0])
    # Of rloop: 1.11, 1.01, 1.01, 0.33; of curio: 0.5, 1.11, 0.83, 0.83.
    assert line.best.endswith("rloop")
    assert not line.leads


@pytest.mark.parametrize(("rival", "leads"), [(1000.0, False), (1004.0, False), (1006.0, True), (990.0, False)])
def test_a_ratio_that_is_printed_as_one_is_no_lead(rival: float, leads: bool) -> None:
    (line,) = page.lines(run_of({"oneloop": (1000.0, 1000.0), "rloop": (rival, rival)})["cases"][0])
    assert line.leads is leads


def test_who_was_behind_in_one_round_does_not_lead() -> None:
    rounds: dict[str, tuple[float | None, ...]] = {"oneloop": (1.0, 1.0, 3.0), "rloop": (2.0, 2.0, 2.0)}
    (line,) = page.lines(run_of(rounds)["cases"][0])
    assert line.ratio is not None
    assert line.ratio["median"] == 0.5
    assert not line.leads


@pytest.mark.parametrize(("ours", "leads"), [(0.0, False), (1.0, False)])
def test_a_rival_that_needs_nothing_is_the_best(ours: float, leads: bool) -> None:
    rounds: dict[str, tuple[float | None, ...]] = {"oneloop": (ours, ours), "granian": (0.0, 0.0), "rloop": (9.0, 9.0)}
    (line,) = page.lines(run_of(rounds)["cases"][0])
    assert (line.best, line.ratio, line.leads) == ("0.00 ns granian", None, leads)


def test_the_same_program_on_two_loops() -> None:
    rounds: dict[str, tuple[float | None, ...]] = {
        "oneloop": (1.0, 1.0),
        "uvloop": (1.0, 1.0),
        "aiohttp on uvloop": (100.0, 200.0),
        "aiohttp on oneloop": (50.0, 100.0),
        "green on oneloop": (1.0, 1.0),
    }
    table = page.exchanged_table(page.exchanged_loops(run_of(rounds)["cases"][0]))
    assert table.splitlines()[2:] == ["| tcp | 1 KiB | aiohttp | 75.0 ns | 150 ns | 0.50 ±0.00 |"]


def test_a_rival_that_failed_is_no_best_rival() -> None:
    (line,) = page.lines(run_of(ROUNDS, failed=("curio",))["cases"][0])
    assert line.best == "6.00 µs uvloop"
    assert line.leads
    (alone,) = page.lines(run_of({"oneloop": (1.0, 1.0)})["cases"][0])
    assert (alone.best, alone.ratio, alone.leads) == ("–", None, True)


def test_each_way_of_oneloop_has_a_row() -> None:
    rows: dict[str, tuple[float | None, ...]] = {
        "threads on oneloop": (3.0, 3.0),
        "green on oneloop": (1.0, None),
        "granian": (2.0, 2.0),
    }
    every, behind = page.tables([run_of(rows)])
    assert "1 KiB (threads on oneloop) | 3.00 ns | 2.00 ns granian | 1.50 ±0.00" in every
    assert "1 KiB (green on oneloop) | 1.00 ns | 2.00 ns granian | 0.50 ±0.00" in every
    assert "threads on oneloop" in behind
    assert "green on oneloop" not in behind


def test_the_command_prints_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(run_of(ROUNDS), tmp_path / "run.json")
    assert page.main([str(tmp_path / "run.json")]) == 0
    assert "| tcp | 1 KiB | 4.50 µs | 4.00 µs curio | 1.10 ±0.29 |" in capsys.readouterr().out
    assert page.main([]) == 2
