"""Other threads beside a loop that is always ready: they run long before the interpreter would switch to them."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator

import pytest

# Far more turns than a fair loop takes, and far less time than the switch interval.
SWITCH_INTERVAL_S = 5.0
MOST_TURNS = 1_000_000


@pytest.fixture
def slow_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    yield
    sys.setswitchinterval(before)


async def test_an_executor_runs_beside_a_busy_task(loop: asyncio.AbstractEventLoop, slow_switches: None) -> None:
    for _ in range(3):
        job = loop.run_in_executor(None, threading.get_native_id)
        for _turn in range(MOST_TURNS):
            if job.done():
                break
            await asyncio.sleep(0)
        assert job.done()
    await loop.shutdown_default_executor()


def test_a_thread_runs_beside_a_chain_of_callbacks(loop: asyncio.AbstractEventLoop, slow_switches: None) -> None:
    steps: list[int] = []
    go, ended = threading.Event(), threading.Event()
    turns = 0

    def work() -> None:
        go.wait(30)
        steps.extend(range(10))
        ended.set()

    def turn() -> None:
        nonlocal turns
        turns += 1
        if turns == 100:
            go.set()
        if ended.is_set() or turns == MOST_TURNS:
            loop.stop()
        else:
            loop.call_soon(turn)

    thread = threading.Thread(target=work)
    thread.start()
    loop.call_soon(turn)
    loop.run_forever()
    was_ended = ended.is_set()
    thread.join()
    assert was_ended
    assert len(steps) == 10


def test_a_thread_runs_beside_zero_timers(loop: asyncio.AbstractEventLoop, slow_switches: None) -> None:
    go, ended = threading.Event(), threading.Event()
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        if turns == 100:
            go.set()
        if ended.is_set() or turns == MOST_TURNS:
            loop.stop()
        else:
            loop.call_later(0, turn)

    def work() -> None:
        go.wait(30)
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    loop.call_soon(turn)
    loop.run_forever()
    was_ended = ended.is_set()
    thread.join()
    assert was_ended
