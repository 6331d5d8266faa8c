"""Windows that end when nothing is left to do: of servers, and of programs that measure themselves."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

import pytest

import oneloop
from bench import measure
from bench.process import Program
from bench.rivals import timer_primitives
from bench.rivals.primitives import timed
from bench.rivals.stopwatch import Stopwatch, deferred_cpu_ns
from bench.rivals.timer_primitives import LEFT, Marks

WORK_S = 0.05


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_work_that_is_put_off_is_added() -> None:
    async def main() -> tuple[int, Stopwatch]:
        loop = asyncio.get_running_loop()
        loop.call_later(0.001, burn, WORK_S)
        found = await deferred_cpu_ns()
        watch = Stopwatch()
        watch.start()
        loop.call_later(0.001, burn, WORK_S)
        await watch.stop_at_rest()
        return found, watch

    found, watch = asyncio.run(main())
    assert found >= WORK_S * 0.9e9
    assert watch.cpu_ns >= WORK_S * 0.9e9


def test_a_window_can_end_at_an_earlier_moment() -> None:
    watch = Stopwatch()
    watch.start()
    lap = watch.lap()
    burn(0.01)
    watch.stop_at(lap)
    assert watch.cpu_ns < 5e6
    assert watch.figures(10)["ops"] == 10


def test_operations_are_repeated_until_the_window_is_long_enough() -> None:
    async def operation(loop: Any, count: int, watch: Stopwatch) -> int:
        watch.start()
        burn(0.005)
        watch.stop()
        return count

    async def main() -> dict[str, float]:
        figures, notes = await timed(operation, 10, 0.05)
        assert notes == []
        return figures

    assert asyncio.run(main())["ops"] >= 20


@pytest.mark.parametrize("make", [asyncio.new_event_loop, oneloop.new_event_loop])
def test_marks_count_what_a_loop_still_holds(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_primitives, "PENDING", 1000)

    async def main() -> Stopwatch:
        loop = asyncio.get_running_loop()
        marks = Marks(loop)
        timers = [marks.timer(3600) for _ in range(1000)]
        assert marks.held() == 1000
        for timer in timers:
            timer.cancel()
        timers.clear()
        del timer
        await asyncio.sleep(0.02)
        assert marks.held() <= LEFT
        watch = Stopwatch()
        assert await timer_primitives.cancel(loop, 1000, watch) == 1000
        return watch

    with asyncio.Runner(loop_factory=make) as runner:
        watch = runner.run(main())
    assert watch.cpu_ns > 0
    assert watch.notes == []


def test_a_loop_that_keeps_cancelled_timers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_primitives, "PENDING", 1000)
    kept: list[asyncio.TimerHandle] = []

    class Hoarder(asyncio.SelectorEventLoop):
        def call_later(self, *args: Any, **options: Any) -> Any:  # type: ignore[override]
            kept.append(super().call_later(*args, **options))
            return kept[-1]

    async def main() -> Stopwatch:
        watch = Stopwatch()
        await timer_primitives.cancel(asyncio.get_running_loop(), 1000, watch)
        return watch

    with asyncio.Runner(loop_factory=Hoarder) as runner:
        watch = runner.run(main())
    assert watch.notes == ["keeps 1,000 of 1,000 cancelled timers until their deadline"]
    # The time of waiting for it does not count.
    assert watch.wall_ns < timer_primitives.STALLED_S * 1e9 / 2


def test_a_tree_is_read_when_it_rests() -> None:
    busy = (
        "import time",
        "print('ready', flush=True)",
        "end = time.process_time() + 0.06",
        "while time.process_time() < end: pass",
        "time.sleep(60)",
    )
    with Program([sys.executable, "-c", "\n".join(busy)], None) as program:
        assert program.read_line(60) == "ready"
        found = measure.usage_at_rest(program.pid, patience_s=60.0)
        later = measure.read_usage(program.pid)
    assert later.cpu_ns - found.cpu_ns < 5e6
    assert found.cpu_ns >= 0.06e9


def test_a_tree_that_never_rests_is_read_all_the_same() -> None:
    with Program([sys.executable, "-c", "print('ready', flush=True)\nwhile True: pass"], None) as program:
        assert program.read_line(60) == "ready"
        began = time.monotonic()
        assert measure.usage_at_rest(program.pid).cpu_ns > 0
        assert time.monotonic() - began < 60
    assert measure.tree_cpu_ns(2**22 + os.getpid()) == 0
