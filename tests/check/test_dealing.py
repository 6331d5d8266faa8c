"""How URLs are dealt out to workers and come back: shares, hosts' shards, what is given back, how far is read."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator

import pytest

pytest.importorskip("pycares")

from oneloop.check import Options, Result, Target
from oneloop.check.schedule import Hold, host_of
from oneloop.check.spread import Answer, check_spread

# By these, one shard of two is told from the other.
FIRST, SECOND = "d", "a"
CHUNK = 50
"""The least there is: with one URL at a time for each worker."""


class Desk:
    """Workers that check nothing: `each` URLs of a chunk come back with a result, the others as they are."""

    def __init__(self, shards: int, each: int = 1000) -> None:
        self.shards = shards
        self.each = each
        self.holds: dict[str, Hold] = {}
        self.chunks: list[tuple[int, list[Target], dict[str, Hold]]] = []
        self.options: list[Options] = []
        self.under_way: Counter[int] = Counter()
        self.most = 0
        self.done = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.gated_host = ""

    async def run(self, shard: int, chunk: list[Target], options: Options, holds: dict[str, Hold]) -> Answer:
        self.chunks.append((shard, chunk, holds))
        self.options.append(options)
        self.under_way[shard] += 1
        self.most = max(self.most, *self.under_way.values())
        await asyncio.sleep(0)
        if f"//{self.gated_host}/" in chunk[0].url:
            await self.gate.wait()
        self.under_way[shard] -= 1
        free = [target for target in chunk if host_of(target.url) not in self.holds]
        done = free[: self.each]
        rest = [target for target in chunk if target not in done]
        self.done += len(done)
        results = [Result(target.number, target.url, status=200) for target in done]
        return Answer(results, rest, {"host": Hold(len(self.chunks), 0)} | self.holds)


async def listed(*hosts: str) -> AsyncIterator[Target]:
    for number, host in enumerate(hosts, 1):
        yield Target(number, f"http://{host}/{number}")


async def numbers_of(urls: AsyncIterator[Target], options: Options, desk: Desk) -> list[int]:
    async with asyncio.timeout(20):
        return [result.number async for result in check_spread(urls, options, desk)]


@pytest.mark.parametrize(("concurrency", "share"), [(2, 1), (4, 1), (9, 2)])
async def test_each_has_its_share(concurrency: int, share: int, loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(4)
    await numbers_of(listed(*"abcdefgh"), Options(concurrency=concurrency, rate=8, per_host=3), desk)
    assert {(options.concurrency, options.rate, options.per_host) for options in desk.options} == {(share, 2, 3)}


async def test_a_host_is_one_shards_and_a_shard_has_one_chunk(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(4)
    hosts = [f"h{number % 12}" for number in range(2000)]
    found = await numbers_of(listed(*hosts), Options(concurrency=4), desk)
    assert sorted(found) == list(range(1, 2001))
    assert desk.most == 1
    shards = defaultdict(set)
    for shard, chunk, _ in desk.chunks:
        for target in chunk:
            shards[target.url.split("/")[2]].add(shard)
    assert len(shards) == 12
    assert {len(found) for found in shards.values()} == {1}


async def test_what_is_given_back_comes_first_and_holds_go_with_it(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(1, each=30)
    assert await numbers_of(listed(*["a"] * 120), Options(concurrency=1), desk) == list(range(1, 121))
    assert len(desk.chunks[0][1]) == CHUNK
    assert [holds for _, _, holds in desk.chunks] == [{}] + [{"host": (n, 0)} for n in range(1, len(desk.chunks))]


async def test_a_host_that_waits_lets_others_go_first(loop: asyncio.AbstractEventLoop) -> None:
    """Its URLs come back from every worker, and would fill all chunks until its pause is over."""
    desk = Desk(1)
    desk.holds = {"a": Hold(60, 0)}
    hosts = ["a"] * CHUNK + ["b"]
    async with asyncio.timeout(20):
        async for result in check_spread(listed(*hosts), Options(concurrency=1), desk):
            if result.number == len(hosts):
                desk.holds = {}
    assert desk.done == len(hosts)


async def test_what_is_given_back_does_not_wait_for_more(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(1, each=30)
    all_done = asyncio.Event()

    async def urls() -> AsyncIterator[Target]:
        async for target in listed(*["a"] * CHUNK):
            yield target
        await all_done.wait()

    async with asyncio.timeout(20):
        async for result in check_spread(urls(), Options(concurrency=1), desk):
            if result.number == CHUNK:
                all_done.set()


async def test_no_more_is_read_than_two_chunks_for_each(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(2, each=1)
    read = 0

    async def urls() -> AsyncIterator[Target]:
        nonlocal read
        async for target in listed(*[FIRST, SECOND] * 300):
            read += 1
            assert read - desk.done <= 2 * 2 * CHUNK
            yield target

    found = await numbers_of(urls(), Options(concurrency=2), desk)
    assert sorted(found) == list(range(1, 601))


async def test_a_few_urls_do_not_wait_for_a_slow_shard(loop: asyncio.AbstractEventLoop) -> None:
    """When no more is read, no chunk will be whole."""
    desk = Desk(2)
    desk.gate.clear()
    desk.gated_host = FIRST
    hosts = [SECOND] * 10 + [FIRST] * 1000
    found = []
    async with asyncio.timeout(20):
        async for result in check_spread(listed(*hosts), Options(concurrency=2), desk):
            found.append(result.number)
            if len(found) == 10:
                assert found == list(range(1, 11))
                desk.gate.set()
    assert len(found) == 1010
