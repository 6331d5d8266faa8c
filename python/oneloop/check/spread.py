"""`check_spread`: the same check in several processes, on this machine or in a Dask cluster.

Each host belongs to one shard, and only one chunk of a shard is checked at a time, so that the limits per host hold as
in one process. After a second a worker starts no further URLs of its chunk; it finishes those that it has started, and
returns the results and the rest of the chunk. If a worker is lost before that, none of its results has been counted,
and the whole chunk is checked again.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import zlib
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import aclosing
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Protocol

from oneloop.check.checking import Run
from oneloop.check.crew import Crew
from oneloop.check.descriptors import raise_limit
from oneloop.check.fetch import Fetcher
from oneloop.check.schedule import Hold, host_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

    from oneloop.check.options import Options
    from oneloop.check.result import Result, Target

__all__ = ["DaskWorkers", "Processes", "WorkerLostError", "check_chunk", "check_spread"]

_MOST_TRIES = 3
_MOST_CHUNK = 1000
_LEAST_CHUNK = 50
SILENCE_S = 2.0
"""For how long nothing is said while Dask is waited for."""
SLICE_S = 1.0
"""The time in which a worker starts URLs of a chunk."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker returns: results, URLs that it has not started, and hosts that must not get requests now."""

    results: list[Result]
    rest: list[Target]
    holds: dict[str, Hold]


class WorkerLostError(RuntimeError):
    """Workers were lost repeatedly while they checked the same URLs."""


class Workers(Protocol):
    """A way to check chunks elsewhere. `shards` is the number of chunks that are checked at the same time."""

    shards: int

    async def run(self, shard: int, chunk: list[Target], options: Options, holds: dict[str, Hold]) -> Answer:
        """Check a chunk in a worker."""
        ...


def check_chunk(chunk: list[Target], options: Options, holds: dict[str, Hold]) -> Answer:
    """Check URLs on a new loop in this thread. After SLICE_S seconds no further URLs are started.

    Args:
        chunk: the URLs.
        options: how to check them.
        holds: hosts that get no requests at first, and for how long.

    Returns:
        The results, and the URLs that were not started.
    """
    import oneloop

    # Workers of a Dask cluster have the limit of the shell that started them, not that of this run.
    raise_limit(options.concurrency)

    async def work() -> Answer:
        async with Fetcher(options) as fetcher, Run(options, fetcher, holds) as run:
            asyncio.get_running_loop().call_later(SLICE_S, run.stop)
            results = [result async for result in run.results(chunk)]
            return Answer(results, run.rest(), run.holds())

    return oneloop.run(work())


class Processes:
    """Worker processes on this machine. A process that dies is replaced. Use it in `async with`.

    Args:
        count: the number of processes.
    """

    def __init__(self, count: int) -> None:
        self.shards = count
        self._pools = [self._pool() for _ in range(count)]

    @staticmethod
    def _pool() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_end_with_parent)

    async def __aenter__(self) -> Processes:  # noqa: PYI034
        return self

    async def __aexit__(self, *exception: object) -> None:
        for pool in self._pools:
            # The results of running chunks are not needed any more.
            for process in list((pool._processes or {}).values()):
                process.terminate()
        for pool in self._pools:
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)

    async def run(self, shard: int, chunk: list[Target], options: Options, holds: dict[str, Hold]) -> Answer:
        """Check a chunk in the process of a shard.

        Raises:
            WorkerLostError: the process died repeatedly.
        """
        for _ in range(_MOST_TRIES):
            try:
                return await asyncio.get_running_loop().run_in_executor(
                    self._pools[shard], check_chunk, chunk, options, holds
                )
            except BrokenProcessPool:
                await asyncio.to_thread(self._pools[shard].shutdown)
                self._pools[shard] = self._pool()
        raise WorkerLostError(f"{_MOST_TRIES} processes died one after the other while checking {_named(chunk)}")


class DaskWorkers:
    """Workers of a Dask cluster. Use it in `async with`.

    Args:
        address: the scheduler's address, or `local:4` to start a cluster with four processes.

    Raises:
        ImportError: Dask is not installed.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._cluster: Any = None
        self._client: Any = None
        self.shards = 1

    async def __aenter__(self) -> DaskWorkers:  # noqa: PYI034
        try:
            import distributed
        except ImportError as error:
            raise ImportError("--dask needs Dask: pip install 'dask[distributed]'") from error
        client: Any = distributed.Client
        cluster: Any = distributed.LocalCluster
        kind, _, count = self._address.partition(":")
        if kind == "local":
            self._cluster = await cluster(
                n_workers=int(count or 4), threads_per_worker=1, processes=True, dashboard_address=None,
                asynchronous=True,
            )  # fmt: skip
        waits = asyncio.get_running_loop().call_later(SILENCE_S, self._say_that_it_waits)
        try:
            self._client = await client(self._cluster or self._address, asynchronous=True)
            await self._client.wait_for_workers(1)
        finally:
            waits.cancel()
        # More shards than workers, so that a worker is not idle while one shard waits for a slow URL.
        self.shards = 4 * max(1, sum((await self._client.nthreads()).values()))
        return self

    def _say_that_it_waits(self) -> None:
        what = "the scheduler" if self._client is None else "a worker"
        print(f"oneloop check: waiting for {what} of Dask at {self._address}", file=sys.stderr, flush=True)

    async def __aexit__(self, *exception: object) -> None:
        if self._client is not None:
            await self._client.close()
        if self._cluster is not None:
            await self._cluster.close()

    async def run(self, shard: int, chunk: list[Target], options: Options, holds: dict[str, Hold]) -> Answer:
        """Check a chunk on any worker. If the worker is lost, Dask passes the chunk to another one.

        Raises:
            WorkerLostError: workers were lost repeatedly.
        """
        from distributed import KilledWorker

        future = self._client.submit(check_chunk, chunk, options, holds, pure=False)
        try:
            answer: Answer = await future
        except KilledWorker as error:
            raise WorkerLostError(f"Dask lost workers repeatedly while checking {_named(chunk)}") from error
        return answer


def _end_with_parent() -> None:
    """Start a thread that ends this worker process when its parent process ends."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _named(chunk: list[Target]) -> str:
    return f"{len(chunk)} URLs, the first of which is {chunk[0].url!r}"


async def check_spread(urls: AsyncIterable[Target], options: Options, workers: Workers) -> AsyncGenerator[Result]:
    """Check URLs in workers. Results arrive in batches, one per chunk.

    Args:
        urls: the URLs.
        options: how to check. Concurrency and rate are divided among the shards.
        workers: what checks the chunks.

    Returns:
        An async iterator of results.

    Raises:
        WorkerLostError: workers were lost repeatedly.
        Exception: any exception that `check` or iterating over `urls` raises.
    """
    async with Crew[list["Result"]]() as crew:
        spread = _Spread(options, workers, crew)
        crew.start(spread.feed(urls))
        async with aclosing(crew.all()) as found:
            async for results in found:
                for result in results:
                    yield result


class _Spread:
    """Assigns URLs to shards and passes chunks to the workers."""

    def __init__(self, options: Options, workers: Workers, crew: Crew[list[Result]]) -> None:
        shards = workers.shards
        share = max(1, options.concurrency // shards)
        rate = None if options.rate is None else options.rate / shards
        self._options = replace(options, concurrency=share, rate=rate)
        self._workers = workers
        self._crew = crew
        self._waiting: list[deque[Target]] = [deque() for _ in range(shards)]
        self._holds: list[dict[str, Hold]] = [{} for _ in range(shards)]
        self._running: set[int] = set()
        self._chunk = min(_MOST_CHUNK, max(_LEAST_CHUNK, 20 * share))
        self._most_waiting = 2 * shards * self._chunk
        self._count = 0
        self._is_fed = False
        self._room = asyncio.Event()

    async def feed(self, urls: AsyncIterable[Target]) -> None:
        """Read the URLs and assign them to shards. Waits while enough URLs are read ahead."""
        async for target in urls:
            shard = zlib.crc32(host_of(target.url).encode()) % len(self._waiting)
            self._waiting[shard].append(target)
            self._count += 1
            self._start(shard, least=self._chunk)
            while self._count >= self._most_waiting:
                # No URLs are read now, so shards must not wait for a full chunk.
                self._start_all()
                self._room.clear()
                await self._room.wait()
        self._is_fed = True
        self._start_all()

    def _start_all(self) -> None:
        for shard in range(len(self._waiting)):
            self._start(shard, least=1)

    def _start(self, shard: int, least: int) -> None:
        waiting = self._waiting[shard]
        if shard in self._running or len(waiting) < least:
            return
        chunk = [waiting.popleft() for _ in range(min(self._chunk, len(waiting)))]
        self._running.add(shard)
        self._crew.start(self._run(shard, chunk))

    async def _run(self, shard: int, chunk: list[Target]) -> None:
        answer = await self._workers.run(shard, chunk, self._options, self._holds[shard])
        self._running.discard(shard)
        self._holds[shard] = answer.holds
        self._take_back(shard, answer)
        self._count -= len(answer.results)
        self._crew.add(answer.results)
        self._room.set()
        self._start(shard, least=1 if self._is_fed or answer.rest else self._chunk)

    def _take_back(self, shard: int, answer: Answer) -> None:
        """Put the URLs that were not started back at the front, but those of hosts that must wait at the end.

        At the front they would fill the next chunk without being requested.
        """
        waiting = {name for name, hold in answer.holds.items() if hold.wait_s}
        later = [target for target in answer.rest if host_of(target.url) in waiting]
        first = [target for target in answer.rest if host_of(target.url) not in waiting] if later else answer.rest
        self._waiting[shard].extendleft(reversed(first))
        self._waiting[shard].extend(later)
