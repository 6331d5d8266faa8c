"""Runs `check()` over URLs and brings the results into the order of the URLs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oneloop.check import Result


async def checked(urls: Sequence[str], **options: Any) -> list[Result]:
    """A result for each URL, no more and no fewer. Without retries unless they are asked for."""
    from oneloop.check import check

    # Failing servers are what is tested, and one address stands for all hosts.
    options = {"retries": 0, "per_host": 1000, **options}
    results = [result async for result in check(urls, **options)]
    results.sort(key=lambda result: result.number)
    assert [result.number for result in results] == list(range(1, len(urls) + 1))
    assert [result.url for result in results] == list(urls)
    for result in results:
        assert (result.status is None) != (result.error is None), result
        assert bool(result.error_text) == (result.error is not None), result
    return results


async def outcomes(urls: Sequence[str], **options: Any) -> dict[str, str]:
    """What became of each URL."""
    return {result.url: result.outcome for result in await checked(urls, **options)}
