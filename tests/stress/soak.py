"""`make soak HOURS=n`: mixed load for hours; memory, descriptors and threads must stay flat, every byte must be right.

The jobs of tests/stress/jobs.py run at once and for ever. After a warm-up, samples are taken between rounds, when
nothing is under way and the allocator has given back what it kept. The run fails when the least of the later half is
above the least of the earlier: what leaks raises every sample, what an allocator happens to hold only some.

With `--faults` (a build with the feature), a few system calls of each round fail: then a job may see an exception, but
not more jobs than calls have failed, and none after a fault that a program may not notice.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from tests.loops import FACTORIES
from tests.stress.few_faults import FewFaults
from tests.stress.jobs import Load, Rooms
from tests.stress.samples import Sample, draw, growth, take, thread_count


class Lag:
    """The latest that a timer was since the last look."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.task = asyncio.ensure_future(self._measure())

    async def _measure(self) -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(0.01)
            self.longest_s = max(self.longest_s, time.monotonic() - began_s - 0.01)

    def take(self) -> float:
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s


def _wrong(load: Load, faults: FewFaults, happened: int) -> str:
    """What the last round has seen that its faults do not explain."""
    damaged, load.damaged = load.damaged, []
    if len(damaged) <= min(happened, faults.harmful):
        return ""
    seen = [f"{name}: {error!r}" for name, error in damaged]
    return f"{len(damaged)} jobs were damaged by {happened} faults ({faults.ordered}): {seen}"


async def _warm_up(load: Load) -> int:
    """Until ten rounds have started no thread: pools start one when all of theirs are busy, on a busy machine later.

    Returns the most threads that there were.
    """
    most, calm = 0, 0
    while calm < 10:
        await load.round()
        threads = thread_count()
        calm = calm + 1 if threads <= most else 0
        most = max(most, threads)
    return most


async def soak(options: argparse.Namespace) -> int:
    load = (Rooms if options.loop == "oneloop" else Load)(options.seed)
    await load.start()
    reports: list[dict[str, Any]] = []
    problems: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    faults = FewFaults(options.faults, options.seed)
    lag = Lag()
    most_threads = await _warm_up(load)
    assert not load.damaged, load.damaged
    samples: list[Sample] = []
    began_s = time.monotonic()
    deadline_s = began_s + options.minutes * 60
    next_line_s = 0.0
    while time.monotonic() < deadline_s or len(samples) < 8:
        faults.begin()
        try:
            async with asyncio.timeout(120):
                await load.round()
        except TimeoutError:
            problems.append(f"a round does not end: {faults.ordered}")
            break
        if wrong := _wrong(load, faults, faults.end()):
            problems.append(wrong)
            print(wrong, flush=True)
        samples.append(take(began_s, lag.take()))
        if time.monotonic() > next_line_s:
            next_line_s = time.monotonic() + 10
            left_s = max(0, deadline_s - time.monotonic())
            last = samples[-1]
            print(f"{left_s:5.0f} s left: rss {last.resident_bytes >> 10} KiB, descriptors {last.open_descriptors}, "
                  f"threads {last.threads}, lag {last.lag_s * 1e3:.0f} ms", flush=True)  # fmt: skip
    lag.task.cancel()
    if not problems:
        await load.stop()
    print("jobs done: " + ", ".join(f"{name} {count}" for name, count in load.done.items()))
    print(f"{load.rounds} rounds, {faults.happened} faults, {getattr(load, 'reloads', 0)} reloads")
    if options.picture:
        draw(samples, options.picture)
    return judge(samples, [] if faults.rate else reports, problems, most_threads)


def judge(samples: list[Sample], reports: list[dict[str, Any]], problems: list[str], most_threads: int = 0) -> int:
    """Print what is wrong and return the exit status. `reports`: unexpected calls of the exception handler."""
    problems = [*problems, *growth(samples, most_threads)]
    if reports:
        problems.append(f"the exception handler was called {len(reports)} times, first: {reports[0]}")
    for problem in problems:
        print(f"FAIL {problem}")
    print("soak: " + ("FAILED" if problems else "passed"))
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--hours", type=float, default=0.0, help="beside the minutes")
    parser.add_argument("--loop", choices=list(FACTORIES), default="oneloop")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=0, help="so many system calls of each round fail")
    parser.add_argument("--picture", type=Path, help="write the figures as an SVG picture")
    arguments = parser.parse_args()
    arguments.minutes += 60 * arguments.hours
    if arguments.faults and not FewFaults.is_there():
        parser.error("--faults needs an extension that scripts/build-faults.sh has built")
    with asyncio.Runner(loop_factory=FACTORIES[arguments.loop]) as runner:
        return runner.run(soak(arguments))


if __name__ == "__main__":
    sys.exit(main())
