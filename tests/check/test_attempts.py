"""What one attempt leaves behind for the next: Retry-After's forms, pauses, a GET after a HEAD."""

from __future__ import annotations

import asyncio
import gzip
import random
import socket
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, closing, suppress

import pytest

from tests.conftest import settle

pytest.importorskip("pycares")

from oneloop.check import Options, Result, Target, check, fetch
from oneloop.check.checking import Run
from oneloop.check.schedule import Hold, Job, Schedule
from tests.check.checked import checked
from tests.client.servers import Peer, RawServer

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


async def test_a_host_that_asks_for_too_long_is_not_asked_again(
    loop: asyncio.AbstractEventLoop,
) -> None:
    asked: list[str] = []

    def answer(_: str, path: str) -> str:
        asked.append(path)
        return "503 Later\r\nRetry-After: 3600"

    async with answering(answer) as site, asyncio.timeout(60):
        found = await checked([f"{site}/{name}" for name in "abc"], retries=1, retry_after_s=60, per_host=1)
    assert [(result.outcome, result.attempts) for result in found] == [
        ("503", 1),
        ("retry_after", 0),
        ("retry_after", 0),
    ]
    assert asked == ["/a"]
    assert "no requests for another 3600 s" in found[1].error_text


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
        async with asyncio.timeout(60):
            (found,) = await checked([url], timeout_s=0.05, connect_timeout_s=60, first_byte_timeout_s=60)
    assert found.outcome == "timeout"


async def test_pauses_double_and_half_of_each_is_certain(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses_s = []
    again = Schedule.again

    def noted(schedule: Schedule, job: Job, delay_s: float) -> None:
        pauses_s.append(delay_s)
        again(schedule, job, delay_s)

    monkeypatch.setattr(Schedule, "again", noted)
    monkeypatch.setattr(random, "uniform", lambda least, most: least)
    async with answering(lambda method, path: "502 Later") as site:
        (found,) = await checked([site], retries=3, retry_delay_s=0.002)
    assert (found.outcome, found.attempts) == ("502", 4)
    assert pauses_s == [0.001, 0.002, 0.004]


async def test_a_cut_answer_is_tried_again(loop: asyncio.AbstractEventLoop) -> None:
    async with answering(lambda method, path: "what") as site:
        (found,) = await checked([site], retries=1, retry_delay_s=0)
    assert (found.outcome, found.attempts) == ("protocol", 2)


async def test_a_retry_after_of_exactly_the_limit_is_obeyed(loop: asyncio.AbstractEventLoop) -> None:
    async with answering(lambda method, path: "429 Later\r\nRetry-After: 0") as site:
        (found,) = await checked([site], retries=1, retry_after_s=0, retry_delay_s=0)
    assert (found.outcome, found.attempts) == ("429", 2)


async def test_a_body_of_exactly_the_limit_keeps_its_connection(loop: asyncio.AbstractEventLoop) -> None:
    """Its end comes later than its bytes."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
                await settle(50)
                writer.write(b"0\r\n\r\n")

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        found = await checked([url] * 3, per_host=1, body_limit_bytes=3)
    assert [(result.outcome, result.body_bytes) for result in found] == [("200", 3)] * 3
    assert connections == 1


class Instant:
    """A fetcher that knows all answers."""

    def __init__(self) -> None:
        self.count = 0

    async def fetch(self, target: Target) -> fetch.Attempt:
        self.count += 1
        return fetch.Attempt(Result(target.number, target.url, status=200))


async def test_a_slow_consumer_makes_all_wait(loop: asyncio.AbstractEventLoop) -> None:
    fetcher = Instant()
    async with Run(Options(concurrency=2), fetcher) as run:  # type: ignore[arg-type]
        run._most_found = 10
        async with aclosing(run.results(f"http://a/{number}" for number in range(1000))) as results:
            assert (await anext(results)).number == 1
            await settle(200)
            assert fetcher.count <= 12
            assert sorted([result.number async for result in results]) == list(range(2, 1001))


async def test_urls_are_numbered_from_1(loop: asyncio.AbstractEventLoop) -> None:
    async def urls() -> AsyncIterator[str | Target]:
        for url in ("http://a/", Target(7, "http://b/"), "http://c/"):
            yield url

    for given in (urls(), [url async for url in urls()]):
        async with Run(Options(), Instant()) as run:  # type: ignore[arg-type]
            assert sorted([result.number async for result in run.results(given)]) == [1, 3, 7]


async def test_pauses_that_others_were_asked_for_are_kept(loop: asyncio.AbstractEventLoop) -> None:
    run = Run(Options(), Instant(), {"a": Hold(1000, 0)})  # type: ignore[arg-type]
    assert list(run.holds()) == ["a"]


async def test_options_are_given_in_one_way(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(TypeError, match="not both"):
        await anext(check([], Options(), retries=1))


@pytest.mark.parametrize("coding", ["", "gzip", "deflate", "raw deflate", "gzip, cut"])
async def test_a_list_that_is_fetched_is_decoded(loop: asyncio.AbstractEventLoop, coding: str) -> None:
    text = b"http://somewhere.example/\n" * 20_000
    body = {
        "": text,
        "gzip": gzip.compress(text),
        "deflate": zlib.compress(text),
        "raw deflate": zlib.compress(text, wbits=-15),
        "gzip, cut": gzip.compress(text)[:-9],
    }[coding]
    name = coding.removeprefix("raw ").removesuffix(", cut")

    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(body, "200 OK", *([f"Content-Encoding: {name}"] if name else []))

    with RawServer(serve) as server:
        async with fetch.Fetcher(Options()) as fetcher, aclosing(fetcher.body(server.url)) as pieces:
            if coding.endswith("cut"):
                with pytest.raises(OSError, match="ends too early"):
                    [piece async for piece in pieces]
                return
            assert b"".join([piece async for piece in pieces]) == text
