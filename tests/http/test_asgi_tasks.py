"""Each request is a real task: contexts, `current_task`, cancellation, task groups, factories, debug mode."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.http.site import GET, App, Receive, Scope, Send, reply, serving

value: contextvars.ContextVar[int] = contextvars.ContextVar("value", default=0)


async def ask_twice(app: App) -> None:
    async with serving(app) as site:
        wire = await site.connect()
        for _ in range(2):
            assert (await wire.ask()).body == b"right"


async def test_each_request_has_its_own_context() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert value.get() == 0
        value.set(1)
        await asyncio.sleep(0)
        assert value.get() == 1
        await reply(send, b"right")
        assert value.get() == 1

    await ask_twice(app)
    assert value.get() == 0


async def test_the_current_task() -> None:
    tasks: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert isinstance(task, asyncio.Task)
        assert task in asyncio.all_tasks()
        assert task.get_name()
        assert repr(task)
        assert task.get_coro() is not None
        await asyncio.sleep(0)
        assert asyncio.current_task() is task
        assert task in asyncio.all_tasks()
        assert task.get_stack() is not None
        tasks.append(task)
        await reply(send, b"right")

    await ask_twice(app)
    assert tasks[0] is not tasks[1]
    assert all(task.done() for task in tasks)


async def test_a_request_can_be_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    tasks: list[asyncio.Task[None]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        await asyncio.sleep(1000)

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET)
        while not tasks:
            await asyncio.sleep(0)
        tasks[0].cancel()
        response = await wire.answer()
        assert (response.status, response.closes) == (500, True)
    assert tasks[0].cancelled()


async def test_a_request_that_cancels_itself() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            task.uncancel()
        await reply(send, b"right")

    await ask_twice(app)


async def test_asyncios_task_group_and_timeout() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(asyncio.sleep(0, b"ri"))
            second = group.create_task(asyncio.sleep(0, b"ght"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.sleep(1000)
        await reply(send, first.result() + second.result())

    await ask_twice(app)


async def test_a_task_factory_makes_the_tasks() -> None:
    made: list[asyncio.Task[Any]] = []
    loop = asyncio.get_running_loop()

    def factory(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=loop, **options)
        made.append(task)
        return task

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert asyncio.current_task() in made
        await asyncio.sleep(0)
        await reply(send, b"right")

    loop.set_task_factory(factory)
    await ask_twice(app)
    loop.set_task_factory(None)


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="eager tasks came with Python 3.12")
async def test_asyncios_eager_factory() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.create_task(reply(send, b"right"))

    loop = asyncio.get_running_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    await ask_twice(app)
    loop.set_task_factory(None)


async def test_debug_mode(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert "app" in repr(task)
        await asyncio.sleep(0)
        listening = asyncio.ensure_future(receive())
        assert (await listening)["type"] == "http.request"
        await reply(send, b"right")

    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    try:
        await ask_twice(app)
    finally:
        loop.set_debug(False)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_green_generator_of_old_style_works() -> None:
    """Anything that can be awaited is an application's work."""

    class Work:
        def __init__(self, send: Send) -> None:
            self.send = send

        def __await__(self) -> Any:
            return reply(self.send, b"right").__await__()

    def app(scope: Scope, receive: Receive, send: Send) -> Any:
        async def call() -> None:
            await Work(send)

        return call()

    await ask_twice(app)


async def test_an_application_object() -> None:
    class Application:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await reply(send, b"right")

    await ask_twice(Application())


async def test_abort_cancels_and_waits_for_nobody() -> None:
    ended: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        ended.append("started")
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET)
        while not ended:
            await asyncio.sleep(0)
        site.http.abort()
        await site.until_empty()
    assert ended == ["started", "cancelled"]
