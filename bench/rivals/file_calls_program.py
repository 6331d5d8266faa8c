"""The program of the suites of file calls: repeats one work of one rival without pauses.

Prints time and CPU time per operation. A call may do several operations, for example read the lines of a file.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from bench.rivals import endpoint, file_calls, file_writers, loops
from bench.rivals.file_writers import AwaitedCall, AwaitedTable, BlockingCall, BlockingTable
from bench.rivals.report_line import hand_over
from bench.rivals.stopwatch import Stopwatch

BLOCKING: dict[str, BlockingTable] = {
    "open": {**file_writers.BLOCKING, **file_calls.BLOCKING},
    "libaio": file_calls.LIBAIO,
}
AWAITED: dict[str, AwaitedTable] = {
    "executor": file_calls.EXECUTOR,
    "aiofiles": {**file_writers.AIOFILES, **file_calls.AIOFILES},
    "aiofile": {**file_writers.AIOFILE, **file_calls.AIOFILE},
    "turbofile": {**file_writers.TURBOFILE, **file_calls.TURBOFILE},
    "asyncfiles": {**file_writers.ASYNCFILES, **file_calls.ASYNCFILES},
    "oneloop": {**file_writers.ONELOOP, **file_calls.ONELOOP},
}


def can(rival: str, work: str) -> bool:
    """Whether the rival supports this work."""
    return rival == "executor" or work in BLOCKING.get(rival, {}) or work in AWAITED.get(rival, {})


def repeat_blocking(call: BlockingCall, rounds: int, least_s: float = 0.0) -> tuple[float, float]:
    """Wall and CPU nanoseconds of one round; all are repeated until they took `least_s`."""
    done = 0
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    while not done or time.perf_counter_ns() - begin < least_s * 1e9:
        for _ in range(rounds):
            call()
        done += rounds
    return (time.perf_counter_ns() - begin) / done, (time.process_time_ns() - cpu) / done


async def repeat(call: AwaitedCall, rounds: int, least_s: float = 0.0) -> tuple[float, float]:
    """The same for awaited calls: of all threads, including the kernel's for io_uring, until the loop rests."""
    done = 0
    watch = Stopwatch()
    watch.start()
    while not done or watch.lap()[0] < least_s * 1e9:
        for _ in range(rounds):
            await call()
        done += rounds
    await watch.stop_at_rest()
    return watch.wall_ns / done, watch.cpu_ns / done


@asynccontextmanager
async def in_thread(work: str, path: str) -> AsyncIterator[AwaitedCall]:
    """The blocking call in the loop's executor."""
    with BLOCKING["open"][work](path) as call:
        yield partial(asyncio.to_thread, call)


async def main(options: argparse.Namespace) -> None:
    rival, work, path, rounds = options.rival, options.work, options.path, options.rounds
    warms_up = rounds > 1
    if work in BLOCKING.get(rival, {}):
        with BLOCKING[rival][work](path) as call:
            if warms_up:
                repeat_blocking(call, 1)
            wall, cpu = repeat_blocking(call, rounds, options.seconds)
    else:
        opened = AWAITED[rival].get(work) or partial(in_thread, work)
        async with opened(path) as awaited:
            if warms_up:
                await repeat(awaited, 1)
            wall, cpu = await repeat(awaited, rounds, options.seconds)
    # While the threads of an executor still exist.
    hand_over({"ns_per_op": wall / options.per_round, "cpu_ns_per_op": cpu / options.per_round})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rival", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.0, help="the rounds are repeated for at least this long")
    parser.add_argument("--per-round", type=int, default=1, help="how many operations a round does")
    parser.add_argument("--descriptors", type=int, help="the soft limit of open descriptors")
    parser.add_argument("path")
    asked = parser.parse_args()
    if asked.descriptors:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (asked.descriptors, hard))
    endpoint.grow_heap()
    loops.run(main(asked), "oneloop" if asked.rival == "oneloop" else "asyncio")
