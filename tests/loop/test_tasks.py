"""create_task, task factories, eager tasks, futures: CPython's own, on the loop."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Coroutine, Generator
from typing import Any

import pytest

VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("VARIABLE", default=0)


async def test_tasks_are_cpythons(loop: asyncio.AbstractEventLoop) -> None:
    task = loop.create_task(asyncio.sleep(0), name="sleeper")
    assert type(task) is asyncio.Task
    assert task.get_name() == "sleeper"
    assert task.get_loop() is loop
    assert task in asyncio.all_tasks()
    assert asyncio.current_task() is not task
    await task
    assert task not in asyncio.all_tasks()
    assert type(loop.create_future()) is asyncio.Future


async def test_a_context_can_be_given(loop: asyncio.AbstractEventLoop) -> None:
    context = contextvars.copy_context()
    context.run(VARIABLE.set, 5)

    async def read() -> int:
        return VARIABLE.get()

    assert await loop.create_task(read(), context=context) == 5
    assert await loop.create_task(read()) == 0


def test_the_task_factory_is_used(loop: asyncio.AbstractEventLoop) -> None:
    made: list[dict[str, Any]] = []

    class OwnTask(asyncio.Task[Any]): ...

    def factory(
        loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any], **options: Any
    ) -> asyncio.Task[Any]:
        made.append(options)
        return OwnTask(coroutine, loop=loop, **options)  # type: ignore[arg-type]

    assert loop.get_task_factory() is None
    loop.set_task_factory(factory)  # type: ignore[arg-type]
    assert loop.get_task_factory() is factory  # type: ignore[comparison-overlap]
    task = loop.create_task(asyncio.sleep(0), name="named")
    assert type(task) is OwnTask
    assert task.get_name() == "named"
    loop.run_until_complete(task)
    assert len(made) == 1
    loop.set_task_factory(None)
    assert loop.get_task_factory() is None


@pytest.mark.parametrize("factory", [1, "text", object()])
def test_what_is_not_a_task_factory(loop: asyncio.AbstractEventLoop, factory: Any) -> None:
    with pytest.raises(TypeError, match="task factory must be a callable or None"):
        loop.set_task_factory(factory)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_eager_tasks_run_at_once(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[str] = []

    async def child() -> str:
        seen.append("child")
        return "done"

    async def waits() -> str:
        seen.append("waits")
        await asyncio.sleep(0)
        return "woken"

    async def main() -> None:
        quick = loop.create_task(child())
        assert seen == ["child"]
        assert quick.done()
        assert quick.result() == "done"
        slow = loop.create_task(waits())
        assert seen == ["child", "waits"]
        assert not slow.done()
        assert slow in asyncio.all_tasks()
        assert await slow == "woken"

    loop.set_task_factory(asyncio.eager_task_factory)
    loop.run_until_complete(main())
    loop.set_task_factory(None)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="create_task(eager_start=) came with Python 3.14")
async def test_eager_start_as_an_argument(loop: asyncio.AbstractEventLoop) -> None:
    async def child() -> int:
        return 1

    task = loop.create_task(child(), eager_start=True)  # type: ignore[call-arg,unused-ignore]
    assert task.done()
    assert await task == 1
    later = loop.create_task(child(), eager_start=False)  # type: ignore[call-arg,unused-ignore]
    assert not later.done()
    assert await later == 1


def test_tasks_of_a_loop_that_does_not_run_yet(loop: asyncio.AbstractEventLoop) -> None:
    task = loop.create_task(asyncio.sleep(0, "done"))
    assert asyncio.all_tasks(loop) == {task}
    assert loop.run_until_complete(task) == "done"


async def test_an_error_nobody_retrieves_is_reported(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    import gc

    async def fail() -> None:
        raise LookupError("nobody asks")

    task = loop.create_task(fail())
    await asyncio.wait([task])
    del task
    gc.collect()
    assert "never retrieved" in reported.take_one(LookupError)["message"]


def test_a_task_that_is_destroyed_pending_is_reported(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    import gc

    async def wait() -> None:
        await asyncio.Future(loop=loop)

    task = loop.create_task(wait())
    loop.run_until_complete(asyncio.sleep(0))
    del task
    gc.collect()
    (context,) = reported.take()
    assert context["message"] == "Task was destroyed but it is pending!"
    del context
    gc.collect()


async def test_gather_and_queues_and_locks(loop: asyncio.AbstractEventLoop) -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
    lock = asyncio.Lock()

    async def produce() -> None:
        for number in range(100):
            await queue.put(number)

    async def consume() -> list[int]:
        received = []
        for _ in range(100):
            async with lock:
                received.append(await queue.get())
        return received

    _, received = await asyncio.gather(produce(), consume())
    assert received == list(range(100))


async def test_keyboard_interrupt_in_a_task_leaves_the_loop(loop_factory: Any, reported: Any) -> None:
    """On a loop of its own in a thread: run_until_complete raises it, and the loop can be run on."""

    def in_thread() -> str:
        inner = loop_factory()
        try:

            async def fail() -> None:
                raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                inner.run_until_complete(fail())
            return str(inner.run_until_complete(asyncio.sleep(0, "alive")))
        finally:
            inner.close()

    assert await asyncio.to_thread(in_thread) == "alive"
