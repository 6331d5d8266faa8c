"""Finds the broken links of a site. See README.md."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin, urlsplit

import oneloop
from oneloop.check import Options, Result, Target, check
from oneloop.check.spread import DaskWorkers, check_spread
from oneloop.http import AsyncClient, HTTPError, Limits

READERS = 8


class Links(HTMLParser):
    """Collects the addresses that a page links to."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = {"a": "href", "link": "href", "img": "src", "script": "src"}.get(tag)
        address = dict(attrs).get(name) if name else None
        if address:
            url = urldefrag(urljoin(self.base, address)).url
            if url.startswith(("http://", "https://")):
                self.found.add(url)


async def crawl(start: str, most: int) -> dict[str, set[str]]:
    """Read the pages of a site. Return each link with the pages that have it."""
    links: dict[str, set[str]] = {}
    seen, waiting = {start}, asyncio.Queue[str]()
    waiting.put_nowait(start)
    async with AsyncClient(follow_redirects=True, limits=Limits(max_connections=READERS)) as client:

        async def read() -> None:
            while True:
                page = await waiting.get()
                try:
                    response = await client.get(page)
                    if response.headers.get("content-type", "").startswith("text/html"):
                        parser = Links(str(response.url))
                        parser.feed(response.text)
                        for link in parser.found:
                            links.setdefault(link, set()).add(page)
                            is_here = urlsplit(link).netloc == urlsplit(start).netloc
                            if is_here and link not in seen and len(seen) < most:
                                seen.add(link)
                                waiting.put_nowait(link)
                except HTTPError:
                    pass  # The check reports it.
                finally:
                    waiting.task_done()

        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(read()) for _ in range(READERS)]
            await waiting.join()
            for reader in readers:
                reader.cancel()
    return links


async def results(links: list[str], dask: str | None) -> AsyncIterator[Result]:
    """Check links, here or on the workers of a Dask cluster."""
    options = Options(per_host=4, retries=1)
    if dask is None:
        async for result in check(links, options):
            yield result
        return

    async def targets() -> AsyncIterator[Target]:
        for number, link in enumerate(links, 1):
            yield Target(number=number, url=link)

    async with DaskWorkers(dask) as workers:
        async for result in check_spread(targets(), options, workers):
            yield result


async def main(start: str, most: int, dask: str | None) -> int:
    links = await crawl(start, most)
    broken = 0
    async for result in results(sorted(links), dask):
        if result.status is None or result.status >= 400:
            broken += 1
            print(f"{result.outcome}: {result.url}\n    on {', '.join(sorted(links[result.url]))}")
    print(f"{broken} of {len(links)} links do not work")
    return 1 if broken else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Find the broken links of a site.")
    parser.add_argument("start", help="the URL of the first page")
    parser.add_argument("--pages", type=int, default=100, help="read at most so many pages [100]")
    parser.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler, or local:4")
    given = parser.parse_args()
    raise SystemExit(oneloop.run(main(given.start, given.pages, given.dask)))
