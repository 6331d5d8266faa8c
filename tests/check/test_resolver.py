"""How long names are known, and who waits for whom; what name servers say is the test's own."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

pycares: Any = pytest.importorskip("pycares")

from oneloop.check import Options, resolver  # noqa: E402
from oneloop.check.phases import Phases  # noqa: E402
from oneloop.check.resolver import NameNotFoundError, Resolver  # noqa: E402

PHASES: Any = Phases({}, None)


@dataclass
class Node:
    ttl: int
    family: int = socket.AF_INET
    addr: tuple[bytes, int] = (b"127.0.0.1", 0)


@dataclass
class Answer:
    nodes: list[Node]
    cnames: list[Node] = field(default_factory=list)


class Servers:
    """What `Resolver` asks, and its clock."""

    def __init__(self) -> None:
        self.answer = Answer([Node(60)])
        self.error = 0
        self.asked: Counter[str] = Counter()
        self.gate = asyncio.Event()
        self.gate.set()
        self.now_s = 1000.0

    async def ask(self, host: str) -> tuple[Any, int]:
        self.asked[host] += 1
        await self.gate.wait()
        return self.answer, self.error

    def monotonic(self) -> float:
        return self.now_s


@asynccontextmanager
async def resolving(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Resolver, Servers]]:
    servers, made = Servers(), Resolver(Options())
    monkeypatch.setattr(resolver, "time", servers)
    monkeypatch.setattr(made, "_answer", servers.ask)
    PHASES.dns_s = None
    yield made, servers
    await made.close()


async def test_the_shortest_time_counts(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    async with resolving(monkeypatch) as (made, servers):
        servers.answer = Answer([Node(60), Node(30)], [Node(5)])
        assert [where[0] for _, where in await made.resolve("a.test", 80, PHASES)] == ["127.0.0.1"] * 2
        PHASES.dns_s = None
        servers.now_s += 4.9
        await made.resolve("a.test", 80, PHASES)
        # It was known: nobody was asked, and it took no time.
        assert (servers.asked["a.test"], PHASES.dns_s) == (1, None)
        servers.now_s += 0.1
        await made.resolve("a.test", 80, PHASES)
        assert (servers.asked["a.test"], PHASES.dns_s) == (2, 0)


async def test_so_many_names_are_known(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "_MOST_NAMES", 3)
    async with resolving(monkeypatch) as (made, _):
        for number in range(5):
            await made.resolve(f"{number}.test", 80, PHASES)
        assert list(made._known) == ["2.test", "3.test", "4.test"]


async def test_whoever_gives_up_leaves_the_others_their_answer(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with resolving(monkeypatch) as (made, servers):
        servers.gate.clear()
        first, second = [asyncio.create_task(made.resolve("a.test", 80, PHASES)) for _ in range(2)]
        while not servers.asked:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        servers.gate.set()
        assert len(await second) == 1
        assert servers.asked == {"a.test": 1}
        assert first.cancelled()


async def test_a_failure_that_nobody_waits_for_is_none(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each test, no exception may be left that nobody has looked at."""
    async with resolving(monkeypatch) as (made, servers):
        servers.error = pycares.errno.ARES_ESERVFAIL
        servers.gate.clear()
        waiting = asyncio.create_task(made.resolve("a.test", 80, PHASES))
        while not servers.asked:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        servers.gate.set()
        while made._lookups:
            await asyncio.sleep(0)


async def test_its_end_waits_for_no_name_server(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with resolving(monkeypatch) as (made, servers):
        servers.gate.clear()
        waiting = asyncio.create_task(made.resolve("a.test", 80, PHASES))
        while not servers.asked:
            await asyncio.sleep(0)
    assert (await asyncio.gather(waiting, return_exceptions=True))[0].__class__ is asyncio.CancelledError


@pytest.mark.parametrize(
    ("error", "is_final"),
    [("ARES_ENODATA", True), ("ARES_ENOTFOUND", True), ("ARES_ENONAME", True), ("ARES_EBADNAME", True),
     ("ARES_ESERVFAIL", False), ("ARES_EREFUSED", False), ("ARES_ETIMEOUT", False)],
)  # fmt: skip
async def test_only_names_that_do_not_exist_are_final(
    error: str, is_final: bool, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with resolving(monkeypatch) as (made, servers):
        servers.error = getattr(pycares.errno, error)
        with pytest.raises(OSError, match=r"a\.test: ") as raised:
            await made.resolve("a.test", 80, PHASES)
        assert isinstance(raised.value, NameNotFoundError) is is_final


async def test_addresses_in_unusual_forms_are_not_asked_for(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with resolving(monkeypatch) as (made, servers):
        (found,) = await made.resolve("0x7f.1", 80, PHASES)
        assert found == (socket.AF_INET, ("127.0.0.1", 80))
        (found,) = await made.resolve("::1", 80, PHASES)
        assert found == (socket.AF_INET6, ("::1", 80, 0, 0))
        assert not servers.asked


async def test_a_channel_is_replaced_when_its_cache_is_large(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """c-ares keeps what it was told. The old channel is closed after its last answer, not earlier."""

    class Channel:
        made: ClassVar[list[Channel]] = []

        def __init__(self, servers: object) -> None:
            self.asked: list[str] = []
            self.told: dict[str, Callable[[Answer, int], None]] = {}
            self.is_closed = False
            self.made.append(self)

        def getaddrinfo(self, host: str, _: object, *, family: int, type: int, callback: Any) -> None:  # noqa: A002
            assert not self.is_closed
            self.asked.append(host)
            self.told[host] = callback

        def cancel(self) -> None:
            assert not self.is_closed

        def close(self) -> None:
            self.is_closed = True

    monkeypatch.setattr(pycares, "Channel", Channel)
    monkeypatch.setattr(resolver, "_MOST_ASKED", 2)
    made = Resolver(Options())
    async with asyncio.timeout(None):
        waiting = {host: asyncio.create_task(made.resolve(host, 80, PHASES)) for host in ("a.test", "b.test", "c.test")}
        while sum(len(one.asked) for one in Channel.made) < 3:
            await asyncio.sleep(0)
        first, second = Channel.made
        assert (first.asked, second.asked) == (["a.test", "b.test"], ["c.test"])
        for host in ("a.test", "b.test"):
            assert not first.is_closed
            first.told[host](Answer([Node(60)]), 0)
            await waiting[host]
        await asyncio.sleep(0)
        assert (first.is_closed, second.is_closed) == (True, False)
        await made.close()
        assert second.is_closed
        assert (await asyncio.gather(waiting["c.test"], return_exceptions=True))[0].__class__ is asyncio.CancelledError
