"""Operations of the loop, measured in the program; the same program for every asyncio loop.

Each function takes the loop, a number of operations and a stopwatch, which it runs only during the operations. It
returns the number of operations. The window ends when the loop has nothing left to do (`Stopwatch.stop_at_rest`). The
operations of timers are in `timer_primitives`.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

from bench.rivals import loops
from bench.rivals.report_line import hand_over
from bench.rivals.stopwatch import Stopwatch, deferred_blocking_ns
from bench.rivals.timer_primitives import call_later, call_later_make, cancel, fire, random_order, timeouts

Loop = asyncio.AbstractEventLoop


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
    await watch.stop_at_rest()
    return count


async def sleep_zero(loop: Loop, count: int, watch: Stopwatch) -> int:
    """A task switch: ten tasks that yield in turn."""
    each = count // 10

    async def spin() -> None:
        for _ in range(each):
            await asyncio.sleep(0)

    watch.start()
    await asyncio.gather(*(spin() for _ in range(10)))
    await watch.stop_at_rest()
    return each * 10


async def create_task(loop: Loop, count: int, watch: Stopwatch) -> int:
    """Creates a task and awaits it."""

    async def nothing() -> None:
        return

    watch.start()
    for _ in range(count):
        await loop.create_task(nothing())
    await watch.stop_at_rest()
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
    await watch.stop_at_rest()
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
    await watch.stop_at_rest()
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
    await watch.stop_at_rest()
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
    await watch.stop_at_rest()
    return count


Operation = Callable[[Loop, int, Stopwatch], Awaitable[int]]

#: Operation -> the function and the number of operations for a stable figure.
OPERATIONS: dict[str, tuple[Operation, int]] = {
    "call_soon": (call_soon, 400_000),
    "call_later": (call_later, 50_000),
    "call_later_make": (call_later_make, 200_000),
    "cancel": (cancel, 200_000),
    "timeouts": (timeouts, 200_000),
    "random_order": (random_order, 200_000),
    "fire": (fire, 200_000),
    "sleep_zero": (sleep_zero, 300_000),
    "create_task": (create_task, 100_000),
    "future_wakeup": (future_wakeup, 100_000),
    "queue": (queue, 60_000),
    "call_soon_threadsafe": (call_soon_threadsafe, 200_000),
    "executor": (executor, 10_000),
}


#: Not repeated: they leave cancelled timers behind, and a loop that keeps those would be slower with every repetition.
ONCE = frozenset({"call_later", "call_later_make", "cancel", "timeouts"})


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
    # No loop is left that could do it: this is the work of threads.
    watch.add(deferred_blocking_ns(time.sleep))
    return count


async def timed(operation: Operation, count: int, least_s: float) -> tuple[dict[str, float], list[str]]:
    """A shorter run to warm up, then as many as take `least_s` together. Returns their figures and notes."""
    loop = asyncio.get_running_loop()
    await operation(loop, max(10, count // 20), Stopwatch())
    watch = Stopwatch()
    done = await operation(loop, count, watch)
    while watch.wall_ns < least_s * 1e9:
        done += await operation(loop, count, watch)
    return watch.figures(done), list(dict.fromkeys(watch.notes))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", required=True)
    parser.add_argument("--operation", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.0, help="the operations are repeated for at least this long")
    options = parser.parse_args()
    if options.operation == "make_close":
        make_close(options.loop, 10, Stopwatch())
        watch, done = Stopwatch(), 0
        while not done or watch.wall_ns < options.seconds * 1e9:
            done += make_close(options.loop, options.count, watch)
        hand_over(watch.figures(done))
        return
    operation, _ = OPERATIONS[options.operation]
    found: list[tuple[dict[str, float], list[str]]] = []

    async def run() -> None:
        found.append(await timed(operation, options.count, 0.0 if options.operation in ONCE else options.seconds))

    loops.run(run(), options.loop)
    hand_over(*found[0])


if __name__ == "__main__":
    main()
