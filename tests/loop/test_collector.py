"""The garbage collector and handles: what can be reached is never cleared, what cannot be reached goes.

asyncio's handles are Python objects, whose collection the interpreter answers for; ours are native.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import socket
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests import descriptors, programs
from tests.loops import LoopFactory, new_loop

SEEDS = 300


class Owner:
    """What a callback belongs to."""

    def __init__(self) -> None:
        self.handle: Any = None
        self.calls = 0

    def call(self, *_: object) -> None:
        self.calls += 1


SCHEDULE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "call_soon": lambda loop, owner, _: loop.call_soon(owner.call, owner),
    "call_soon_threadsafe": lambda loop, owner, _: loop.call_soon_threadsafe(owner.call, owner),
    "call_later": lambda loop, owner, _: loop.call_later(3600, owner.call, owner),
    "call_at": lambda loop, owner, _: loop.call_at(loop.time() + 3600, owner.call, owner),
    "add_reader": lambda loop, owner, pair: loop._add_reader(pair[0].fileno(), owner.call, owner),
    "add_writer": lambda loop, owner, pair: loop._add_writer(pair[0].fileno(), owner.call, owner),
}


@pytest.mark.parametrize("schedule", SCHEDULE)
def test_a_cycle_through_a_dropped_loop_is_collected(
    loop_factory: LoopFactory, pair: Any, schedule: str, recwarn: pytest.WarningsRecorder
) -> None:
    """Loop, handle, callback, its owner, and the handle again: an unclosed loop that nobody knows any more."""
    before = descriptors.open_descriptors()
    made = loop_factory()
    owner = Owner()
    alive = weakref.ref(owner)
    owner.handle = (SCHEDULE[schedule](made, owner, pair), made)
    del owner
    gc.collect()
    assert alive() is not None, "collected while the loop holds it"
    del made
    gc.collect()
    gc.collect()
    assert alive() is None
    assert not descriptors.opened_since(before)
    recwarn.clear()


@pytest.mark.parametrize("schedule", ["call_soon", "call_soon_threadsafe", "call_later", "call_at"])
def test_a_kept_handle_keeps_its_callback_while_it_may_run(loop: Any, schedule: str) -> None:
    owner = Owner()
    alive = weakref.ref(owner)
    handle = SCHEDULE[schedule](loop, owner, None)
    del owner
    gc.collect()
    assert alive() is not None
    handle.cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    gc.collect()
    assert alive() is None
    assert handle.cancelled()


@pytest.mark.parametrize("schedule", SCHEDULE)
def test_nothing_is_cleared_while_it_can_be_reached(loop: Any, pair: Any, schedule: str) -> None:
    """gc.collect() in every callback; what is scheduled runs with the arguments that it was given."""
    ours, theirs = pair
    seen: list[Any] = []

    def call(argument: Any) -> None:
        gc.collect()
        seen.append(argument.calls)
        loop._remove_reader(ours.fileno())
        loop._remove_writer(ours.fileno())
        loop.stop()

    theirs.send(b"x")
    for _ in range(3):
        holder = Owner()
        holder.handle = None
        if schedule in ("add_reader", "add_writer"):
            getattr(loop, f"_{schedule}")(ours.fileno(), call, holder)
        elif schedule.startswith("call_soon"):
            holder.handle = getattr(loop, schedule)(call, holder)
        else:
            holder.handle = loop.call_later(0.0001, call, holder)
        del holder
        gc.collect()
        loop.run_forever()
        gc.collect()
    assert seen == [0, 0, 0]


@pytest.mark.parametrize("kind", ["reader", "writer"])
def test_a_handler_that_keeps_the_handle_of_a_callback(loop_name: str, kind: str) -> None:
    """In a process of its own: the collector cleared it while the loop went on to use it."""
    body = f"""
    import gc
    loop = new_loop()
    kept = []

    class Owner:
        def fail(self):
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls > 50:
                loop.stop()
            raise LookupError

    def handler(loop, context):
        kept.append(context["handle"])
        kept.append(context)
        gc.collect()
        repr(kept[0])

    loop.set_exception_handler(handler)
    ours, theirs = socket.socketpair()
    theirs.send(b"x")
    owner = Owner()
    loop.add_{kind}(ours, owner.fail)
    del owner
    loop.run_forever()
    assert len(kept) == 102, len(kept)
    handle = kept[0]
    for number in range(10):
        gc.collect()
        loop.stop()
        loop.run_forever()
    loop.remove_{kind}(ours)
    gc.collect()
    assert handle.cancelled() and all(each.cancelled() for each in kept[::2])
    loop.close()
    del loop
    gc.collect()
    print(len(kept), repr(handle) != "")
    ours.close()
    theirs.close()
    """
    done = programs.run(loop_name, body, options=("-X", "faulthandler", "-W", "ignore"))
    assert (done.returncode, done.stdout.split()[1:]) == (0, ["True"]), done.stderr


def test_a_loop_whose_timer_is_kept_goes_with_the_timer(
    loop_factory: LoopFactory, recwarn: pytest.WarningsRecorder
) -> None:
    before = descriptors.open_descriptors()
    made = loop_factory()
    handle = made.call_later(3600, print)
    del made
    gc.collect()
    handle.cancel()
    gc.collect()
    del handle
    gc.collect()
    gc.collect()
    assert not descriptors.opened_since(before)
    recwarn.clear()


def test_an_unclosed_loop_of_many_kept_handles(loop_factory: LoopFactory, recwarn: pytest.WarningsRecorder) -> None:
    before = descriptors.open_descriptors()
    made = loop_factory()
    kept: list[Any] = []
    for number in range(50):
        kept.append(made.call_later(3600 + number, kept.append, kept))
        kept.append(made.call_soon(kept.append, kept))
    made.stop()
    made.run_forever()
    del made, kept
    gc.collect()
    gc.collect()
    assert not descriptors.opened_since(before)
    recwarn.clear()


@pytest.mark.parametrize("schedule", ["call_soon", "call_soon_threadsafe", "call_later", "call_at"])
def test_handles_take_weak_references(loop: Any, schedule: str) -> None:
    when = {"call_later": (0,), "call_at": (loop.time(),)}.get(schedule, ())
    handle = getattr(loop, schedule)(*when, Owner().call)
    gone: list[object] = []
    alive = weakref.ref(handle, gone.append)
    assert alive() is handle
    assert handle in weakref.WeakSet([handle])
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert alive() is handle
    del handle
    gc.collect()
    assert alive() is None
    assert gone == [alive]


class Mix:
    """A random program of handles in cycles, and a model of which callbacks must run."""

    def __init__(self, name: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.loop: Any = new_loop(name)
        self.pairs = [socket.socketpair() for _ in range(3)]
        self.kept: list[Any] = []
        self.expected: set[int] = set()
        self.ran: set[int] = set()
        self.number = 0

    def callback(self) -> tuple[int, Any]:
        owner = Owner()
        self.number += 1
        number = self.number

        def call(*_: object) -> None:
            assert owner.calls == 0
            owner.call()
            self.ran.add(number)

        owner.call_back = call  # type: ignore[attr-defined]
        return number, owner

    def step(self) -> None:
        number, owner = self.callback()
        kind = self.random.randrange(8)
        if kind <= 2:
            owner.handle = self.loop.call_soon(owner.call_back, owner)
            self.expected.add(number)
        elif kind <= 4:
            owner.handle = self.loop.call_later(0, owner.call_back, owner)
            self.expected.add(number)
        elif kind == 5:
            owner.handle = self.loop.call_later(self.random.choice([0, 3600]), owner.call_back, owner)
            owner.handle.cancel()
        elif kind == 6:
            ours, _ = self.random.choice(self.pairs)
            self.loop.add_reader(ours, owner.call_back, owner)
        else:
            self.loop.stop()
            self.loop.run_forever()
        if self.random.random() < 0.3:
            self.kept.append(self.random.choice([owner, owner.handle]))
        if self.kept and self.random.random() < 0.3:
            self.kept.pop(self.random.randrange(len(self.kept)))
        del owner
        gc.collect(self.random.choice([0, 0, 0, 1]))

    def end(self) -> None:
        self.loop.call_later(0.001, self.loop.stop)
        self.loop.run_forever()
        for pair in self.pairs:
            self.loop.remove_reader(pair[0])
            for end in pair:
                end.close()
        assert self.ran == self.expected
        if self.random.random() < 0.5:
            self.loop.close()
        else:
            self.loop.call_later(3600, self.end, self.kept)


@pytest.mark.parametrize("tens", range(SEEDS // 10))
def test_random_handles_under_a_collector_that_always_runs(
    loop_name: str, tens: int, recwarn: pytest.WarningsRecorder
) -> None:
    before = gc.get_threshold()
    opened = descriptors.open_descriptors()
    gc.set_threshold(1)
    try:
        for seed in range(10 * tens, 10 * tens + 10):
            mix = Mix(loop_name, seed)
            for _ in range(mix.random.randrange(5, 40)):
                mix.step()
            mix.end()
            del mix
    finally:
        gc.set_threshold(*before)
    gc.collect()
    gc.collect()
    assert not descriptors.opened_since(opened)
    recwarn.clear()


def test_a_thousand_unclosed_loops(loop_factory: LoopFactory, recwarn: pytest.WarningsRecorder) -> None:
    """More than a process may have descriptors, if they were kept."""
    for _ in range(1000):
        made = loop_factory()
        handle = made.call_later(3600, print)
        made.call_soon(made.stop)
        asyncio.Future(loop=made).add_done_callback(print)
        del made, handle
        gc.collect(1)
    recwarn.clear()


def test_the_collector_runs_while_a_pipes_transport_is_made(loop: Any) -> None:
    """Before Python 3.13 it may, for the instance's dictionary, when there is nothing else of the instance yet."""

    async def connect() -> None:
        for _ in range(20):
            reading, writing = os.pipe()
            reader, _ = await loop.connect_read_pipe(asyncio.Protocol, os.fdopen(reading, "rb"))
            writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(writing, "wb"))
            writer.close()
            reader.close()

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        loop.run_until_complete(connect())
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        gc.set_threshold(*before)
