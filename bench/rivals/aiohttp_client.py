"""An aiohttp client that keeps a number of connections busy, and checks and times each response."""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time

import aiohttp

from bench.rivals import loops

SIZE = 1024
BODY = b"x" * SIZE


async def fetch(session: aiohttp.ClientSession, url: str, until: float, took: list[int]) -> None:
    """Sends requests until the time is over."""
    while time.monotonic() < until:
        begin = time.perf_counter_ns()
        async with session.get(url) as response:
            body = await response.read()
        if response.status != 200 or body != BODY:
            raise SystemExit(f"wrong answer: status {response.status}, {len(body)} bytes")
        took.append(time.perf_counter_ns() - begin)


async def load(session: aiohttp.ClientSession, url: str, count: int, seconds: float) -> list[int]:
    took: list[int] = []
    until = time.monotonic() + seconds
    await asyncio.gather(*(fetch(session, url, until, took) for _ in range(count)))
    return took


async def main(options: argparse.Namespace) -> None:
    url = f"http://127.0.0.1:{options.port}/{SIZE}"
    connector = aiohttp.TCPConnector(limit=options.connections)
    async with aiohttp.ClientSession(connector=connector) as session:
        await load(session, url, options.connections, 0.5)
        print("ready", flush=True)
        # Nothing else runs at this point, so blocking is harmless.
        if sys.stdin.readline().strip() != "go":
            return
        begin = time.perf_counter()
        took = await load(session, url, options.connections, options.duration)
        seconds = time.perf_counter() - begin
    cuts = statistics.quantiles(took, n=1000, method="inclusive")
    figures = {
        "messages": len(took),
        "throughput": len(took) / seconds,
        "p50_ns": cuts[499],
        "p99_ns": cuts[989],
        "p999_ns": cuts[998],
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", required=True)
    parser.add_argument("--port", required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--duration", type=float, required=True)
    asked = parser.parse_args()
    loops.run(main(asked), asked.loop)
