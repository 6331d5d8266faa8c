"""run_forever, run_until_complete, stop, close, and what asyncio says when they are misused."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import AsyncIterator

import pytest

from tests.loops import LoopFactory


def test_run_until_complete_returns_the_result(loop: asyncio.AbstractEventLoop) -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    assert loop.run_until_complete(answer()) == 42
    future = loop.create_future()
    loop.call_soon(future.set_result, 7)
    assert loop.run_until_complete(future) == 7


def test_run_until_complete_raises_what_the_coroutine_raises(loop: asyncio.AbstractEventLoop) -> None:
    async def fail() -> None:
        raise LookupError("why")

    with pytest.raises(LookupError, match="why"):
        loop.run_until_complete(fail())


@pytest.mark.parametrize("value", [None, 1, "text", object()])
def test_run_until_complete_takes_awaitables_only(loop: asyncio.AbstractEventLoop, value: object) -> None:
    with pytest.raises(TypeError, match=r"future|coroutine|awaitable"):
        loop.run_until_complete(value)  # type: ignore[arg-type]


def test_run_until_complete_stopped_before_the_end(loop: asyncio.AbstractEventLoop) -> None:
    future = loop.create_future()
    loop.call_soon(loop.stop)
    with pytest.raises(RuntimeError, match="Event loop stopped before Future completed"):
        loop.run_until_complete(future)
    future.cancel()


def test_run_until_complete_of_a_foreign_future(loop: asyncio.AbstractEventLoop, loop_factory: LoopFactory) -> None:
    other = loop_factory()
    try:
        with pytest.raises(ValueError, match="loop"):
            loop.run_until_complete(other.create_future())
    finally:
        other.close()


def test_stop_before_run_forever_runs_one_tick(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[str] = []
    loop.call_soon(seen.append, "first")
    loop.call_soon(loop.call_soon, seen.append, "second")
    loop.stop()
    loop.run_forever()
    assert seen == ["first"]
    loop.stop()
    loop.run_forever()
    assert seen == ["first", "second"]


def test_a_loop_runs_many_times(loop: asyncio.AbstractEventLoop) -> None:
    for turn in range(20):
        assert loop.run_until_complete(asyncio.sleep(0, turn)) == turn


def test_is_running_and_is_closed(loop: asyncio.AbstractEventLoop) -> None:
    async def ask() -> bool:
        return loop.is_running() and asyncio.get_running_loop() is loop

    assert not loop.is_running()
    assert loop.run_until_complete(ask())
    assert not loop.is_running()
    assert not loop.is_closed()
    loop.close()
    assert loop.is_closed()
    assert "closed=True" in repr(loop)


@pytest.mark.parametrize("way", ["run_forever", "run_until_complete"])
def test_running_it_again_from_within(loop: asyncio.AbstractEventLoop, way: str) -> None:
    async def again() -> None:
        loop.call_soon(loop.stop)  # in case that it does run
        if way == "run_forever":
            loop.run_forever()
        else:
            loop.run_until_complete(loop.create_future())

    with pytest.raises(RuntimeError, match="This event loop is already running"):
        loop.run_until_complete(again())


async def test_running_another_loop_from_within(loop_factory: LoopFactory) -> None:
    other = loop_factory()
    try:
        with pytest.raises(RuntimeError, match="Cannot run the event loop while another loop is running"):
            other.run_forever()
    finally:
        other.close()


async def test_closing_a_running_loop(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(RuntimeError, match="Cannot close a running event loop"):
        loop.close()


def test_closing_twice_is_fine(loop: asyncio.AbstractEventLoop) -> None:
    loop.close()
    loop.close()


def test_close_forgets_what_was_ready(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(pytest.fail, "a callback ran on a closed loop")
    loop.call_later(0, pytest.fail, "a timer ran on a closed loop")
    loop.close()


def test_operations_on_a_closed_loop(loop: asyncio.AbstractEventLoop) -> None:
    loop.close()

    async def nothing() -> None: ...

    def until_complete() -> None:
        coroutine = nothing()
        try:
            loop.run_until_complete(coroutine)
        finally:
            coroutine.close()

    def create_task() -> None:
        coroutine = nothing()
        try:
            loop.create_task(coroutine)
        finally:
            coroutine.close()

    for operation in (
        loop.run_forever,
        until_complete,
        create_task,
        lambda: loop.call_soon(print),
        lambda: loop.call_soon_threadsafe(print),
        lambda: loop.call_later(1, print),
        lambda: loop.call_at(1, print),
        lambda: loop.run_in_executor(None, print),
    ):
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            operation()


def test_readers_on_a_closed_loop(loop: asyncio.AbstractEventLoop) -> None:
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.add_reader(0, print)
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.add_writer(1, print)


def test_unfinished_async_generators_are_closed(loop: asyncio.AbstractEventLoop) -> None:
    ended: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            ended.append("closed")

    async def start() -> AsyncIterator[int]:
        generator = numbers()
        assert await anext(generator) == 1
        return generator

    kept = loop.run_until_complete(start())
    loop.run_until_complete(loop.shutdown_asyncgens())
    assert ended == ["closed"]
    del kept

    async def late() -> None:
        with pytest.warns(ResourceWarning, match="was scheduled after"):
            await anext(numbers())

    loop.run_until_complete(late())


def test_dropped_async_generator_is_closed_by_the_loop(loop: asyncio.AbstractEventLoop) -> None:
    ended = asyncio.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ended.set()

    async def drop() -> None:
        await anext(numbers())
        await ended.wait()

    loop.run_until_complete(drop())


def test_hooks_of_async_generators_are_restored(loop: asyncio.AbstractEventLoop) -> None:
    before = sys.get_asyncgen_hooks()
    loop.run_until_complete(asyncio.sleep(0))
    assert sys.get_asyncgen_hooks() == before


def test_an_unclosed_loop_warns(loop_factory: LoopFactory) -> None:
    with pytest.warns(ResourceWarning, match="unclosed event loop"):
        loop_factory().__del__()  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        import gc

        gc.collect()


def test_runner_uses_the_factory(loop_factory: LoopFactory) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert type(runner.get_loop()) is type(loop_factory_type(loop_factory))

        async def where() -> asyncio.AbstractEventLoop:
            return asyncio.get_running_loop()

        assert runner.run(where()) is runner.get_loop()


def loop_factory_type(loop_factory: LoopFactory) -> asyncio.AbstractEventLoop:
    made = loop_factory()
    made.close()
    return made
