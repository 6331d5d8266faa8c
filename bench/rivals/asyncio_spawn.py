"""Starting processes and resolving names from an asyncio loop, measured in the program."""

from __future__ import annotations

import argparse
import asyncio
import time

from bench.rivals import loops
from bench.rivals.report_line import hand_over


async def spawn(count: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(count):
        process = await asyncio.create_subprocess_exec("/bin/true")
        if await process.wait() != 0:
            raise SystemExit("/bin/true failed")
    return (time.perf_counter_ns() - begin) / count


async def resolve(host: str, count: int) -> float:
    loop = asyncio.get_running_loop()
    await loop.getaddrinfo(host, 80)
    begin = time.perf_counter_ns()
    for _ in range(count):
        await loop.getaddrinfo(host, 80)
    return (time.perf_counter_ns() - begin) / count


async def main(options: argparse.Namespace) -> None:
    if options.host:
        figure = await resolve(options.host, options.count)
    else:
        await spawn(2)
        figure = await spawn(options.count)
    hand_over({"ns_per_op": figure, "ops": options.count})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--parent-mib", type=int, default=0)
    parser.add_argument("--host", default="")
    asked = parser.parse_args()
    # Written to, so that the pages exist: fork has to copy their page table.
    ballast = bytearray(b"1") * (asked.parent_mib << 20)
    loops.run(main(asked), asked.loop)
