"""`check`: URLs in, results out, as they come."""

from __future__ import annotations

import random
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from oneloop.check.crew import Crew
from oneloop.check.fetch import Attempt, Fetcher
from oneloop.check.options import Options
from oneloop.check.result import Result, Target
from oneloop.check.schedule import Hold, Job, Schedule

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Iterable

__all__ = ["Run", "check"]

Urls: TypeAlias = "Iterable[str | Target] | AsyncIterable[str | Target]"

_WORTH_A_RETRY = {"429", "502", "503", "504", "dns", "connect", "timeout", "protocol"}
_MOST_DOUBLINGS = 30


async def check(urls: Urls, options: Options | None = None, **given: Any) -> AsyncGenerator[Result]:
    """Check URLs; results come in the order in which they are known.

    Runs on the running loop, whichever it is. At most `concurrency` URLs are under way, and of `urls` no more is read
    ahead than some times as many; a slow consumer makes all wait. Leaving the iteration ends what is under way: use
    `contextlib.aclosing` where that is to happen at once.

    Args:
        urls: URLs or `Target`s. Strings are numbered from 1.
        options: how to check.
        **given: fields of `Options` by name, instead of `options`.

    Raises:
        OptionError: an option is wrong, or there are not enough file descriptors for the concurrency.
        TooManyFilesError: the process has no file descriptor left.
        TypeError: an option's name is.
        Exception: whatever `urls` raises.
    """
    if given and options is not None:
        raise TypeError("options are given as a whole or by name, not both")
    if isinstance(urls, str):
        raise TypeError(f"urls is an iterable of URLs, not a string: write [{urls!r}]")
    options = Options(**given) if options is None else options
    async with Fetcher(options) as fetcher, Run(options, fetcher) as run:
        async with aclosing(run.results(urls)) as results:
            async for result in results:
                yield result


class Run:
    """Workers, and those who feed them. Used within `async with`.

    Args:
        options: how to check.
        fetcher: the client.
        holds: hosts that are to be left alone at first, and for how long.
    """

    def __init__(self, options: Options, fetcher: Fetcher, holds: dict[str, Hold] | None = None) -> None:
        self._options = options
        self._fetcher = fetcher
        self._schedule = Schedule(options, holds or {})
        self._crew: Crew[Result] = Crew()
        self._most_found = 4 * options.concurrency + 1000

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._crew.__aexit__(*exception)

    def stop(self) -> None:
        """Begin with no more URLs: `rest` has them when `results` has ended."""
        self._schedule.stop()

    def rest(self) -> list[Target]:
        """URLs that were not begun with."""
        return self._schedule.rest

    def holds(self) -> dict[str, Hold]:
        """Hosts that are to be left alone, and for how long."""
        return self._schedule.holds()

    def results(self, urls: Urls) -> AsyncGenerator[Result]:
        """What becomes of the URLs, as it is known."""
        self._crew.start(self._feed(urls))
        for _ in range(self._options.concurrency):
            self._crew.start(self._work())
        return self._crew.all()

    async def _feed(self, urls: Urls) -> None:
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
            refused_s = schedule.refused_s(job.host)
            if refused_s:
                result = self._refused(job, refused_s)
            else:
                attempt = await fetcher.fetch(job.target)
                if self._is_tried_again(job, attempt):
                    continue
                result = attempt.result
                result.attempts = job.attempts
            schedule.done(job)
            self._crew.add(result)
            if len(self._crew.found) >= self._most_found:
                await self._crew.wait_for_room()

    def _refused(self, job: Job, refused_s: float) -> Result:
        return Result(
            job.target.number,
            job.target.url,
            error="retry_after",
            error_text=f"the host asked for no requests for another {refused_s:.0f} s (Retry-After)",
            final_url=job.target.url,
            attempts=job.attempts - 1,
        )

    def _is_tried_again(self, job: Job, attempt: Attempt) -> bool:
        """Holds its host back if the server asks for it, and puts the job back if it is worth it."""
        result, options = attempt.result, self._options
        asked_s = attempt.retry_after_s
        if asked_s is not None:
            self._schedule.hold(job.host, asked_s)
        if result.status == 200:
            return False
        is_worth_it = result.outcome in _WORTH_A_RETRY and not attempt.is_final and job.attempts <= options.retries
        if not is_worth_it or (asked_s is not None and asked_s > options.retry_after_s):
            return False
        # Half of it at least: those that failed together do not come back together.
        delay_s = options.retry_delay_s * 2.0 ** min(job.attempts - 1, _MOST_DOUBLINGS) * random.uniform(0.5, 1.0)
        self._schedule.again(job, max(delay_s, asked_s or 0.0))
        return True
