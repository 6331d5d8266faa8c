"""Programs that repeat a batch: until the window is long enough, and with what is left to do behind the last one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import oneloop
from bench.rivals.repeating import repeated, repeated_blocking
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
