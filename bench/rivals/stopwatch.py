"""A stopwatch for programs that measure their own work: wall time and this process's CPU time.

`stop_at_rest` ends a window only when the loop has nothing left to do: what a loop puts off until after the work
(freeing memory, closing descriptors) belongs to the cost of the work. The criterion is the same for every loop and
needs no help from it: while a program only sleeps, its CPU time per period stays the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

#: How long the program sleeps between two looks at its CPU time.
PERIOD_S = 0.01
#: Two periods that differ by less count as equal: about the noise of a timer.
SAME_NS = 100_000
#: A program that only sleeps uses less of a period: a tenth of it.
RESTING_NS = 1_000_000
MOST_PERIODS = 50


class Stopwatch:
    """Sums wall time and this process's CPU time between start and stop."""

    def __init__(self) -> None:
        self.wall_ns = self.cpu_ns = 0
        #: What a reader of the figures has to know.
        self.notes: list[str] = []

    def start(self) -> None:
        self._cpu, self._wall = time.process_time_ns(), time.perf_counter_ns()

    def lap(self) -> tuple[int, int]:
        """Wall and CPU nanoseconds since the start, for `stop_at`."""
        return time.perf_counter_ns() - self._wall, time.process_time_ns() - self._cpu

    def stop(self) -> None:
        self.stop_at(self.lap())

    def stop_at(self, lap: tuple[int, int]) -> None:
        """Ends the window at an earlier moment."""
        self.wall_ns += lap[0]
        self.cpu_ns += lap[1]

    async def stop_at_rest(self) -> None:
        """Stops, and adds the CPU time of the work that the loop has put off, to the wall time too."""
        self.stop()
        self.add(await deferred_cpu_ns())

    def add(self, put_off_ns: int) -> None:
        """Adds work that was done behind the window."""
        self.cpu_ns += put_off_ns
        self.wall_ns += put_off_ns

    def figures(self, count: int) -> dict[str, float]:
        """Per operation."""
        return {
            "ns_per_op": self.wall_ns / count,
            "cpu_ns_per_op": self.cpu_ns / count,
            "ops": float(count),
        }


async def deferred_cpu_ns(sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> int:
    """Sleeps until the loop rests. Returns the CPU time that this took beyond the cost of the sleeps."""
    periods: list[int] = []
    while not _is_at_rest(periods):
        used = time.process_time_ns()
        await sleep(PERIOD_S)
        periods.append(time.process_time_ns() - used)
    return _put_off_ns(periods)


def deferred_blocking_ns(sleep: Callable[[float], object]) -> int:
    """The same for green threads, whose `sleep` lets the others run."""
    periods: list[int] = []
    while not _is_at_rest(periods):
        used = time.process_time_ns()
        sleep(PERIOD_S)
        periods.append(time.process_time_ns() - used)
    return _put_off_ns(periods)


def _is_at_rest(periods: Sequence[int]) -> bool:
    if len(periods) < 2:
        return False
    before, last = periods[-2:]
    return len(periods) >= MOST_PERIODS or (abs(before - last) < SAME_NS and last < RESTING_NS)


def _put_off_ns(periods: Sequence[int]) -> int:
    at_rest = min(periods[-2:])
    return sum(used - at_rest for used in periods if used - at_rest >= SAME_NS)
