"""Checks the URLs of a site of its own on a Dask cluster of its own; a worker may be killed on the way.

Usage: spread_program.py COUNT KILL_AT; prints counts, how many numbers came, the most requests at once at a host.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing

import psutil

import oneloop
from oneloop.check import Options, Target
from oneloop.check.spread import DaskWorkers, check_spread
from tests.check.site import serving


def youngest_worker() -> int:
    children = psutil.Process().children(recursive=True)
    return int([child.pid for child in children if "resource_tracker" not in " ".join(child.cmdline())][-1])


async def main(count: int, kill_at: int) -> None:
    outcomes: Counter[str] = Counter()
    numbers = set()
    async with serving(delay_s=0.002) as site, DaskWorkers("local:2") as workers:

        async def urls() -> AsyncIterator[Target]:
            for number in range(1, count + 1):
                yield Target(number, f"http://127.0.0.{1 + number % 20}:{site.port}/{number}")

        async with aclosing(check_spread(urls(), Options(per_host=2, concurrency=40), workers)) as found:
            async for result in found:
                outcomes[result.outcome] += 1
                numbers.add(result.number)
                if sum(outcomes.values()) == kill_at:
                    os.kill(youngest_worker(), signal.SIGKILL)
        print(json.dumps({"counts": outcomes, "numbers": len(numbers), "most": max(site.most.values())}))


if __name__ == "__main__":
    oneloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
