"""Under load: many requests, programs that forget theirs, buffers and memory that must come back."""

from __future__ import annotations

import gc
import mmap
import os
import random
import tracemalloc
import weakref
from typing import Literal

import pytest

from oneloop import aio
from tests.aio.conftest import BLOCK, Storage

Engine = Literal["ring", "aio"]


class Buffer(bytearray):
    """One that can be watched."""


def test_ten_thousand_at_once(engine: Engine, file: int) -> None:
    count = 10_000
    targets = [bytearray(1) for _ in range(count)]
    with aio.Context(count, engine) as context:
        submitted = context.submit(*(aio.Read(file, target, n % 10) for n, target in enumerate(targets)))
        assert submitted == count
        got = 0
        while got < count:
            events = context.get_events(1, count)
            got += len(events)
            assert all(event.response == 1 for event in events)
    assert all(target == b"%d" % (n % 10) for n, target in enumerate(targets))


def test_ten_thousand_one_after_the_other(context: aio.Context, storage: Storage) -> None:
    """More than one kernel queue full, at a depth of 32."""
    chance = random.Random(3)
    buffers = [mmap.mmap(-1, BLOCK) for _ in range(32)]
    free, expected, done = list(buffers), {}, 0
    while done < 10_000:
        batch = []
        while free:
            number = chance.randrange(16)
            read = aio.Read(storage.fd, free.pop(), number * BLOCK)
            expected[read] = number
            batch.append(read)
        assert context.submit(*batch) == len(batch)
        for event in context.get_events(1, 32):
            assert event.result() == BLOCK
            assert isinstance(event.request, aio.Read)
            buffer = event.request.buffer
            assert isinstance(buffer, mmap.mmap)
            assert buffer[0] == buffer[BLOCK - 1] == ord("a") + expected.pop(event.request)
            free.append(buffer)
            done += 1
    context.get_events(context.in_flight, 32)


def test_forgotten_requests_under_load(engine: Engine, storage: Storage) -> None:
    """The program drops every reference while the kernel writes; no buffer is freed too early or kept."""
    chance = random.Random(5)
    size = 0 if storage.is_direct else BLOCK
    watched: list[weakref.ref[Buffer]] = []
    maps: list[mmap.mmap] = []
    with aio.Context(128, engine) as context:
        for turn in range(200):
            batch: list[aio.Request] = []
            for _ in range(chance.randint(1, 64)):
                if storage.is_direct:
                    maps.append(mmap.mmap(-1, BLOCK))
                    batch.append(aio.Read(storage.fd, maps[-1], chance.randrange(16) * BLOCK))
                else:
                    buffer = Buffer(size)
                    watched.append(weakref.ref(buffer))
                    batch.append(aio.Read(storage.fd, buffer, chance.randrange(16) * BLOCK))
            taken = 0
            while taken < len(batch):
                try:
                    taken += context.submit(*batch[taken:])
                except BlockingIOError:
                    context.get_events(1, 16)
            del batch
            if turn % 20 == 0:
                gc.collect()
            # What is freed too early is soon somebody else's.
            assert all(block == bytes(BLOCK) for block in [bytes(BLOCK) for _ in range(8)])
            for event in context.get_events(0, chance.randint(0, 64)):
                assert event.response == BLOCK
        while context.in_flight:
            context.get_events(1, 128)
        gc.collect()
        buffer = None  # type: ignore[assignment]
        event = None  # type: ignore[assignment]
        assert [gone for gone in watched if gone() is not None] == []
    for mapped in maps:
        # BufferError if anybody still has it pinned.
        mapped.close()


def test_contexts_closed_in_mid_flight(engine: Engine, storage: Storage) -> None:
    for _ in range(50):
        buffers = [mmap.mmap(-1, BLOCK) for _ in range(32)]
        with aio.Context(32, engine) as context:
            context.submit(*(aio.Read(storage.fd, one, n % 16 * BLOCK) for n, one in enumerate(buffers)))
        for buffer in buffers:
            buffer.close()


@pytest.mark.parametrize("kind", ["read", "write", "vectors", "poll", "refused"])
def test_nothing_leaks(engine: Engine, file: int, kind: str) -> None:
    signal = os.eventfd(1)

    def turn(context: aio.Context) -> None:
        request: aio.Request
        if kind == "read":
            request = aio.Read(file, bytearray(10))
        elif kind == "write":
            request = aio.Write(file, b"0123456789")
        elif kind == "vectors":
            request = aio.ReadV(file, [bytearray(3), bytearray(3)])
        elif kind == "poll":
            request = aio.Poll(signal, 1)
        else:
            with pytest.raises(OSError, match="Bad file descriptor"):
                context.submit(aio.Read(9999, bytearray(1)))
            return
        context.submit(request)
        (event,) = context.get_events(1, 1)
        assert event.result() > 0

    with aio.Context(4, engine) as context:
        for _ in range(100):
            turn(context)
        gc.collect()
        resident = _resident()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(3000):
            turn(context)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    os.close(signal)
    # Python objects, then what the extension allocates itself.
    assert grown < 20_000, grown
    if "ONELOOP_SANITIZED" not in os.environ:  # a sanitizer keeps what was freed
        assert _resident() - resident < 4 << 20


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
