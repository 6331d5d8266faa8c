"""The cost of the same Python callbacks and coroutines without a loop: a deque, `coroutine.send`.

The floor of the primitives: no clock, no system calls, no handles, contexts or exceptions. There is no floor for
threads and executors, whose cost is in the kernel.
"""

from __future__ import annotations

import argparse
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator

from bench.rivals.report_line import hand_over


def call_soon(count: int) -> None:
    ready: deque[Callable[[], None]] = deque()
    left = count

    def step() -> None:
        nonlocal left
        left -= 1
        if left:
            ready.append(step)

    ready.append(step)
    while ready:
        ready.popleft()()


@types.coroutine
def _switch() -> Generator[None, None, None]:
    yield


async def _spin(count: int) -> None:
    for _ in range(count):
        await _switch()


def _drive(ready: deque[Coroutine[None, None, None]]) -> None:
    while ready:
        coroutine = ready.popleft()
        try:
            coroutine.send(None)
        except StopIteration:
            continue
        ready.append(coroutine)


def sleep_zero(count: int) -> None:
    _drive(deque(_spin(count // 10) for _ in range(10)))


async def _nothing() -> None:
    return


def create_task(count: int) -> None:
    ready: deque[Coroutine[None, None, None]] = deque()
    for _ in range(count):
        ready.append(_nothing())
        _drive(ready)


OPERATIONS: dict[str, Callable[[int], None]] = {
    "call_soon": call_soon,
    "sleep_zero": sleep_zero,
    "create_task": create_task,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--operation", required=True)
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    operation = OPERATIONS[options.operation]
    operation(max(10, options.count // 20))
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    operation(options.count)
    elapsed, used = time.perf_counter_ns() - begin, time.process_time_ns() - cpu
    count = options.count
    hand_over({"ns_per_op": elapsed / count, "cpu_ns_per_op": used / count, "ops": float(count)})


main()
