"""Timeouts of waits in coroutines that are no numbers: refused as in green threads, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green.event import AsyncResult, Event
from oneloop.green.lock import Semaphore
from oneloop.green.queue import Channel, JoinableQueue, PriorityQueue, Queue

Wait = Callable[[Any], Any]


def full(queue: Any) -> Any:
    queue.put_nowait("first")
    return queue


# What waits for how long -> who is in its line.
WAITS: dict[str, Callable[[], tuple[Wait, Callable[[], int]]]] = {
    "Event.wait": lambda: _of(Event(), lambda event, limit: event.wait(limit), Event.linkcount),
    "AsyncResult.get": lambda: _of(
        AsyncResult(), lambda result, limit: result.get(timeout=limit), AsyncResult.linkcount
    ),
    "AsyncResult.wait": lambda: _of(AsyncResult(), lambda result, limit: result.wait(limit), AsyncResult.linkcount),
    "Semaphore.acquire": lambda: _of(
        Semaphore(0), lambda lock, limit: lock.acquire(timeout=limit), Semaphore.linkcount
    ),
    "Semaphore.wait": lambda: _of(Semaphore(0), lambda lock, limit: lock.wait(limit), Semaphore.linkcount),
    "Queue.get": lambda: _of(Queue(), lambda queue, limit: queue.get(timeout=limit), lambda queue: len(queue._getters)),
    "Queue.put": lambda: _of(
        full(Queue(1)), lambda queue, limit: queue.put(1, timeout=limit), lambda queue: len(queue._putters)
    ),
    "PriorityQueue.get": lambda: _of(
        PriorityQueue(), lambda queue, limit: queue.get(timeout=limit), lambda queue: len(queue._getters)
    ),
    "Channel.get": lambda: _of(
        Channel(), lambda queue, limit: queue.get(timeout=limit), lambda queue: len(queue._getters)
    ),
    "Channel.put": lambda: _of(
        Channel(), lambda queue, limit: queue.put(1, timeout=limit), lambda queue: len(queue._putters)
    ),
    "JoinableQueue.join": lambda: _of(
        full(JoinableQueue()), lambda queue, limit: queue.join(limit), lambda queue: len(queue._finishers)
    ),
}


def _of(thing: Any, wait: Callable[[Any, Any], Any], count: Callable[[Any], int]) -> tuple[Wait, Callable[[], int]]:
    return lambda limit: wait(thing, limit), lambda: count(thing)


@pytest.mark.parametrize("limit", ["x", "0.01", 10**400, [], object()], ids=lambda limit: type(limit).__name__)
@pytest.mark.parametrize("name", WAITS)
def test_refused_as_in_a_green_thread(name: str, limit: Any) -> None:
    wait, waiting = WAITS[name]()

    async def awaited() -> None:
        waits: Awaitable[Any] = wait(limit)
        await asyncio.wait_for(waits, 60)

    with pytest.raises((TypeError, OverflowError)) as in_coroutine:
        oneloop.run(awaited())
    assert waiting() == 0
    wait, waiting = WAITS[name]()
    with pytest.raises((TypeError, OverflowError)) as in_green_thread:
        green.spawn(wait, limit).get()
    assert waiting() == 0
    assert type(in_coroutine.value) is type(in_green_thread.value)
