"""Starting processes and resolving names with trio, measured in the program."""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

import argparse

import trio

from bench.rivals import spawn_options
from bench.rivals.repeating import repeated
from bench.rivals.report_line import hand_over


async def work(host: str, count: int) -> int:
    for _ in range(count):
        if host:
            await trio.socket.getaddrinfo(host, 80)
        else:
            await trio.run_process(["/bin/true"])
    return count


async def main(options: argparse.Namespace) -> None:
    await work(options.host, 2)
    hand_over(await repeated(lambda: work(options.host, options.count), options.seconds, sleep=trio.sleep))


if __name__ == "__main__":
    asked = spawn_options.parser().parse_args()
    ballast = spawn_options.ballast(asked.parent_mib)
    trio.run(main, asked)
