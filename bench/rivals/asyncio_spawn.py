"""Starting processes and resolving names from an asyncio loop, measured in the program."""

from __future__ import annotations

import argparse
import asyncio

from bench.rivals import loops, spawn_options
from bench.rivals.repeating import repeated
from bench.rivals.report_line import hand_over


async def spawn() -> None:
    process = await asyncio.create_subprocess_exec("/bin/true")
    if await process.wait() != 0:
        raise SystemExit("/bin/true failed")


async def main(options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()

    async def work(count: int) -> int:
        for _ in range(count):
            if options.host:
                await loop.getaddrinfo(options.host, 80)
            else:
                await spawn()
        return count

    await work(2)
    hand_over(await repeated(lambda: work(options.count), options.seconds))


if __name__ == "__main__":
    parser = spawn_options.parser()
    parser.add_argument("--loop", required=True)
    asked = parser.parse_args()
    ballast = spawn_options.ballast(asked.parent_mib)
    loops.run(main(asked), asked.loop)
