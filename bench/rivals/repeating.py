"""Repeating the work of a program that measures itself, until its window is long enough and nothing is left to do.

A batch is a function that does some operations and returns their number. What has to be done between two batches, such
as dropping a file from the kernel's cache, is done by `prepare`, outside of the window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bench.rivals.stopwatch import Stopwatch, deferred_blocking_ns, deferred_cpu_ns


async def run_batches(
    batch: Callable[[], Awaitable[int]],
    least_s: float,
    watch: Stopwatch,
    prepare: Callable[[], object] | None = None,
) -> int:
    """Runs batches, at least one, until they took `least_s` together. Returns the number of operations."""
    done = 0
    while not done or watch.wall_ns < least_s * 1e9:
        if prepare is not None:
            prepare()
        watch.start()
        done += await batch()
        watch.stop()
    return done


async def repeated(
    batch: Callable[[], Awaitable[int]],
    least_s: float,
    prepare: Callable[[], object] | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> dict[str, float]:
    """Figures per operation, including what the loop has put off until after the last batch.

    Args:
        batch: does operations, and returns their number.
        least_s: how long the batches take together, at least, in seconds.
        prepare: called before each batch.
        sleep: of the loop that runs this.
    """
    watch = Stopwatch()
    done = await run_batches(batch, least_s, watch, prepare)
    watch.add(await deferred_cpu_ns(sleep))
    return watch.figures(done)


def run_blocking(batch: Callable[[], int], least_s: float, watch: Stopwatch) -> int:
    """`run_batches` for blocking calls."""
    done = 0
    while not done or watch.wall_ns < least_s * 1e9:
        watch.start()
        done += batch()
        watch.stop()
    return done


def repeated_blocking(
    batch: Callable[[], int], least_s: float, sleep: Callable[[float], object] | None = None
) -> dict[str, float]:
    """`repeated` for blocking calls. `sleep` is that of the green threads, if other ones may have work left."""
    watch = Stopwatch()
    done = run_blocking(batch, least_s, watch)
    if sleep is not None:
        watch.add(deferred_blocking_ns(sleep))
    return watch.figures(done)
