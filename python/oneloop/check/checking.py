"""`check`: URLs in, results out, as they come."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

from oneloop.check.fetch import Attempt, Fetcher
from oneloop.check.options import Options
from oneloop.check.result import Result, Target
from oneloop.check.schedule import Job, Schedule

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable

__all__ = ["check"]

_WORTH_A_RETRY = {"429", "502", "503", "504", "dns", "connect", "timeout", "protocol"}
_HELD_BACK = {429, 503}


async def check(
    urls: Iterable[str | Target] | AsyncIterable[str | Target], options: Options | None = None, **given: Any
) -> AsyncIterator[Result]:
    """Check URLs; results come in the order in which they are known.

    Runs on the running loop, whichever it is. At most `concurrency` URLs are under way, and of `urls` no more is read
    ahead than some times as many; a slow consumer makes all wait. Leaving the iteration ends what is under way: use
    `contextlib.aclosing` where that is to happen at once.

    Args:
        urls: URLs or `Target`s. Strings are numbered from 1.
        options: how to check.
        **given: fields of `Options` by name, instead of `options`.

    Raises:
        OptionError: an option is wrong.
        TypeError: an option's name is.
        Exception: whatever `urls` raises.
    """
    if given and options is not None:
        raise TypeError("options are given as a whole or by name, not both")
    options = Options(**given) if options is None else options
    async with Fetcher(options) as fetcher, _Run(options, fetcher) as run:
        async with aclosing(run.results(urls)) as results:
            async for result in results:
                yield result


class _Run:
    """Workers, and those who feed and empty them."""

    def __init__(self, options: Options, fetcher: Fetcher) -> None:
        self._options = options
        self._fetcher = fetcher
        self._schedule = Schedule(options)
        self._results: deque[Result] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._failure: BaseException | None = None
        self._most_results = 4 * options.concurrency + 1000

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._failure is None:
            self._failure = error
        self._news.set()

    async def results(self, urls: Iterable[str | Target] | AsyncIterable[str | Target]) -> AsyncGenerator[Result]:
        self._start(self._feed(urls))
        for _ in range(self._options.concurrency):
            self._start(self._work())
        while True:
            while self._results:
                yield self._results.popleft()
            self._room.set()
            if self._failure is not None:
                raise self._failure
            if not self._tasks:
                return
            self._news.clear()
            await self._news.wait()

    async def _feed(self, urls: Iterable[str | Target] | AsyncIterable[str | Target]) -> None:
        number = 0
        if hasattr(urls, "__aiter__"):
            async for url in urls:
                number += 1
                await self._schedule.add(Target(number, url) if isinstance(url, str) else url)
        else:
            for url in urls:
                number += 1
                await self._schedule.add(Target(number, url) if isinstance(url, str) else url)
        self._schedule.close()

    async def _work(self) -> None:
        schedule, fetcher = self._schedule, self._fetcher
        while (job := await schedule.take()) is not None:
            attempt = await fetcher.fetch(job.target, schedule.keeps(job.host))
            if self._is_tried_again(job, attempt):
                continue
            schedule.done(job)
            attempt.result.attempts = job.attempts
            self._results.append(attempt.result)
            self._news.set()
            if len(self._results) >= self._most_results:
                self._room.clear()
                await self._room.wait()

    def _is_tried_again(self, job: Job, attempt: Attempt) -> bool:
        """Holds its host back if the server asks for it, and puts the job back if it is worth it."""
        result, options = attempt.result, self._options
        asked_s = attempt.retry_after_s if result.status in _HELD_BACK else None
        if asked_s is not None:
            self._schedule.hold(job.host, min(asked_s, options.retry_after_s))
        is_worth_it = result.outcome in _WORTH_A_RETRY and not attempt.is_final and job.attempts <= options.retries
        if not is_worth_it or (asked_s is not None and asked_s > options.retry_after_s):
            return False
        # Half of it at least: those that failed together do not come back together.
        delay_s = options.retry_delay_s * 2 ** (job.attempts - 1) * random.uniform(0.5, 1.0)
        self._schedule.again(job, max(delay_s, asked_s or 0.0))
        return True
