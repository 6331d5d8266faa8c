"""Operations of the loop, measured in the program; the same program for every asyncio loop.

Each function takes the loop, a number of operations and a stopwatch, which it runs only during the operations. It
returns the number of operations.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

from bench.rivals import loops
from bench.rivals.report_line import hand_over

Loop = asyncio.AbstractEventLoop
PENDING = 100_000


class Stopwatch:
    """Sums wall time and this process's CPU time between start and stop."""

    def __init__(self) -> None:
        self.wall_ns = self.cpu_ns = 0

    def start(self) -> None:
        self._cpu, self._wall = time.process_time_ns(), time.perf_counter_ns()

    def stop(self) -> None:
        self.wall_ns += time.perf_counter_ns() - self._wall
        self.cpu_ns += time.process_time_ns() - self._cpu

    def figures(self, count: int) -> dict[str, float]:
        """Per operation."""
        return {
            "ns_per_op": self.wall_ns / count,
            "cpu_ns_per_op": self.cpu_ns / count,
            "ops": float(count),
        }


async def call_soon(loop: Loop, count: int, watch: Stopwatch) -> int:
    """A chain: each callback schedules the next."""
    done = loop.create_future()
    left = count

    def step() -> None:
        nonlocal left
        left -= 1
        if left:
            loop.call_soon(step)
        else:
            done.set_result(None)

    watch.start()
    loop.call_soon(step)
    await done
    watch.stop()
    return count


async def call_later(loop: Loop, count: int, watch: Stopwatch) -> int:
    """A chain of due timers while 100,000 others are pending."""
    pending = [loop.call_later(3600 + n * 1e-3, print) for n in range(PENDING)]
    done = loop.create_future()
    left = count

    def step() -> None:
        nonlocal left
        left -= 1
        if left:
            loop.call_later(0, step)
        else:
            done.set_result(None)

    watch.start()
    loop.call_later(0, step)
    await done
    watch.stop()
    for handle in pending:
        handle.cancel()
    return count


async def call_later_make(loop: Loop, count: int, watch: Stopwatch) -> int:
    """Creates timers that never become due, 100,000 at a time."""
    times = max(1, count // PENDING)
    for _ in range(times):
        watch.start()
        pending = [loop.call_later(3600 + n * 1e-3, print) for n in range(PENDING)]
        watch.stop()
        for handle in pending:
            handle.cancel()
        await asyncio.sleep(0)
    return times * PENDING


async def cancel(loop: Loop, count: int, watch: Stopwatch) -> int:
    """Cancels 100,000 pending timers; includes the work of the loop in the following millisecond."""
    times = max(1, count // PENDING)
    for _ in range(times):
        pending = [loop.call_later(3600 + n * 1e-3, print) for n in range(PENDING)]
        watch.start()
        for handle in pending:
            handle.cancel()
        await asyncio.sleep(1e-3)
        watch.stop()
    return times * PENDING


async def fire(loop: Loop, count: int, watch: Stopwatch) -> int:
    """100,000 timers with different deadlines, created in random order, that all become due."""
    times = max(1, count // PENDING)
    for _ in range(times):
        done = loop.create_future()
        left = PENDING

        def step() -> None:
            nonlocal left
            left -= 1
            if not left:
                done.set_result(None)  # noqa: B023 - awaited below, in the same round

        watch.start()
        now = loop.time()
        for n in range(PENDING):
            loop.call_at(now + (n * 7919 % PENDING) * 1e-7, step)
        await done
        watch.stop()
    return times * PENDING


async def sleep_zero(loop: Loop, count: int, watch: Stopwatch) -> int:
    """A task switch: ten tasks that yield in turn."""
    each = count // 10

    async def spin() -> None:
        for _ in range(each):
            await asyncio.sleep(0)

    watch.start()
    await asyncio.gather(*(spin() for _ in range(10)))
    watch.stop()
    return each * 10


async def create_task(loop: Loop, count: int, watch: Stopwatch) -> int:
    """Creates a task and awaits it."""

    async def nothing() -> None:
        return

    watch.start()
    for _ in range(count):
        await loop.create_task(nothing())
    watch.stop()
    return count


async def future_wakeup(loop: Loop, count: int, watch: Stopwatch) -> int:
    """Two tasks that wake each other through futures."""
    ping: asyncio.Future[None] = loop.create_future()
    pong: asyncio.Future[None] = loop.create_future()

    async def answer() -> None:
        nonlocal ping
        for _ in range(count):
            await ping
            ping = loop.create_future()
            pong.set_result(None)

    task = loop.create_task(answer())
    watch.start()
    for _ in range(count):
        ping.set_result(None)
        await pong
        pong = loop.create_future()
    watch.stop()
    await task
    return 2 * count


async def queue(loop: Loop, count: int, watch: Stopwatch) -> int:
    """Two tasks that pass a value back and forth through two queues."""
    there: asyncio.Queue[int] = asyncio.Queue()
    back: asyncio.Queue[int] = asyncio.Queue()

    async def answer() -> None:
        for _ in range(count):
            back.put_nowait(await there.get())

    task = loop.create_task(answer())
    watch.start()
    for number in range(count):
        there.put_nowait(number)
        await back.get()
    watch.stop()
    await task
    return 2 * count


async def call_soon_threadsafe(loop: Loop, count: int, watch: Stopwatch) -> int:
    """Another thread floods the loop."""
    done = loop.create_future()
    left = count

    def step() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set_result(None)

    def flood() -> None:
        for _ in range(count):
            loop.call_soon_threadsafe(step)

    thread = threading.Thread(target=flood)
    watch.start()
    thread.start()
    await done
    watch.stop()
    thread.join()
    return count


async def executor(loop: Loop, count: int, watch: Stopwatch) -> int:
    """A round trip to the default executor."""

    def nothing() -> None:
        return

    await loop.run_in_executor(None, nothing)
    watch.start()
    for _ in range(count):
        await loop.run_in_executor(None, nothing)
    watch.stop()
    return count


Operation = Callable[[Loop, int, Stopwatch], Awaitable[int]]

#: Operation -> the function and the number of operations for a stable figure.
OPERATIONS: dict[str, tuple[Operation, int]] = {
    "call_soon": (call_soon, 400_000),
    "call_later": (call_later, 200_000),
    "call_later_make": (call_later_make, 200_000),
    "cancel": (cancel, 200_000),
    "fire": (fire, 200_000),
    "sleep_zero": (sleep_zero, 300_000),
    "create_task": (create_task, 100_000),
    "future_wakeup": (future_wakeup, 100_000),
    "queue": (queue, 60_000),
    "call_soon_threadsafe": (call_soon_threadsafe, 200_000),
    "executor": (executor, 10_000),
}


def make_close(name: str, count: int, watch: Stopwatch) -> int:
    """Creates a loop, runs it once and closes it."""
    make = loops.factory(name)
    watch.start()
    for _ in range(count):
        loop = make()
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
    watch.stop()
    return count


async def timed(operation: Operation, count: int) -> dict[str, float]:
    """A shorter run to warm up, then the measured one."""
    loop = asyncio.get_running_loop()
    await operation(loop, max(10, count // 20), Stopwatch())
    watch = Stopwatch()
    return watch.figures(await operation(loop, count, watch))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", required=True)
    parser.add_argument("--operation", required=True)
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    if options.operation == "make_close":
        make_close(options.loop, 10, Stopwatch())
        watch = Stopwatch()
        hand_over(watch.figures(make_close(options.loop, options.count, watch)))
        return
    operation, _ = OPERATIONS[options.operation]
    figures: dict[str, float] = {}

    async def run() -> None:
        figures.update(await timed(operation, options.count))

    loops.run(run(), options.loop)
    hand_over(figures)


if __name__ == "__main__":
    main()
