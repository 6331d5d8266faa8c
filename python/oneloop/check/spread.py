"""`Spread`: the same check on several processes, of this machine or of a Dask cluster.

URLs are dealt out by their hosts: a host belongs to one shard, a shard has one chunk under way, so that limits of hosts
hold as they do in one process. A worker begins no more of its chunk after a second, and gives back results and what is
left. Where it is lost before that, nothing of its chunk has been counted, and it is done again.
"""

from __future__ import annotations

import asyncio
import os
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
SLICE_S = 1.0
"""So long a worker begins with more URLs of a chunk."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker gives back: results, URLs that it has not begun with, hosts to be left alone for some time."""

    results: list[Result]
    rest: list[Target]
    holds: dict[str, Hold]


class WorkerLostError(RuntimeError):
    """Workers were lost again and again on the same URLs."""


class Workers(Protocol):
    """Who checks chunks. `shards`: so many at once."""

    shards: int

    async def run(self, shard: int, chunk: list[Target], options: Options, holds: dict[str, Hold]) -> Answer:
        """Check a chunk, somewhere."""


def check_chunk(chunk: list[Target], options: Options, holds: dict[str, Hold]) -> Answer:
    """Check URLs on a loop of this thread's own; no more are begun with after a while.

    Args:
        chunk: the URLs.
        options: how to check them.
        holds: hosts that are to be left alone at first, and for how long.
    """
    import oneloop

    # Workers of a Dask cluster have the limit of the shell that started them.
    raise_limit(options.concurrency)

    async def work() -> Answer:
        async with Fetcher(options) as fetcher, Run(options, fetcher, holds) as run:
            asyncio.get_running_loop().call_later(SLICE_S, run.stop)
            results = [result async for result in run.results(chunk)]
            return Answer(results, run.rest(), run.holds())

    return oneloop.run(work())


class Processes:
    """Processes of this machine. One that dies is replaced."""

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
            # What is under way is not wanted any more.
            for process in list((pool._processes or {}).values()):
                process.terminate()
        for pool in self._pools:
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)

    async def run(self, shard: int, chunk: list[Target], options: Options, holds: dict[str, Hold]) -> Answer:
        """Check a chunk in the process of a shard."""
        for _ in range(_MOST_TRIES):
            try:
                return await asyncio.get_running_loop().run_in_executor(
                    self._pools[shard], check_chunk, chunk, options, holds
                )
            except BrokenProcessPool:
                await asyncio.to_thread(self._pools[shard].shutdown)
                self._pools[shard] = self._pool()
        raise WorkerLostError(f"{_MOST_TRIES} processes ended one after the other while checking {_named(chunk)}")


class DaskWorkers:
    """Workers of a Dask cluster, by its scheduler's address; `local:4` is a cluster of its own with so many."""

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
        self._client = await client(self._cluster or self._address, asynchronous=True)
        await self._client.wait_for_workers(1)
        # More than workers, so that one slow URL does not leave a worker idle.
        self.shards = 4 * max(1, sum((await self._client.nthreads()).values()))
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._client is not None:
            await self._client.close()
        if self._cluster is not None:
            await self._cluster.close()

    async def run(self, shard: int, chunk: list[Target], options: Options, holds: dict[str, Hold]) -> Answer:
        """Check a chunk on some worker; Dask gives it to another one if that is lost."""
        from distributed import KilledWorker

        future = self._client.submit(check_chunk, chunk, options, holds, pure=False)
        try:
            answer: Answer = await future
        except KilledWorker as error:
            raise WorkerLostError(f"Dask lost a worker again and again while checking {_named(chunk)}") from error
        return answer


def _end_with_parent() -> None:
    """A worker whose parent was killed stops asking."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _named(chunk: list[Target]) -> str:
    return f"{len(chunk)} URLs from {chunk[0].url!r} on"


async def check_spread(urls: AsyncIterable[Target], options: Options, workers: Workers) -> AsyncGenerator[Result]:
    """As `check`, by workers. Results come chunk by chunk."""
    async with Crew[list["Result"]]() as crew:
        spread = _Spread(options, workers, crew)
        crew.start(spread.feed(urls))
        async with aclosing(crew.all()) as found:
            async for results in found:
                for result in results:
                    yield result


class _Spread:
    """Who gets which URLs."""

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
        """Deals them out; waits while enough are known."""
        async for target in urls:
            shard = zlib.crc32(host_of(target.url).encode()) % len(self._waiting)
            self._waiting[shard].append(target)
            self._count += 1
            self._start(shard, least=self._chunk)
            while self._count >= self._most_waiting:
                # Whoever waits for a whole chunk waits in vain now.
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
        """What was not begun with comes first, but for hosts that wait: they would fill the next chunk, in vain."""
        waiting = {name for name, hold in answer.holds.items() if hold.wait_s}
        later = [target for target in answer.rest if host_of(target.url) in waiting]
        first = [target for target in answer.rest if host_of(target.url) not in waiting] if later else answer.rest
        self._waiting[shard].extendleft(reversed(first))
        self._waiting[shard].extend(later)
