"""Two workers against one: what the rows are made of."""

from __future__ import annotations

import pytest

from bench import measure
from bench.catalogue import SUBJECT
from bench.model import Case, RivalMissingError, Settings
from bench.suites import http_workers
from bench.suites.options import Options

CASES = http_workers.cases(Options())


@pytest.mark.parametrize("rival", http_workers.RIVALS)
@pytest.mark.parametrize("case", CASES, ids=http_workers.ROWS)
def test_two_workers_are_measured_after_one(case: Case, rival: str, short: Settings) -> None:
    try:
        found = case.measure(rival, short).metrics
    except RivalMissingError as missing:
        pytest.skip(str(missing))
    assert found["one_worker_ns"] > 0
    assert found["server_cpu_ns"] > 0
    # The parent and two workers; uvicorn has one process more, which tracks its resources.
    assert found["processes"] >= 3
    assert found["busiest_share"] >= found["idlest_share"]


def test_the_target_is_a_multiple_of_our_own_worker() -> None:
    for case in CASES:
        assert case.rivals[0] == SUBJECT
        assert "one_worker_ns" in case.also


def usage(*processes: tuple[int, int, int]) -> measure.Usage:
    spent = {pid: (ns, switches) for pid, ns, switches in processes}
    return measure.Usage(0, 0, 0, 0, 0, 0, 0, 0, len(spent), spent)


def test_the_work_of_a_window_is_divided_by_process() -> None:
    before = usage((10, 500, 9), (11, 100, 1), (12, 200, 2))
    after = usage((10, 700, 11), (11, 400, 11), (12, 300, 12), (13, 9_999, 99))
    found = measure.worker_metrics(before, after, messages=10)
    assert found == {"parent_cpu_ns": 20, "busiest_share": 0.75, "idlest_share": 0.25, "wakeups": 2}


def test_workers_that_did_nothing_have_no_share() -> None:
    still = usage((10, 5, 5), (11, 5, 5))
    assert measure.worker_metrics(still, still, messages=1) == {
        "parent_cpu_ns": 0,
        "busiest_share": 0,
        "idlest_share": 0,
        "wakeups": 0,
    }
