"""Mistakes that type checkers must report, one a line. Nobody runs this: `make lint` lets mypy and pyright read it.

Both checkers report a comment that ignores an error which is not there.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true
from __future__ import annotations

import oneloop
from oneloop import files, green, http
from oneloop.green.event import AsyncResult
from oneloop.green.pool import Pool
from oneloop.green.queue import Queue


def area(width: int, height: int = 1, *, unit: str = "m") -> str:
    return f"{width * height} {unit}"


def green_threads() -> None:
    green.spawn(area)  # type: ignore[call-arg]  # an argument is missing
    green.spawn(area, "2")  # type: ignore[arg-type]  # an argument of another type
    green.spawn(area, 2, unit=3)  # type: ignore[arg-type]  # a named argument of another type
    green.spawn(area, 2, colour="red")  # type: ignore[call-arg]  # no such argument
    green.spawn_later("soon", area, 2)  # type: ignore[arg-type]  # the time is no number
    green.with_timeout(1, area, "2")  # type: ignore[call-overload]  # an argument of another type
    green.spawn(area, 2).get() + 1  # type: ignore[operator]  # the result is a string
    Pool().spawn(area, 2).get().nothing()  # type: ignore[attr-defined]  # a string has no such attribute


def queues_and_results(numbers: Queue[int], result: AsyncResult[bytes]) -> None:
    numbers.put("one")  # type: ignore[arg-type]  # no number
    numbers.get().upper()  # type: ignore[attr-defined]  # numbers have no such method
    result.set("text")  # type: ignore[arg-type]  # no bytes


async def opened_files(mode: str) -> None:
    await files.open("text", "rw")  # type: ignore[call-overload]  # no such mode
    await files.open("text", mode)  # type: ignore[call-overload]  # any string
    await files.open("text", "rb", encoding="utf-8")  # type: ignore[call-overload]  # bytes have no encoding
    files.Path("text").open("rw")  # type: ignore[call-overload]  # no such mode
    with files.open("text"):  # type: ignore[attr-defined]  # only `async with`
        pass


async def asked(client: http.AsyncClient) -> None:
    await client.get("http://localhost", jsn={})  # type: ignore[call-arg]  # no such argument
    client.get("http://localhost").json()  # type: ignore[attr-defined]  # it is not awaited


async def main() -> float:
    return 0.5


def loops() -> None:
    oneloop.run(main)  # type: ignore[arg-type]  # a function, not a coroutine
