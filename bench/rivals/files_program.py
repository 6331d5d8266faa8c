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
    """A task that wants to wake every millisecond and writes down how late it was."""

    def __init__(self) -> None:
        self.late_ns: list[int] = []
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            due = time.perf_counter_ns() + int(TICK_S * 1e9)
            await asyncio.sleep(TICK_S)
            self.late_ns.append(time.perf_counter_ns() - due)

    def stop(self) -> dict[str, float]:
        """The 99th percentile and the worst, negative lateness counted as none."""
        self._task.cancel()
        late = sorted(max(0, ns) for ns in self.late_ns) or [0]
        p99 = statistics.quantiles(late, n=100, method="inclusive")[98] if len(late) > 1 else late[0]
        return {"lag_p99_ns": p99, "lag_max_ns": float(late[-1])}


async def experiment(reader: Reader, paths: list[str], rounds: int) -> dict[str, float]:
    """linux_aio's: every millisecond, read all files. Threads and memory are read from outside at its end."""
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    for _ in range(rounds):
        await asyncio.sleep(TICK_S)
        await reader.read_all(paths)
    wall = time.perf_counter_ns() - begin
    return {"wall_ns": wall, "cpu_share": (time.process_time_ns() - cpu) / wall}


async def cached(reader: Reader, paths: list[str], rounds: int) -> dict[str, float]:
    """One cached file after the other, with nothing between."""
    await reader.read_all(paths[:1])
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    for number in range(rounds):
        await reader.read_all([paths[number % len(paths)]])
    wall, used = time.perf_counter_ns() - begin, time.process_time_ns() - cpu
    return {"ns_per_op": wall / rounds, "cpu_ns_per_op": used / rounds}


async def blocks(reader: Reader, path: str, rounds: int, direct: bool) -> dict[str, float]:
    """Random 4 KiB reads of one big file, from the disk: dropped from the cache before, or past it."""
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
    else:
        direct = options.work == "direct"
        figures = await blocks(reader, options.paths[0], options.rounds, direct)
    # While the threads of an executor still stand.
    hand_over(figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rival", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("paths", nargs="+")
    asked = parser.parse_args()
    endpoint.grow_heap()
    loops.run(main(asked), "oneloop" if asked.rival == "oneloop" else "asyncio")
