"""Starting processes and resolving names with trio, measured in the program."""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

import argparse
import time

import trio

from bench.rivals.report_line import hand_over


async def spawn(count: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(count):
        await trio.run_process(["/bin/true"])
    return (time.perf_counter_ns() - begin) / count


async def resolve(host: str, count: int) -> float:
    await trio.socket.getaddrinfo(host, 80)
    begin = time.perf_counter_ns()
    for _ in range(count):
        await trio.socket.getaddrinfo(host, 80)
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
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--parent-mib", type=int, default=0)
    parser.add_argument("--host", default="")
    asked = parser.parse_args()
    ballast = bytearray(b"1") * (asked.parent_mib << 20)
    trio.run(main, asked)
