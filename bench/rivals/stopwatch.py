"""A stopwatch for programs that measure their own work: wall time and this process's CPU time.

`stop_at_rest` ends a window only when the loop has nothing left to do: what a loop puts off until after the work
(freeing memory, closing descriptors) belongs to the cost of the work. The criterion is the same for every loop and
needs no help from it: while a program only sleeps, its CPU time per period stays the same.
"""

from __future__ import annotations

import asyncio
import time

#: How long the program sleeps between two looks at its CPU time.
PERIOD_S = 0.01
#: Two periods that differ by less count as equal: about the noise of a timer.
SAME_NS = 100_000
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
        put_off_ns = await deferred_cpu_ns()
        self.cpu_ns += put_off_ns
        self.wall_ns += put_off_ns

    def figures(self, count: int) -> dict[str, float]:
        """Per operation."""
        return {
            "ns_per_op": self.wall_ns / count,
            "cpu_ns_per_op": self.cpu_ns / count,
            "ops": float(count),
        }


async def deferred_cpu_ns() -> int:
    """Sleeps until the loop rests. Returns the CPU time that this took beyond the cost of the sleeps."""
    periods = [await _period()]
    while len(periods) < MOST_PERIODS:
        periods.append(await _period())
        if periods[-2] - periods[-1] < SAME_NS:
            break
    at_rest = min(periods[-2:])
    return sum(used - at_rest for used in periods if used - at_rest >= SAME_NS)


async def _period() -> int:
    used = time.process_time_ns()
    await asyncio.sleep(PERIOD_S)
    return time.process_time_ns() - used
