"""The files suite's program: linux_aio's experiment, cached reads, cold and direct block reads with the loop's lag."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from bench.rivals import endpoint, loops
from bench.rivals.file_readers import BLOCK, READERS, Reader
from bench.rivals.repeating import repeated, run_batches
from bench.rivals.report_line import hand_over
from bench.rivals.stopwatch import Stopwatch, deferred_cpu_ns

TICK_S = 0.001


class LagMeter:
    """A task that sleeps for a millisecond repeatedly and records how late it woke."""

    def __init__(self) -> None:
        self.late_ns: list[int] = []
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            due = time.perf_counter_ns() + int(TICK_S * 1e9)
            await asyncio.sleep(TICK_S)
            self.late_ns.append(time.perf_counter_ns() - due)

    def stop(self) -> dict[str, float]:
        """The 99th percentile and the maximum; negative values count as 0."""
        self._task.cancel()
        late = sorted(max(0, ns) for ns in self.late_ns) or [0]
        p99 = statistics.quantiles(late, n=100, method="inclusive")[98] if len(late) > 1 else late[0]
        return {"lag_p99_ns": p99, "lag_max_ns": float(late[-1])}


async def experiment(reader: Reader, paths: list[str], rounds: int) -> dict[str, float]:
    """linux_aio's experiment: reads all files every millisecond. Threads and memory are measured at its end.

    Most of its time is sleep, and most of its CPU time the loop's timers. The main figure is what the reads add: the
    CPU time less that of the same run without reads.
    """
    await reader.read_all(paths)
    lag = LagMeter()
    begin = time.process_time_ns()
    for _ in range(rounds):
        await asyncio.sleep(TICK_S)
    empty = time.process_time_ns() - begin
    lag.stop()
    lag = LagMeter()
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    for _ in range(rounds):
        await asyncio.sleep(TICK_S)
        await reader.read_all(paths)
    wall, used = time.perf_counter_ns() - begin, time.process_time_ns() - cpu
    figures = {"wall_ns": wall, "cpu_share": used / wall, **lag.stop()}
    used += await deferred_cpu_ns()
    return figures | {"cpu_ns_per_op": max(0.0, (used - empty) / rounds / len(paths))}


async def cached(reader: Reader, paths: list[str], rounds: int, least_s: float) -> dict[str, float]:
    """Reads one cached file after the other without pauses."""

    async def batch() -> int:
        for number in range(rounds):
            await reader.read_all([paths[number % len(paths)]])
        return rounds

    await reader.read_all(paths[:1])
    return await repeated(batch, least_s)


async def at_once(reader: Reader, paths: list[str], rounds: int, least_s: float) -> dict[str, float]:
    """Reads all cached files concurrently, repeatedly; result per file."""

    async def batch() -> int:
        for _ in range(rounds):
            await reader.read_all(paths)
        return rounds * len(paths)

    await reader.read_all(paths)
    return await repeated(batch, least_s)


async def with_lag(
    batch: Callable[[], Awaitable[int]], least_s: float, prepare: Callable[[], object]
) -> dict[str, float]:
    """`repeated`, and how late a timer was meanwhile."""
    watch, lag = Stopwatch(), LagMeter()
    await asyncio.sleep(0)
    done = await run_batches(batch, least_s, watch, prepare)
    late = lag.stop()
    watch.add(await deferred_cpu_ns())
    return {**watch.figures(done), **late}


def drop_from_cache(path: str) -> None:
    """Drops the file from the cache, so that the next read comes from the disk."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


async def sequential(reader: Reader, path: str, least_s: float) -> dict[str, float]:
    """Reads one large file from the disk, from start to end; result per MiB."""
    whole = Path(path).stat().st_size

    async def batch() -> int:
        size = await reader.read_on(path)
        if size != whole:
            raise SystemExit(f"read {size} bytes of {whole}")
        return size >> 20

    return await with_lag(batch, least_s, partial(drop_from_cache, path))


async def lines(reader: Reader, path: str, least_s: float) -> dict[str, float]:
    """Iterates over the lines of a cached text file; result per line."""
    return await repeated(lambda: reader.read_lines(path), least_s)


async def copying(reader: Reader, path: str, least_s: float) -> dict[str, float]:
    """Copies a cached file; result per MiB."""
    target, whole = Path(path + ".copy"), Path(path).stat().st_size

    async def batch() -> int:
        await reader.copy(path, str(target))
        return whole >> 20

    def remove() -> None:
        if target.exists():
            size = target.stat().st_size
            target.unlink()
            if size != whole:
                raise SystemExit(f"copied {size} bytes of {whole}")

    remove()
    figures = await with_lag(batch, least_s, remove)
    remove()
    return figures


async def blocks(reader: Reader, path: str, rounds: int, least_s: float, direct: bool) -> dict[str, float]:
    """Random 4 KiB reads of one large file from the disk: dropped from the cache before, or with O_DIRECT."""
    numbers, randomly = range(Path(path).stat().st_size // BLOCK), random.Random(1)
    offsets: list[int] = []

    def prepare() -> None:
        offsets[:] = [number * BLOCK for number in randomly.sample(numbers, rounds)]
        drop_from_cache(path)

    async def batch() -> int:
        got = await reader.read_blocks(path, offsets, direct)
        if got != rounds * BLOCK:
            raise SystemExit(f"read {got} bytes instead of {rounds * BLOCK}")
        return rounds

    return await with_lag(batch, least_s, prepare)


async def main(options: argparse.Namespace) -> None:
    reader, work, paths, least_s = READERS[options.rival](), options.work, options.paths, options.seconds
    if work == "experiment":
        figures = await experiment(reader, paths, options.rounds)
    elif work == "cached":
        figures = await cached(reader, paths, options.rounds, least_s)
    elif work == "at-once":
        figures = await at_once(reader, paths, options.rounds, least_s)
    elif work == "sequential":
        figures = await sequential(reader, paths[0], least_s)
    elif work == "lines":
        figures = await lines(reader, paths[0], least_s)
    elif work == "copy":
        figures = await copying(reader, paths[0], least_s)
    else:
        figures = await blocks(reader, paths[0], options.rounds, least_s, work == "direct")
    # While the threads of an executor still exist.
    hand_over(figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rival", required=True)
    parser.add_argument("--loop", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.0, help="the work is repeated for at least this long")
    parser.add_argument("paths", nargs="+")
    asked = parser.parse_args()
    endpoint.grow_heap()
    loops.run(main(asked), asked.loop)
