"""What a second task sees of a loop while something else runs on it: its turns, and how late its timers are."""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Awaitable
from time import perf_counter
from typing import Any, Self, TypeVar

T = TypeVar("T")


def compute(duration_s: float) -> None:
    """Work of the program, which nothing interrupts."""
    end_s = perf_counter() + duration_s
    while perf_counter() < end_s:
        pass


def crowd() -> float:
    """By how much others on the machine may make all late: twice what wants to run on each processor, at least 1."""
    return max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))


class Turns:
    """A task that is always ready: the time between its turns is what it waits for others."""

    def __init__(self) -> None:
        self.gaps_s: list[float] = []
        self.elapsed_s = 0.0

    async def beside(self, awaitable: Awaitable[T]) -> T:
        """Await, and count the turns that another task has meanwhile."""
        taking = asyncio.ensure_future(self._take())
        await asyncio.sleep(0)
        began_s = perf_counter()
        try:
            return await awaitable
        finally:
            self.elapsed_s = perf_counter() - began_s
            self.gaps_s.append(perf_counter() - self._last_s)
            taking.cancel()
            await asyncio.wait([taking])

    async def _take(self) -> None:
        self._last_s = perf_counter()
        while True:
            await asyncio.sleep(0)
            now_s = perf_counter()
            self.gaps_s.append(now_s - self._last_s)
            self._last_s = now_s

    def check(self, gap_s: float, typical_s: float) -> None:
        """At least a turn every `gap_s` on average; half of the time is in gaps shorter than `typical_s`."""
        gap_s, typical_s = gap_s * crowd(), typical_s * crowd()
        least = int(self.elapsed_s / gap_s)
        longest_ms = max(self.gaps_s) * 1e3
        said = f"{len(self.gaps_s)} turns in {self.elapsed_s * 1e3:.0f} ms, the longest wait {longest_ms:.1f} ms"
        assert len(self.gaps_s) >= least, said
        assert statistics.median(self.gaps_s) < typical_s, said
        # Many short gaps must not hide a few long ones: the wait that the middle of the elapsed time lies in.
        half_s = sum(self.gaps_s) / 2
        for gap in sorted(self.gaps_s):
            half_s -= gap
            if half_s <= 0:
                assert gap < typical_s, f"{said}; half of the time was waits of {gap * 1e3:.1f} ms and more"
                return


class Timer:
    """A task that sleeps for 1 ms at a time: how late each of these ends."""

    TICK_S = 0.001

    def __init__(self) -> None:
        self.late_s: list[float] = []
        self.elapsed_s = 0.0

    async def _tick(self) -> None:
        while True:
            due_s = perf_counter() + self.TICK_S
            try:
                await asyncio.sleep(self.TICK_S)
            finally:
                # The last one is ended early, but counts if it was late.
                self.late_s.append(perf_counter() - due_s)

    async def __aenter__(self) -> Self:
        self._began_s = perf_counter()
        self._ticking = asyncio.ensure_future(self._tick())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_exc: Any) -> None:
        self.elapsed_s = perf_counter() - self._began_s
        self._ticking.cancel()
        await asyncio.wait([self._ticking])

    @property
    def worst_s(self) -> float:
        return max(self.late_s)

    def check(self, mostly_s: float, worst_s: float) -> None:
        """Nine of ten are less late than `mostly_s`, all less than `worst_s`."""
        mostly_s, worst_s = mostly_s * crowd(), worst_s * crowd()
        late_s = sorted(self.late_s)
        mostly = late_s[len(late_s) * 9 // 10]
        said = f"late by {late_s[-1] * 1e3:.1f} ms, 90 % by less than {mostly * 1e3:.1f} ms"
        assert mostly < mostly_s, said
        assert late_s[-1] < worst_s, said
