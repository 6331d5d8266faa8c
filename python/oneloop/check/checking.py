"""`check`: requests URLs and yields a `Result` for each as it finishes."""

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
    """Check URLs and yield the results in the order in which the URLs finish.

    Needs oneloop's loop. At most `concurrency` URLs are in progress, and `urls` is read only a bounded number of
    URLs ahead. If the consumer is slow, no further requests are started. Leaving the iteration early cancels the
    requests in progress; use `contextlib.aclosing` to cancel them immediately.

    Args:
        urls: an iterable or async iterable of URLs or `Target`s. Strings are numbered from 1.
        options: how to check.
        **given: fields of `Options` by name, instead of `options`.

    Returns:
        An async iterator of `Result`.

    Raises:
        OptionError: an option has a wrong value, or the limit on file descriptors is too low for the concurrency.
        TooManyFilesError: the process has no file descriptor left.
        RuntimeError: the running loop is not one of oneloop's.
        TypeError: an option's name is unknown, `options` and `given` are both given, or `urls` is a string.
        Exception: any exception that iterating over `urls` raises.
    """
    if given and options is not None:
        raise TypeError("give either options or its fields by name, not both")
    if isinstance(urls, str):
        raise TypeError(f"urls must be an iterable of URLs, not a string: write [{urls!r}]")
    options = Options(**given) if options is None else options
    async with Fetcher(options) as fetcher, Run(options, fetcher) as run:
        async with aclosing(run.results(urls)) as results:
            async for result in results:
                yield result


class Run:
    """One check: a task that reads the URLs and the worker tasks that request them. Use it in `async with`.

    Args:
        options: how to check.
        fetcher: the HTTP client.
        holds: hosts that get no requests at first, and for how long.
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
        """Start no further URLs. When `results` has ended, `rest` returns those that were not started."""
        self._schedule.stop()

    def rest(self) -> list[Target]:
        """Return the URLs that `stop` kept from being started."""
        return self._schedule.rest

    def holds(self) -> dict[str, Hold]:
        """Return the hosts that must not get requests now, and for how long."""
        return self._schedule.holds()

    def results(self, urls: Urls) -> AsyncGenerator[Result]:
        """Start the tasks and return an iterator of the results, in the order in which the URLs finish."""
        self._crew.start(self._feed(urls))
        for _ in range(self._options.concurrency):
            self._crew.start(self._work())
        return self._crew.all()

    async def _feed(self, urls: Urls) -> None:
        number = 0
        if hasattr(urls, "__aiter__"):
            async for url in urls:  # pyright: ignore[reportGeneralTypeIssues]
                number += 1
                await self._schedule.add(Target(number, url) if isinstance(url, str) else url)
        else:
            for url in urls:  # pyright: ignore[reportGeneralTypeIssues]
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
        """Apply the response's Retry-After to the host, and put the job back if another attempt may succeed."""
        result, options = attempt.result, self._options
        asked_s = attempt.retry_after_s
        if asked_s is not None:
            self._schedule.hold(job.host, asked_s)
        if result.status == 200:
            return False
        is_worth_it = result.outcome in _WORTH_A_RETRY and not attempt.is_final and job.attempts <= options.retries
        if not is_worth_it or (asked_s is not None and asked_s > options.retry_after_s):
            return False
        # At least half of the delay; the random part spreads the retries of requests that failed at the same time.
        delay_s = options.retry_delay_s * 2.0 ** min(job.attempts - 1, _MOST_DOUBLINGS) * random.uniform(0.5, 1.0)
        self._schedule.again(job, max(delay_s, asked_s or 0.0))
        return True
