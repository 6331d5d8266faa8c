"""What one attempt leaves behind for the next: Retry-After's forms, pauses, a GET after a HEAD."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("pycares")

from oneloop.check import fetch
from tests.check.checked import checked

Answer = Callable[[str, str], str]
"""What is answered to a method and a path."""


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.split(" ", 2)
        writer.write(f"HTTP/1.1 {answer(method, path)}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_where_a_head_was_redirected_is_not_where_the_get_ended(loop: asyncio.AbstractEventLoop) -> None:
    def answer(method: str, path: str) -> str:
        if method == "GET":
            return "200 OK"
        return "405 No" if path == "/b" else "302 Found\r\nLocation: /b"

    async with answering(answer) as site:
        (found,) = await checked([f"{site}/a"], method="HEAD")
    assert (found.outcome, found.final_url, found.redirects) == ("200", f"{site}/a", ())


async def test_thousands_of_retries(loop: asyncio.AbstractEventLoop) -> None:
    """A pause doubles each time: not beyond what a float can hold."""
    asked: Counter[str] = Counter()

    def answer(_: str, path: str) -> str:
        asked[path] += 1
        return "200 OK" if asked[path] > 1100 else "503 Later"

    async with answering(answer) as site:
        (found,) = await checked([f"{site}/a"], retries=2000, retry_delay_s=1e-320)
    assert (found.outcome, found.attempts) == ("200", 1101)


async def test_a_host_that_asks_for_too_long_is_left_alone_for_as_long_as_is_allowed(
    loop: asyncio.AbstractEventLoop,
) -> None:
    async with answering(lambda method, path: "503 Later\r\nRetry-After: 3600") as site, asyncio.timeout(20):
        found = await checked([f"{site}/a", f"{site}/b"], retries=1, retry_after_s=0.05, per_host=1)
    assert [(result.outcome, result.attempts) for result in found] == [("503", 1)] * 2


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"])
def test_dates_are_gmt_wherever_this_runs(form: str, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The three forms of RFC 9110 section 5.6.7; the last one names no zone."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        found = fetch._seconds(time.strftime(form, time.gmtime(time.time() + 100)))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found is not None
    assert 90 < found <= 100
    assert fetch._seconds("Sun Nov  6 08:49:37 1994") == 0


async def test_a_refused_connection_is_tried_again(loop: asyncio.AbstractEventLoop) -> None:
    (found,) = await checked(["http://127.0.0.1:1/"], retries=2, retry_delay_s=0.001)
    assert (found.outcome, found.attempts) == ("connect", 3)


async def test_a_phase_with_a_long_limit_does_not_move_the_end_of_the_whole(loop: asyncio.AbstractEventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        async with asyncio.timeout(20):
            (found,) = await checked([url], timeout_s=0.05, connect_timeout_s=60, first_byte_timeout_s=60)
    assert found.outcome == "timeout"
