"""What type checkers must accept and infer. Nobody runs this: `make lint` lets mypy and pyright read it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, assert_type

import oneloop
from oneloop import files, green, http
from oneloop.files import BinaryFile, TextFile, UnbufferedFile
from oneloop.green.event import AsyncResult
from oneloop.green.pool import Group, Pool
from oneloop.green.queue import Queue
from oneloop.green.threadpool import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from _typeshed import OpenBinaryMode, OpenTextMode


def area(width: int, height: int = 1, *, unit: str = "m") -> str:
    return f"{width * height} {unit}"


class Square(green.Greenlet[float]):
    """A subclass with its own arguments."""

    def __init__(self, side: float) -> None:
        super().__init__()
        self.side = side

    def _run(self) -> float:
        return self.side**2


def green_threads(pool: Pool, group: Group, threads: ThreadPool) -> None:
    greenlet = green.spawn(area, 2, height=3, unit="cm")
    assert_type(greenlet, green.Greenlet[str])
    assert_type(greenlet.get(), str)
    assert_type(greenlet.get(timeout=2.5), str)
    assert_type(greenlet.value, str | None)
    assert_type(green.spawn_later(0.5, area, 2), green.Greenlet[str])
    assert_type(green.Greenlet(area, 2).get(), str)
    assert_type(Square(2.0).get(), float)
    assert_type(Square.spawn(2.0).side, float)
    assert_type(pool.spawn(area, 2), green.Greenlet[str])
    assert_type(group.spawn(area, 2, unit="cm"), green.Greenlet[str])
    assert_type(pool.map(area, [1, 2]), list[str])
    assert_type(pool.apply(area, (1,)), str)
    assert_type(threads.spawn(area, 2).get(), str)
    assert_type(green.with_timeout(1, area, 2, unit="cm"), str)
    assert_type(green.with_timeout(1, area, 2, timeout_value=None), str | None)
    several: list[green.Greenlet[object]] = [green.spawn(area, 1), green.spawn(len, "two")]
    green.joinall(several)
    assert_type(green.joinall([greenlet]), list[green.Greenlet[str]])
    assert_type(green.wait([greenlet], timeout=1), list[green.Greenlet[str]])
    assert_type(green.wait(timeout=1), bool)
    for ended in green.iwait([greenlet]):
        assert_type(ended.get(), str)


def queues_and_results(numbers: Queue[int], result: AsyncResult[bytes], awaited: Awaitable[bool]) -> None:
    assert_type(numbers.get(), int)
    assert_type(numbers.get(timeout=1), int)
    assert_type(numbers.get_nowait(), int)
    assert_type(next(numbers), int)
    assert_type(Queue(items=["a"]).get(), str)
    numbers.put(3, timeout=1)
    assert_type(result.get(), bytes)
    assert_type(result.value, bytes | None)
    assert_type(green.await_(awaited), bool)


async def in_coroutines(
    loop: oneloop.Loop, greenlet: green.Greenlet[str], numbers: Queue[int], result: AsyncResult[bytes]
) -> None:
    assert_type(await greenlet, str)
    assert_type(await result, bytes)
    assert_type(await anext(numbers), int)
    async for number in numbers:
        assert_type(number, int)
    assert_type(await loop.run_green(area, 2), str)
    assert_type(await loop.run_in_executor(None, area, 2), str)
    assert_type((await loop.getaddrinfo("localhost", 80))[0][3], str)


async def opened_files(mode: OpenTextMode | OpenBinaryMode) -> None:
    async with files.open("text") as text:
        assert_type(text, TextFile)
        assert_type(await text.read(), str)
        async for line in text:
            assert_type(line, str)
    async with files.open("data", "rb") as data:
        assert_type(data, BinaryFile)
        assert_type(await data.read(), bytes)
    assert_type(await files.open("data", "wb", buffering=0), UnbufferedFile)
    assert_type(await files.open("data", "rb", direct=True), UnbufferedFile)
    assert_type(await files.open("data", mode), TextFile | BinaryFile | UnbufferedFile)
    assert_type(await files.read_text("text"), str)
    assert_type(await files.Path("text").read_bytes(), bytes)
    assert_type(await files.Path("text").open(), TextFile)
    assert_type(await files.Path("text").open("rb"), BinaryFile)
    assert_type(await files.Path("text").open("rb", 0), UnbufferedFile)
    assert_type(await files.Path("text").open(mode), TextFile | BinaryFile | UnbufferedFile)
    async with files.TemporaryDirectory(prefix="a") as folder:
        assert_type(folder, str)
    assert_type((await files.TemporaryDirectory(b"a")).name, bytes | None)


async def asked_by_coroutines() -> None:
    async with http.AsyncClient(base_url="http://localhost", timeout=5.0) as client:
        response = await client.get("/", params={"q": "1"}, headers={"Accept": "*/*"})
        assert_type(response, http.Response)
        assert_type(response.status_code, int)
        assert_type(response.text, str)
        async with client.stream("GET", "/") as streamed:
            assert_type(streamed, http.Response)
            async for part in streamed.aiter_bytes():
                assert_type(part, bytes)


def asked_by_plain_code() -> None:
    with http.Client() as client:
        assert_type(client.post("http://localhost", json={"a": [1]}), http.Response)
    assert_type(http.get("http://localhost").content, bytes)


async def main() -> float:
    return 0.5


def loops() -> None:
    assert_type(oneloop.run(main()), float)
    assert_type(oneloop.new_event_loop(), oneloop.Loop)
    with asyncio.Runner(loop_factory=oneloop.new_event_loop) as runner:
        assert_type(runner.run(main()), float)
    found: Any = asyncio.new_event_loop()
    assert isinstance(found, oneloop.Loop)
    assert_type(found.statistics(), oneloop.Statistics)
