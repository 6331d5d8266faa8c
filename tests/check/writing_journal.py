"""A run that writes a journal: goes on where the last one was, a few results at a time, until it is done or killed.

Arguments: the journal, how many entries there are, a seed.
"""

from __future__ import annotations

import asyncio
import random
import sys

from oneloop.check.journal import Journal
from oneloop.check.result import Hop, Result, Target


def result_for(number: int) -> Result:
    """The result that a run has for an entry; any run the same."""
    url = f"http://a.example/{number}"
    if number % 5 == 0:
        return Result(number, url, error="dns", error_text="no such name: ünknown\n", total_s=0.1 * number)
    hops = (Hop(301, url), Hop(302, url + "x" * (number % 700))) if number % 3 == 0 else ()
    return Result(number, url, status=200, final_url=url, redirects=hops, total_s=number / 3, body_bytes=number)


async def main(path: str, count: int, seed: int) -> None:
    randomness = random.Random(seed)
    journal = Journal(path, "urls.txt")
    for _ in journal.open():
        pass
    left = [
        number for number in range(1, count + 1) if not journal.is_done(Target(number, f"http://a.example/{number}"))
    ]
    randomness.shuffle(left)
    for number in left:
        journal.add(result_for(number))
        if randomness.random() < 0.3:
            await asyncio.sleep(0)
            print(len(journal), flush=True)
    journal.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
