"""Operations of green threads, measured in the program: switch, spawn, memory of a parked one.

The same work for gevent, plain greenlets, threads, asyncio tasks and oneloop.green.
"""

# mypy: disable-error-code="import-untyped,import-not-found"
# Gevent and greenlet have no stubs, oneloop.green may not exist yet.
from __future__ import annotations

import argparse
import asyncio
import importlib
import queue as stock_queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from bench.measure import private_bytes, read_usage
from bench.rivals import loops
from bench.rivals.repeating import repeated_blocking
from bench.rivals.report_line import hand_over


class Threads(Protocol):
    """The operations that a rival must have."""

    def switch(self, count: int) -> None:
        """Ten threads that yield in turn, count times in all."""

    def spawn(self, count: int) -> None:
        """Starts threads that end immediately, one after the other, and waits for each."""

    @contextmanager
    def parked(self, count: int) -> Iterator[None]:
        """Starts this number of threads that wait for an event."""

    def sleep(self, seconds: float) -> None:
        """Lets the others run for so long."""


class Primitives(Threads, Protocol):
    """Further operations, which some rivals have."""

    def lock(self, count: int) -> None:
        """Acquires and releases an uncontended lock."""

    def handover(self, count: int) -> None:
        """Hands items to another thread through a queue with room for one."""


class Pooled(Primitives, Protocol):
    """The operation of rivals that have pools of cheap threads."""

    def pool(self, count: int) -> None:
        """Starts threads of a pool with room for a hundred."""


class Gevent:
    package = "gevent"

    def __init__(self) -> None:
        self.gevent = importlib.import_module(self.package)
        self.event, self.lock_module, self.queue, self.pool_module = (
            importlib.import_module(f"{self.package}.{name}") for name in ("event", "lock", "queue", "pool")
        )
        self.sleep = self.gevent.sleep

    def lock(self, count: int) -> None:
        lock = self.lock_module.Semaphore()
        acquire, release = lock.acquire, lock.release
        for _ in range(count):
            acquire()
            release()

    def handover(self, count: int) -> None:
        queue = self.queue.Queue(1)

        def produce() -> None:
            for number in range(count):
                queue.put(number)

        def consume() -> None:
            for _ in range(count):
                queue.get()

        self.gevent.joinall([self.gevent.spawn(consume), self.gevent.spawn(produce)])

    def pool(self, count: int) -> None:
        pool = self.pool_module.Pool(100)
        for _ in range(count):
            pool.spawn(int)
        pool.join()

    def switch(self, count: int) -> None:
        def spin() -> None:
            for _ in range(count // 10):
                self.gevent.sleep(0)

        self.gevent.joinall([self.gevent.spawn(spin) for _ in range(10)])

    def spawn(self, count: int) -> None:
        for _ in range(count):
            self.gevent.spawn(int).join()

    @contextmanager
    def parked(self, count: int) -> Iterator[None]:
        event = self.event.Event()
        threads = [self.gevent.spawn(event.wait) for _ in range(count)]
        self.gevent.sleep(0)
        yield
        event.set()
        self.gevent.joinall(threads)


class Greenlet:
    """No loop: switching directly between greenlets is the floor."""

    def __init__(self) -> None:
        import greenlet

        self.greenlet = greenlet
        self.sleep = time.sleep

    def switch(self, count: int) -> None:
        main = self.greenlet.getcurrent()

        def spin() -> None:
            while True:
                main.switch()

        others = [self.greenlet.greenlet(spin) for _ in range(10)]
        for _ in range(count // 20):
            for other in others:
                other.switch()

    def spawn(self, count: int) -> None:
        for _ in range(count):
            self.greenlet.greenlet(int).switch()

    @contextmanager
    def parked(self, count: int) -> Iterator[None]:
        main = self.greenlet.getcurrent()
        threads = [self.greenlet.greenlet(main.switch) for _ in range(count)]
        for thread in threads:
            thread.switch()
        yield
        for thread in threads:
            thread.switch()


class OsThreads:
    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def lock(self, count: int) -> None:
        lock = threading.Semaphore()
        acquire, release = lock.acquire, lock.release
        for _ in range(count):
            acquire()
            release()

    def handover(self, count: int) -> None:
        queue = stock_queue.Queue[int](1)

        def consume() -> None:
            for _ in range(count):
                queue.get()

        thread = threading.Thread(target=consume)
        thread.start()
        for number in range(count):
            queue.put(number)
        thread.join()

    def switch(self, count: int) -> None:
        batons = [threading.Semaphore(0) for _ in range(10)]
        each = count // 10

        def spin(number: int) -> None:
            for _ in range(each):
                batons[number].acquire()
                batons[(number + 1) % 10].release()

        threads = [threading.Thread(target=spin, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        batons[0].release()
        for thread in threads:
            thread.join()

    def spawn(self, count: int) -> None:
        for _ in range(count):
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()

    @contextmanager
    def parked(self, count: int) -> Iterator[None]:
        event = threading.Event()
        threads = [threading.Thread(target=event.wait) for _ in range(count)]
        for thread in threads:
            thread.start()
        yield
        event.set()
        for thread in threads:
            thread.join()


class Oneloop(Gevent):
    """oneloop.green."""

    package = "oneloop.green"


class Tasks:
    """asyncio tasks, which are not threads: they cannot block inside a call."""

    def __init__(self, loop: str) -> None:
        self.loop = loops.factory(loop)()

    def sleep(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def lock(self, count: int) -> None:
        async def main() -> None:
            lock = asyncio.Lock()
            for _ in range(count):
                await lock.acquire()
                lock.release()

        self.loop.run_until_complete(main())

    def handover(self, count: int) -> None:
        async def produce(queue: asyncio.Queue[int]) -> None:
            for number in range(count):
                await queue.put(number)

        async def consume(queue: asyncio.Queue[int]) -> None:
            for _ in range(count):
                await queue.get()

        async def main() -> None:
            queue = asyncio.Queue[int](1)
            await asyncio.gather(produce(queue), consume(queue))

        self.loop.run_until_complete(main())

    def switch(self, count: int) -> None:
        async def spin() -> None:
            for _ in range(count // 10):
                await asyncio.sleep(0)

        async def main() -> None:
            await asyncio.gather(*(spin() for _ in range(10)))

        self.loop.run_until_complete(main())

    def spawn(self, count: int) -> None:
        async def nothing() -> None:
            return

        async def main() -> None:
            for _ in range(count):
                await self.loop.create_task(nothing())

        self.loop.run_until_complete(main())

    @contextmanager
    def parked(self, count: int) -> Iterator[None]:
        event = asyncio.Event()
        tasks = [self.loop.create_task(event.wait()) for _ in range(count)]
        self.loop.run_until_complete(asyncio.sleep(0))
        yield
        event.set()
        self.loop.run_until_complete(asyncio.gather(*tasks))


RIVALS: dict[str, Callable[[], Threads]] = {
    "gevent": Gevent,
    "greenlet": Greenlet,
    "threads": OsThreads,
    "oneloop": Oneloop,
    "tasks on asyncio": lambda: Tasks("asyncio"),
    "tasks on uvloop": lambda: Tasks("uvloop"),
}


def timed(rival: Threads, operation: Callable[[int], None], count: int, least_s: float) -> dict[str, float]:
    """Nanoseconds per operation, wall and CPU; the operations are repeated until they took `least_s`."""

    def batch() -> int:
        operation(count)
        return count

    operation(max(20, count // 20))
    return repeated_blocking(batch, least_s, rival.sleep)


def memory(rival: Threads, count: int) -> dict[str, float]:
    """Private and virtual memory of one parked thread."""
    import os

    with rival.parked(10):
        pass
    before, vss = private_bytes(os.getpid()), read_usage(os.getpid()).vss_bytes
    with rival.parked(count):
        usage = read_usage(os.getpid())
        after = private_bytes(os.getpid())
    return {
        "bytes_per_item": max(0, after - before) / count,
        "vss_bytes_per_item": max(0, usage.vss_bytes - vss) / count,
        "rss_bytes": usage.rss_bytes,
        "vss_bytes": usage.vss_bytes,
        "threads": usage.threads,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rival", required=True)
    parser.add_argument("--operation", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.0, help="the operations are repeated for at least this long")
    asked = parser.parse_args()
    chosen = RIVALS[asked.rival]()
    if asked.operation == "parked":
        hand_over(memory(chosen, asked.count))
    else:
        hand_over(timed(chosen, getattr(chosen, asked.operation), asked.count, asked.seconds))
