"""What a second task sees of a loop while something else runs on it: its turns, by processor time and by count.

Nothing here is measured on a clock on the wall, which other programs of the machine make late.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import statistics
from collections.abc import Awaitable, Callable
from time import process_time, thread_time
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


def compute(duration_s: float) -> None:
    """Work of the program, which nothing interrupts."""
    end_s = thread_time() + duration_s
    while thread_time() < end_s:
        pass


class HeldUpError(AssertionError):
    """The loop was held up for too long."""


def measured(test: Callable[P, Awaitable[None]]) -> Callable[P, Awaitable[None]]:
    """What holds up the loop does so each time; a busy machine, whose processor time is uneven, hardly three times."""

    @functools.wraps(test)
    async def run(*arguments: P.args, **named: P.kwargs) -> None:
        for _ in range(2):
            try:
                return await test(*arguments, **named)
            except HeldUpError as error:
                print(f"measured again: {error}")
        return await test(*arguments, **named)

    return run


class Turns:
    """A task that is always ready: between its turns the loop's thread computes for others, for so long each time."""

    def __init__(self) -> None:
        self.gaps_s: list[float] = []
        self.elapsed_s = 0.0
        self.process_s = 0.0
        """What all threads computed meanwhile, the loop's among them."""

    async def beside(self, awaitable: Awaitable[T]) -> T:
        """Await, and count the turns that another task has meanwhile."""
        taking = asyncio.ensure_future(self._take())
        await asyncio.sleep(0)
        # A collection of all that the tests before have left is none of the work.
        gc.disable()
        began_s, process_began_s = thread_time(), process_time()
        try:
            return await awaitable
        finally:
            gc.enable()
            self.elapsed_s = thread_time() - began_s
            self.process_s = process_time() - process_began_s
            self.gaps_s.append(thread_time() - self._last_s)
            taking.cancel()
            await asyncio.wait([taking])

    async def _take(self) -> None:
        self._last_s = thread_time()
        while True:
            await asyncio.sleep(0)
            now_s = thread_time()
            self.gaps_s.append(now_s - self._last_s)
            self._last_s = now_s

    def check(self, gap_s: float, typical_s: float) -> None:
        """At least a turn every `gap_s` on average; half of the time is in gaps shorter than `typical_s`."""
        least = int(self.elapsed_s / gap_s)
        if not (len(self.gaps_s) >= least):
            raise HeldUpError(str(self))
        if not (statistics.median(self.gaps_s) < typical_s):
            raise HeldUpError(str(self))
        # Many short gaps must not hide a few long ones: the gap that the middle of the elapsed time lies in.
        half_s = sum(self.gaps_s) / 2
        for gap in sorted(self.gaps_s):
            half_s -= gap
            if half_s <= 0:
                if not (gap < typical_s):
                    raise HeldUpError(f"{self}; half of the time was gaps of {gap * 1e3:.1f} ms and more")
                return

    def check_aside(self, worst_s: float, least_share: float) -> None:
        """The work is done aside: no gap is longer than `worst_s`, and the loop's thread could always go on.

        Its share of the processor time says so: where another thread holds the interpreter's lock, or the loop's
        thread waits in the kernel, it has none.
        """
        if not (max(self.gaps_s) < worst_s):
            raise HeldUpError(str(self))
        share = self.elapsed_s / self.process_s
        if not (share >= least_share):
            raise HeldUpError(f"{self}; that is {share:.0%} of what the process computed")

    def __str__(self) -> str:
        longest_ms = max(self.gaps_s) * 1e3
        return f"{len(self.gaps_s)} turns in {self.elapsed_s * 1e3:.0f} ms, the longest gap {longest_ms:.1f} ms"
