"""The program of the suites of file calls: repeats one work of one rival without pauses.

Prints time and CPU time per operation. A call may do several operations, for example read the lines of a file.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from bench.rivals import endpoint, file_calls, file_writers, loops
from bench.rivals.file_writers import AwaitedCall, AwaitedTable, BlockingCall, BlockingTable
from bench.rivals.repeating import run_batches, run_blocking
from bench.rivals.report_line import hand_over
from bench.rivals.stopwatch import Stopwatch, deferred_cpu_ns

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


def batch_of(call: BlockingCall, rounds: int) -> Callable[[], int]:
    """A function that calls `call` so many times."""

    def batch() -> int:
        for _ in range(rounds):
            call()
        return rounds

    return batch


def awaited_batch_of(call: AwaitedCall, rounds: int) -> Callable[[], Awaitable[int]]:
    """The same for awaited calls."""

    async def batch() -> int:
        for _ in range(rounds):
            await call()
        return rounds

    return batch


@asynccontextmanager
async def in_thread(work: str, path: str) -> AsyncIterator[AwaitedCall]:
    """The blocking call in the loop's executor."""
    with BLOCKING["open"][work](path) as call:
        yield partial(asyncio.to_thread, call)


async def main(options: argparse.Namespace) -> None:
    rival, work, path = options.rival, options.work, options.path
    watch, done = Stopwatch(), 0
    least_s, size = options.seconds, None
    if options.reopens:
        # One batch for each opening.
        least_s, size = 0.0, os.path.getsize(path)
    while not done or watch.wall_ns < options.seconds * 1e9:
        if size is not None:
            os.truncate(path, size)
        if work in BLOCKING.get(rival, {}):
            with BLOCKING[rival][work](path) as call:
                if options.rounds > 1:
                    call()  # warms up
                done += run_blocking(batch_of(call, options.rounds), least_s, watch)
        else:
            opened = AWAITED[rival].get(work) or partial(in_thread, work)
            async with opened(path) as awaited:
                if options.rounds > 1:
                    await awaited()
                done += await run_batches(awaited_batch_of(awaited, options.rounds), least_s, watch)
                if watch.wall_ns >= options.seconds * 1e9:
                    watch.add(await deferred_cpu_ns())
    # While the threads of an executor still exist.
    hand_over(watch.figures(done * options.per_round))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rival", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.0, help="the rounds are repeated for at least this long")
    parser.add_argument("--reopens", action="store_true", help="the file is opened anew for each repetition")
    parser.add_argument("--per-round", type=int, default=1, help="how many operations a round does")
    parser.add_argument("--descriptors", type=int, help="the soft limit of open descriptors")
    parser.add_argument("path")
    asked = parser.parse_args()
    if asked.descriptors:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (asked.descriptors, hard))
    endpoint.grow_heap()
    loops.run(main(asked), "oneloop" if asked.rival == "oneloop" else "asyncio")
