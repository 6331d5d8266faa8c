"""Programs that repeat a batch: until the window is long enough, and with what is left to do behind the last one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

import oneloop
from bench.rivals import stopwatch
from bench.rivals.repeating import repeated, repeated_blocking
from bench.rivals.stopwatch import MOST_PERIODS
from tests.bench.test_rest import burn

BATCH_S = 0.02
COUNT = 5


async def figures_of(batch: Callable[[], int], least_s: float, prepare: Callable[[], object]) -> dict[str, float]:
    async def awaited() -> int:
        return batch()

    return await repeated(awaited, least_s, prepare)


def test_batches_are_repeated_until_the_window_is_long_enough() -> None:
    prepared = 0

    def prepare() -> None:
        nonlocal prepared
        prepared += 1
        # As long as ten batches: outside of the window.
        burn(10 * BATCH_S)

    def batch() -> int:
        end = time.perf_counter() + BATCH_S
        while time.perf_counter() < end:
            pass
        return COUNT

    figures = asyncio.run(figures_of(batch, 2.5 * BATCH_S, prepare))
    assert 1 <= prepared <= 3
    assert figures["ops"] == prepared * COUNT
    assert figures["ns_per_op"] * figures["ops"] >= 2.5 * BATCH_S * 1e9
    assert figures["cpu_ns_per_op"] * figures["ops"] < 10 * BATCH_S * 1e9
    assert repeated_blocking(batch, 0.0)["ops"] == COUNT


def test_what_is_put_off_belongs_to_the_figures() -> None:
    async def batch() -> int:
        asyncio.get_running_loop().call_later(0.001, burn, BATCH_S)
        return 1

    def blocking() -> int:
        left.append(BATCH_S)
        return 1

    def sleep(seconds: float) -> None:
        """As of green threads: the others run."""
        while left:
            burn(left.pop())
        time.sleep(seconds)

    left: list[float] = []
    for run in (asyncio.run, oneloop.run):
        figures = run(repeated(batch, 0.0))
        assert figures["cpu_ns_per_op"] >= BATCH_S * 0.9e9
        assert figures["ns_per_op"] >= BATCH_S * 0.9e9
    assert repeated_blocking(blocking, 0.0, sleep)["cpu_ns_per_op"] >= BATCH_S * 0.9e9
    left.clear()
    assert repeated_blocking(blocking, 0.0)["cpu_ns_per_op"] < BATCH_S * 0.9e9


class Clock:
    """Takes the place of `time` in the stopwatch: time passes only when work or a sleep says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_ns = self.cpu_ns = 0
        self.slept = 0
        monkeypatch.setattr(stopwatch, "time", self)

    def perf_counter_ns(self) -> int:
        return self.wall_ns

    def process_time_ns(self) -> int:
        return self.cpu_ns

    def work(self, ns: int) -> None:
        self.wall_ns += ns
        self.cpu_ns += ns

    def sleeper(self, costs_ns: list[int]) -> Callable[[float], None]:
        """A `sleep` in each of whose calls the process uses so much CPU time."""
        left = iter(costs_ns)

        def sleep(seconds: float) -> None:
            self.slept += 1
            self.wall_ns += round(seconds * 1e9)
            self.cpu_ns += next(left)

        return sleep


MS = 1_000_000


def test_blocking_batches_are_repeated_until_the_window_is_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    def batch() -> int:
        clock.work(MS)
        return COUNT

    figures = repeated_blocking(batch, 0.0025)
    assert figures == {"ns_per_op": MS / COUNT, "cpu_ns_per_op": MS / COUNT, "ops": 3 * COUNT}


def test_the_work_of_all_batches_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    async def batch() -> int:
        clock.work(MS)
        return COUNT

    async def sleep(seconds: float) -> None:
        """Of the loop that is measured."""
        sleeper(seconds)

    sleeper = clock.sleeper([7 * MS, 0, 0])
    figures = asyncio.run(repeated(batch, 0.0025, lambda: clock.work(100 * MS), sleep))
    each = (3 + 7) * MS / (3 * COUNT)
    assert figures == {"ns_per_op": each, "cpu_ns_per_op": each, "ops": 3 * COUNT}
    assert clock.slept == 3


@pytest.mark.parametrize(
    ("costs_ns", "put_off_ns"),
    [
        ([60_000, 10_000], 0),
        ([5 * MS, 10_000, 60_000], 5 * MS - 10_000),
        ([5 * MS, 3 * MS, 0, 0], 8 * MS),
        # It begins late.
        ([0, 5 * MS, 0, 0], 5 * MS),
        ([0, MS // 2, 3 * MS, 0, 0], 3 * MS + MS // 2),
        ([8 * MS, 8 * MS, 8 * MS, 0, 0], 24 * MS),
        # It never rests.
        ([MS * left for left in range(100, 100 - MOST_PERIODS, -1)], sum(range(1, MOST_PERIODS)) * MS),
    ],
    ids=["noise", "work and noise", "two periods", "late", "slowly", "as much in each period", "no end"],
)
def test_what_counts_as_put_off(monkeypatch: pytest.MonkeyPatch, costs_ns: list[int], put_off_ns: int) -> None:
    clock = Clock(monkeypatch)
    assert stopwatch.deferred_blocking_ns(clock.sleeper(costs_ns)) == put_off_ns
    assert clock.slept == len(costs_ns)
