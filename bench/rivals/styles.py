"""One small job in six styles: threads, processes, asyncio, uvloop, oneloop's coroutines, oneloop's green threads.

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

STYLES = ("threads", "processes", "asyncio", "uvloop", "oneloop coroutines", "oneloop green")
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


LOOPS = {"asyncio": "asyncio", "uvloop": "uvloop", "oneloop coroutines": "oneloop"}
PROGRAMS: dict[str, Callable[[list[str]], list[Answer]]] = {
    "threads": in_threads,
    "processes": in_processes,
    **{style: on_loop(name) for style, name in LOOPS.items()},
    "oneloop green": in_green_threads,
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
    __import__("aiohttp" if asked.style in LOOPS else "requests")
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
