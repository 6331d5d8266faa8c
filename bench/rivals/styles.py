"""One small job in eight styles: threads, processes, asyncio, uvloop, oneloop's coroutines and its green threads.

The last two have both the client that their users have today, and oneloop's own.
The job `statuses` requests 31 URLs and counts the statuses; `days` requests 365 days of a JSON API and sums them.
Each style is typical for its users: `requests` for blocking calls, aiohttp for awaited ones, and as many concurrent
requests as the style allows.
"""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.rivals import loops
from bench.rivals.report_line import hand_over

OWN_COROUTINES, OWN_GREEN = "oneloop coroutines, its client", "oneloop green, its client"
STYLES = (
    "threads", "processes", "asyncio", "uvloop", "oneloop coroutines", OWN_COROUTINES, "oneloop green", OWN_GREEN,
)  # fmt: skip
"""The order of display."""
THREADS = 32
PROCESSES = 16
AT_ONCE = 100
"""aiohttp's own limit of connections; green threads have the same."""

URLS = {"statuses": 31, "days": 365}
Answer = tuple[int, Any]


def ask(url: str) -> Answer:
    """With requests: the status, and the JSON if it is that."""
    import requests

    answer = requests.get(url, timeout=30)
    return answer.status_code, answer.json() if "/days/" in url else None


def in_threads(urls: list[str]) -> list[Answer]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(ask, urls))


def in_processes(urls: list[str]) -> list[Answer]:
    import multiprocessing

    with multiprocessing.Pool(PROCESSES) as pool:
        found = pool.map(ask, urls)
        pool.close()
        pool.join()
    return found


def in_green_threads(urls: list[str]) -> list[Answer]:
    from oneloop.green.pool import Pool

    return list(Pool(AT_ONCE).map(ask, urls))


async def _ask_all(urls: list[str]) -> list[Answer]:
    import aiohttp

    async def ask_one(url: str) -> Answer:
        async with session.get(url) as answer:
            return answer.status, await (answer.json() if "/days/" in url else answer.read())

    async with aiohttp.ClientSession() as session:
        return await asyncio.gather(*map(ask_one, urls))


def on_loop(name: str) -> Callable[[list[str]], list[Answer]]:
    def run(urls: list[str]) -> list[Answer]:
        with asyncio.Runner(loop_factory=loops.factory(name)) as runner:
            return runner.run(_ask_all(urls))

    return run


def with_own_client(urls: list[str]) -> list[Answer]:
    import oneloop
    from oneloop.http import AsyncClient, Limits

    async def ask_all() -> list[Answer]:
        async def ask_one(url: str) -> Answer:
            answer = await client.get(url)
            return answer.status_code, answer.json() if "/days/" in url else answer.content

        async with AsyncClient(limits=Limits(AT_ONCE, AT_ONCE), timeout=30) as client:
            return await asyncio.gather(*map(ask_one, urls))

    return oneloop.run(ask_all())


def with_own_client_in_green_threads(urls: list[str]) -> list[Answer]:
    from oneloop.green.pool import Pool
    from oneloop.http import Client, Limits

    def ask_one(url: str) -> Answer:
        answer = client.get(url)
        return answer.status_code, answer.json() if "/days/" in url else answer.content

    with Client(limits=Limits(AT_ONCE, AT_ONCE), timeout=30) as client:
        return list(Pool(AT_ONCE).map(ask_one, urls))


LOOPS = {"asyncio": "asyncio", "uvloop": "uvloop", "oneloop coroutines": "oneloop"}
_LIBRARIES = {
    OWN_COROUTINES: ("oneloop.loop", "oneloop.http.client.async_client"),
    OWN_GREEN: ("oneloop.green.pool", "oneloop.http.client.sync_client"),
}
PROGRAMS: dict[str, Callable[[list[str]], list[Answer]]] = {
    "threads": in_threads,
    "processes": in_processes,
    **{style: on_loop(name) for style, name in LOOPS.items()},
    OWN_COROUTINES: with_own_client,
    "oneloop green": in_green_threads,
    OWN_GREEN: with_own_client_in_green_threads,
}


def result_of(job: str, answers: list[Answer]) -> dict[str, float]:
    """The statuses, and for days the sum of the temperatures."""
    found: dict[str, float] = dict(Counter(str(status) for status, _ in answers))
    if job == "days":
        found["sum"] = sum(day["temperature"] for _, day in answers)
    return found


def expected(job: str) -> dict[str, float]:
    found: dict[str, float] = {"200": URLS[job]}
    if job == "days":
        found["sum"] = sum(day % 40 - 10 for day in range(URLS[job]))
    return found


def cpu_ns() -> float:
    """The CPU time of this process and of its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used) * 1e9


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--style", choices=STYLES, required=True)
    parser.add_argument("--job", choices=list(URLS), required=True)
    parser.add_argument("--port", type=int, required=True)
    asked = parser.parse_args()
    if asked.style == "oneloop green":
        from oneloop.green import monkey

        monkey.patch_all()
    # The client and the loop are already imported, as in a long-running program. Processes import the client again.
    for name in _LIBRARIES.get(asked.style, ("aiohttp",) if asked.style in LOOPS else ("requests",)):
        __import__(name)
    if asked.style in LOOPS:
        loops.factory(LOOPS[asked.style])
    kind = "days/" if asked.job == "days" else ""
    urls = [f"http://127.0.0.1:{asked.port}/{kind}{number}" for number in range(URLS[asked.job])]
    before_ns, began_ns = cpu_ns(), time.monotonic_ns()
    answers = PROGRAMS[asked.style](urls)
    wall_ns = time.monotonic_ns() - began_ns
    used_ns = cpu_ns() - before_ns
    found = result_of(asked.job, answers)
    if found != expected(asked.job):
        sys.exit(f"found {found}, where {expected(asked.job)} was to be found")
    hand_over({"wall_ns": wall_ns, "cpu_ns_per_op": used_ns / len(urls)})


if __name__ == "__main__":
    main()
