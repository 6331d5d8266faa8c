"""writelines(): all or nothing, of whatever can be iterated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.peers import KINDS, connected
from tests.transport.places import run_in

BAD_LINES: dict[str, Callable[[], Any]] = {
    "str": lambda: [b"a", "text", b"b"],
    "int": lambda: [b"a", b"b", 1],
    "None at first": lambda: [None, b"a"],
    "list": lambda: [b"a", [b"b"]],
    "in a generator": lambda: (item for item in (b"a", object(), b"b")),
    "no iterable": lambda: 3,
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.oneloop_only(
    "stock asyncio passes over None from 3.14, and keeps what it met before it from 3.15", since=(3, 14)
)
@pytest.mark.parametrize("lines", BAD_LINES)
async def test_writelines_with_a_bad_item_sends_nothing(loop: asyncio.AbstractEventLoop, kind: str, lines: str) -> None:
    async with connected(kind) as (transport, _, peer):

        def act() -> None:
            transport.write(b"before,")
            with pytest.raises(TypeError):
                transport.writelines(BAD_LINES[lines]())
            transport.write(b"after")

        await run_in("call_soon", act)
        transport.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert peer.take_all() == b"before,after"


@pytest.mark.oneloop_only("stock asyncio keeps the items before the exception, and never sends them", since=(3, 15))
async def test_writelines_with_a_generator_that_raises_sends_nothing(
    loop: asyncio.AbstractEventLoop, kind: str
) -> None:
    def lines() -> Iterator[bytes]:
        yield b"lost"
        raise LookupError

    async with connected(kind) as (transport, _, peer):
        with pytest.raises(LookupError):
            transport.writelines(lines())
        transport.write(b"after")
        transport.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert peer.take_all() == b"after"


async def test_writelines_of_everything(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    lines: list[Any] = [b"a", bytearray(b"b"), memoryview(b"c"), b"", memoryview(b"x-y")[2:], b"d" * 20_000, b"e"]
    async with connected(kind) as (transport, _, peer):

        def act() -> None:
            transport.writelines(lines)
            transport.writelines(item for item in lines)
            transport.writelines(tuple(lines))
            transport.writelines([])

        await run_in("call_soon", act)
        expected = b"".join(lines) * 3
        assert peer.take(len(expected)) == expected
