"""The files suite's program: linux_aio's experiment, cached reads, cold and direct block reads with the loop's lag."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import time
from pathlib import Path

from bench.rivals import endpoint, loops
from bench.rivals.file_readers import BLOCK, READERS, Reader
from bench.rivals.report_line import hand_over

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
    return figures | {"cpu_ns_per_op": max(0.0, (used - empty) / rounds / len(paths))}


async def cached(reader: Reader, paths: list[str], rounds: int) -> dict[str, float]:
    """Reads one cached file after the other without pauses."""
    await reader.read_all(paths[:1])
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    for number in range(rounds):
        await reader.read_all([paths[number % len(paths)]])
    wall, used = time.perf_counter_ns() - begin, time.process_time_ns() - cpu
    return {"ns_per_op": wall / rounds, "cpu_ns_per_op": used / rounds}


async def at_once(reader: Reader, paths: list[str], rounds: int) -> dict[str, float]:
    """Reads all cached files concurrently, repeatedly; result per file."""
    await reader.read_all(paths)
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    for _ in range(rounds):
        await reader.read_all(paths)
    wall, used = time.perf_counter_ns() - begin, time.process_time_ns() - cpu
    count = rounds * len(paths)
    return {"ns_per_op": wall / count, "cpu_ns_per_op": used / count}


def drop_from_cache(path: str) -> None:
    """Drops the file from the cache, so that the next read comes from the disk."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


async def sequential(reader: Reader, path: str) -> dict[str, float]:
    """Reads one large file from the disk, from start to end; result per MiB."""
    drop_from_cache(path)
    lag = LagMeter()
    await asyncio.sleep(0)
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    size = await reader.read_on(path)
    wall, used = time.perf_counter_ns() - begin, time.process_time_ns() - cpu
    if size != Path(path).stat().st_size:
        raise SystemExit(f"read {size} bytes of {Path(path).stat().st_size}")
    mib = size / (1 << 20)
    return {"ns_per_op": wall / mib, "cpu_ns_per_op": used / mib, **lag.stop()}


async def lines(reader: Reader, path: str) -> dict[str, float]:
    """Iterates over the lines of a cached text file; result per line."""
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    count = await reader.read_lines(path)
    wall, used = time.perf_counter_ns() - begin, time.process_time_ns() - cpu
    return {"ns_per_op": wall / count, "cpu_ns_per_op": used / count}


async def copying(reader: Reader, path: str) -> dict[str, float]:
    """Copies a cached file; result per MiB."""
    target = Path(path + ".copy")
    lag = LagMeter()
    await asyncio.sleep(0)
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    await reader.copy(path, str(target))
    wall, used = time.perf_counter_ns() - begin, time.process_time_ns() - cpu
    size = target.stat().st_size
    target.unlink()
    if size != Path(path).stat().st_size:
        raise SystemExit(f"copied {size} bytes of {Path(path).stat().st_size}")
    mib = size / (1 << 20)
    return {"ns_per_op": wall / mib, "cpu_ns_per_op": used / mib, **lag.stop()}


async def blocks(reader: Reader, path: str, rounds: int, direct: bool) -> dict[str, float]:
    """Random 4 KiB reads of one large file from the disk: dropped from the cache before, or with O_DIRECT."""
    size = Path(path).stat().st_size // BLOCK
    offsets = [number * BLOCK for number in random.Random(1).sample(range(size), rounds)]
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    os.close(fd)
    lag = LagMeter()
    await asyncio.sleep(0)
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    got = await reader.read_blocks(path, offsets, direct)
    wall, used = time.perf_counter_ns() - begin, time.process_time_ns() - cpu
    if got != rounds * BLOCK:
        raise SystemExit(f"read {got} bytes instead of {rounds * BLOCK}")
    return {"ns_per_op": wall / rounds, "cpu_ns_per_op": used / rounds, **lag.stop()}


async def main(options: argparse.Namespace) -> None:
    reader = READERS[options.rival]()
    if options.work == "experiment":
        figures = await experiment(reader, options.paths, options.rounds)
    elif options.work == "cached":
        figures = await cached(reader, options.paths, options.rounds)
    elif options.work == "at-once":
        figures = await at_once(reader, options.paths, options.rounds)
    elif options.work == "sequential":
        figures = await sequential(reader, options.paths[0])
    elif options.work == "lines":
        figures = await lines(reader, options.paths[0])
    elif options.work == "copy":
        figures = await copying(reader, options.paths[0])
    else:
        direct = options.work == "direct"
        figures = await blocks(reader, options.paths[0], options.rounds, direct)
    # While the threads of an executor still exist.
    hand_over(figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rival", required=True)
    parser.add_argument("--loop", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("paths", nargs="+")
    asked = parser.parse_args()
    endpoint.grow_heap()
    loops.run(main(asked), asked.loop)
