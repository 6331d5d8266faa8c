"""The loop's own operations, timed from inside, the same program on every asyncio loop.

Each function takes the loop and a number of operations and returns nanoseconds per operation.
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


async def call_soon(loop: Loop, count: int) -> float:
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

    begin = time.perf_counter_ns()
    loop.call_soon(step)
    await done
    return (time.perf_counter_ns() - begin) / count


async def call_later(loop: Loop, count: int) -> float:
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

    begin = time.perf_counter_ns()
    loop.call_later(0, step)
    await done
    elapsed = time.perf_counter_ns() - begin
    for handle in pending:
        handle.cancel()
    return elapsed / count


async def call_later_make(loop: Loop, count: int) -> float:
    """Making timers that never fall due, 100,000 at a time."""
    elapsed = 0
    for _ in range(max(1, count // PENDING)):
        begin = time.perf_counter_ns()
        pending = [loop.call_later(3600 + n * 1e-3, print) for n in range(PENDING)]
        elapsed += time.perf_counter_ns() - begin
        for handle in pending:
            handle.cancel()
        await asyncio.sleep(0)
    return elapsed / (max(1, count // PENDING) * PENDING)


async def cancel(loop: Loop, count: int) -> float:
    """Cancelling 100,000 pending timers, with what the loop then does about them."""
    elapsed = 0
    times = max(1, count // PENDING)
    for _ in range(times):
        pending = [loop.call_later(3600 + n * 1e-3, print) for n in range(PENDING)]
        begin = time.perf_counter_ns()
        for handle in pending:
            handle.cancel()
        await asyncio.sleep(0)
        elapsed += time.perf_counter_ns() - begin
    return elapsed / (times * PENDING)


async def sleep_zero(loop: Loop, count: int) -> float:
    """A task switch: ten tasks that yield in turn."""
    each = count // 10

    async def spin() -> None:
        for _ in range(each):
            await asyncio.sleep(0)

    begin = time.perf_counter_ns()
    await asyncio.gather(*(spin() for _ in range(10)))
    return (time.perf_counter_ns() - begin) / (each * 10)


async def create_task(loop: Loop, count: int) -> float:
    """Making a task and awaiting it."""

    async def nothing() -> None:
        return

    begin = time.perf_counter_ns()
    for _ in range(count):
        await loop.create_task(nothing())
    return (time.perf_counter_ns() - begin) / count


async def future_wakeup(loop: Loop, count: int) -> float:
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
    begin = time.perf_counter_ns()
    for _ in range(count):
        ping.set_result(None)
        await pong
        pong = loop.create_future()
    elapsed = time.perf_counter_ns() - begin
    await task
    return elapsed / (2 * count)


async def queue(loop: Loop, count: int) -> float:
    """Two tasks that hand a value back and forth through two queues."""
    there: asyncio.Queue[int] = asyncio.Queue()
    back: asyncio.Queue[int] = asyncio.Queue()

    async def answer() -> None:
        for _ in range(count):
            back.put_nowait(await there.get())

    task = loop.create_task(answer())
    begin = time.perf_counter_ns()
    for number in range(count):
        there.put_nowait(number)
        await back.get()
    elapsed = time.perf_counter_ns() - begin
    await task
    return elapsed / (2 * count)


async def call_soon_threadsafe(loop: Loop, count: int) -> float:
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
    begin = time.perf_counter_ns()
    thread.start()
    await done
    elapsed = time.perf_counter_ns() - begin
    thread.join()
    return elapsed / count


async def executor(loop: Loop, count: int) -> float:
    """A round trip to the default executor."""

    def nothing() -> None:
        return

    await loop.run_in_executor(None, nothing)
    begin = time.perf_counter_ns()
    for _ in range(count):
        await loop.run_in_executor(None, nothing)
    return (time.perf_counter_ns() - begin) / count


Operation = Callable[[Loop, int], Awaitable[float]]

#: Operation -> the program and how many operations make a steady figure.
OPERATIONS: dict[str, tuple[Operation, int]] = {
    "call_soon": (call_soon, 400_000),
    "call_later": (call_later, 200_000),
    "call_later_make": (call_later_make, 200_000),
    "cancel": (cancel, 200_000),
    "sleep_zero": (sleep_zero, 300_000),
    "create_task": (create_task, 100_000),
    "future_wakeup": (future_wakeup, 100_000),
    "queue": (queue, 60_000),
    "call_soon_threadsafe": (call_soon_threadsafe, 200_000),
    "executor": (executor, 10_000),
}


def make_close(name: str, count: int) -> float:
    """Making a loop, running it once and closing it."""
    make = loops.factory(name)
    begin = time.perf_counter_ns()
    for _ in range(count):
        loop = make()
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
    return (time.perf_counter_ns() - begin) / count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", required=True)
    parser.add_argument("--operation", required=True)
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    if options.operation == "make_close":
        make_close(options.loop, 10)
        hand_over({"ns_per_op": make_close(options.loop, options.count), "ops": options.count})
        return
    operation, _ = OPERATIONS[options.operation]

    async def timed() -> float:
        loop = asyncio.get_running_loop()
        await operation(loop, max(10, options.count // 20))
        cpu = time.process_time_ns()
        result = await operation(loop, options.count)
        figures["cpu_ns_per_op"] = (time.process_time_ns() - cpu) / options.count
        return result

    figures = {"ops": float(options.count)}

    async def run() -> None:
        figures["ns_per_op"] = await timed()

    loops.run(run(), options.loop)
    hand_over(figures)


if __name__ == "__main__":
    main()
