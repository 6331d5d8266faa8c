"""Interleaving, rivals that fail or are missing, Ctrl-C."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise, permutations

import pytest

from bench import runner
from bench.model import Case, Result, RivalFailedError, RivalMissingError, Row, Sample, Settings
from bench.runner import count_measurements, run_cases

Measure = Callable[[str, Settings], Sample]


def make_case(measure: Measure, *rivals: str) -> Case:
    return Case("suite", "name", {}, "server_cpu_ns", "CPU", rivals, measure, baseline="b")


def nobody(case: Case, number: int, rival: str, row: Row) -> None:
    """Observes nothing."""


def test_rounds_are_interleaved() -> None:
    order: list[str] = []

    def measure(rival: str, settings: Settings) -> Sample:
        order.append(rival)
        return Sample({"server_cpu_ns": 1.0})

    results, _ = run_cases([make_case(measure, "a", "b", "c")], Settings(rounds=2), nobody, lambda result: None)
    assert results[0].rounds_done == 2
    assert order == [*"acb", *"cab"]


@pytest.mark.parametrize("count", range(1, 10))
def test_each_follows_each_other_one_equally_often(count: int) -> None:
    rounds = [runner.order(count, number) for number in range(count * (1 + count % 2))]
    assert all(sorted(one) == list(range(count)) for one in rounds)
    pairs = Counter(pair for one in rounds for pair in pairwise(one))
    assert set(pairs) == set(permutations(range(count), 2))
    assert len(set(pairs.values())) <= 1


def test_a_rival_that_is_measured_again_has_a_row_of_its_own() -> None:
    """The ratio of a rival to itself is the noise of the measurement."""
    order: list[str] = []

    def measure(rival: str, settings: Settings) -> Sample:
        order.append(rival)
        return Sample({"server_cpu_ns": 1.0})

    settings = Settings(rounds=3, again="a")
    cases = [make_case(measure, "a", "b"), make_case(measure, "b", "c")]
    results, _ = run_cases(cases, settings, nobody, lambda result: None)
    assert [[row.rival for row in result.rows] for result in results] == [["a", "b", "a (again)"], ["b", "c"]]
    rounds = [runner.round_order(["a", "b", "a (again)"], number) for number in range(3)]
    assert order == [*("aba"[index] for one in rounds for index in one), *"bccbbc"]
    assert count_measurements(cases, settings) == len(order)


@pytest.mark.parametrize("count", range(1, 16))
def test_half_of_a_round_lies_between_a_rival_and_itself(count: int) -> None:
    names = [*(chr(ord("a") + number) for number in range(count)), f"a{runner.AGAIN}"]
    for number in range(2 * count):
        found = runner.round_order(names, number)
        assert sorted(found) == list(range(count + 1))
        assert abs(found.index(0) - found.index(count)) >= max(1, count // 2)
        assert [index for index in found if index != count] == runner.order(count, number)


def test_a_rival_that_dies_in_a_later_round_keeps_its_row_and_the_run_goes_on() -> None:
    asked: list[str] = []

    def measure(rival: str, settings: Settings) -> Sample:
        asked.append(rival)
        if rival == "a" and asked.count("a") == 2:
            raise RivalFailedError("died: signal SIGSEGV")
        return Sample({"server_cpu_ns": 1.0})

    results, interrupted = run_cases([make_case(measure, "a", "b")], Settings(rounds=4), nobody, lambda result: None)
    dead, alive = results[0].rows
    assert not interrupted
    assert (dead.status, dead.reason) == ("failed", "died: signal SIGSEGV")
    assert asked.count("a") == 2
    # The second round has its place: rows are compared round by round.
    assert [sample is None for sample in dead.samples] == [False, True]
    assert (alive.status, len(alive.samples)) == ("ok", 4)


def test_a_missing_rival_is_named() -> None:
    def measure(rival: str, settings: Settings) -> Sample:
        raise RivalMissingError("rloop is not installed")

    results, _ = run_cases([make_case(measure, "rloop")], Settings(rounds=3), nobody, lambda result: None)
    row = results[0].rows[0]
    assert (row.status, row.reason) == ("missing", "rloop is not installed")


def test_a_fault_of_the_bench_does_not_end_the_run() -> None:
    def measure(rival: str, settings: Settings) -> Sample:
        if rival == "a":
            raise KeyError("latency_ns")
        return Sample({"server_cpu_ns": 1.0})

    results, _ = run_cases([make_case(measure, "a", "b")], Settings(rounds=1), nobody, lambda result: None)
    assert [row.status for row in results[0].rows] == ["failed", "ok"]
    assert results[0].rows[0].reason == "the bench itself failed: KeyError: 'latency_ns'"


@pytest.mark.parametrize("stops_at", [2, 3, 4])
def test_an_interrupt_keeps_what_is_finished(stops_at: int) -> None:
    asked: list[str] = []
    shown: list[Result] = []

    def measure(rival: str, settings: Settings) -> Sample:
        asked.append(rival)
        if len(asked) == stops_at:
            raise KeyboardInterrupt
        return Sample({"server_cpu_ns": 1.0})

    cases = [make_case(measure, "a", "b"), make_case(measure, "a", "b")]
    results, interrupted = run_cases(cases, Settings(rounds=1), nobody, shown.append)
    assert interrupted
    assert results == shown
    assert all(any(row.samples for row in result.rows) for result in results)
    samples = [sample for result in results for row in result.rows for sample in row.samples]
    assert len(samples) == stops_at - 1
