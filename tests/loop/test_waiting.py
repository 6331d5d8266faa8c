"""`oneloop.waiting`: what is cancelled leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from oneloop.waiting import on_thread, shielded, to_its_end, wait
from tests.conftest import cancelled, settle


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("cancels", [1, 2, 3])
@pytest.mark.parametrize("is_begun", [True, False])
async def test_no_thread_goes_on_behind_a_cancellation(
    loop: asyncio.AbstractEventLoop, is_begun: bool, cancels: int
) -> None:
    loop.set_default_executor(ThreadPoolExecutor(1))
    begun, may_end, called = threading.Event(), threading.Event(), []

    def call() -> None:
        begun.set()
        may_end.wait()
        called.append(1)

    before = None if is_begun else loop.run_in_executor(None, may_end.wait)
    task = loop.create_task(on_thread(call))
    while is_begun and not begun.is_set():
        await asyncio.sleep(0.001)
    await settle(2)
    for _ in range(cancels):
        task.cancel()
        await settle(2)
    # At once, if there is nothing to wait for.
    assert task.done() == (not is_begun)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    if before is not None:
        await before
        # The thread has had its turn.
        await on_thread(int)
    assert called == [1] * is_begun


async def test_a_thread_begins_in_the_moment_of_the_cancellation(loop: asyncio.AbstractEventLoop) -> None:
    """The future is cancelled, and its function is called all the same: it does nothing."""
    called: list[int] = []
    calls: list[Callable[[], Any]] = []

    class Late(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **keywords: Any) -> Any:
            calls.append(lambda: fn(*args, **keywords))
            return Future[Any]()

    loop.set_default_executor(Late(1))
    assert (await cancelled(on_thread(called.append, 1), 2)).cancelled()
    calls[0]()
    assert called == []


class FaultError(Exception):
    pass


def failing() -> None:
    raise FaultError


async def failed_later(wait: Callable[[asyncio.Future[None]], Awaitable[None]]) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_exception, FaultError())
    try:
        await wait(future)
    finally:
        del future


@pytest.mark.parametrize(
    "wait",
    [
        lambda: failed_later(shielded),
        lambda: failed_later(lambda future: to_its_end(future, lambda _: None)),
        lambda: on_thread(failing),
    ],
    ids=["shielded", "to_its_end", "on_thread"],
)
async def test_an_error_is_freed_with_its_last_reference(
    loop: asyncio.AbstractEventLoop, wait: Callable[[], Awaitable[None]], no_collector: None
) -> None:
    """What is raised has the frames in its traceback, which must not have what was raised."""

    async def kept() -> weakref.ref[FaultError]:
        try:
            await wait()
        except FaultError as error:
            return weakref.ref(error)
        raise AssertionError("nothing was raised")

    error = await kept()
    await settle(2)
    assert error() is None


async def test_the_contexts_of_all_who_have_given_up_are_freed(
    loop: asyncio.AbstractEventLoop, no_collector: None
) -> None:
    """Hundreds may wait for the same slow name."""
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")

    class Thing:
        pass

    future: asyncio.Future[None] = loop.create_future()
    things = []
    for _ in range(10):
        context = contextvars.copy_context()
        thing = Thing()
        context.run(variable.set, thing)
        things.append(weakref.ref(thing))
        task = loop.create_task(shielded(future), context=context)
        await settle(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task, context, thing
    await settle(2)
    assert [thing() for thing in things] == [None] * 10
    # Nobody is told of it.
    future.set_exception(FaultError())


async def test_a_task_that_is_cancelled_while_it_waits_is_freed_at_once(loop: asyncio.AbstractEventLoop) -> None:
    """From CPython 3.14 on `asyncio.wait` has it in a variable, and its exception has the frame. `cancelled` looks."""
    assert (await cancelled(wait([loop.create_future()]))).cancelled()
    assert (await cancelled(shielded(loop.create_future()))).cancelled()


async def test_an_error_that_comes_after_its_waiter_was_cancelled_is_nobodys(loop: asyncio.AbstractEventLoop) -> None:
    """`asyncio.shield` reports it from CPython 3.14.8 on; the fixture `audit` would see that."""
    future: asyncio.Future[None] = loop.create_future()
    task = asyncio.ensure_future(shielded(future))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert not future.done()
    future.set_exception(OSError())
    kept = weakref.ref(future)
    del future, task
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert kept() is None


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("ends", ["a value", "an error", "cancelled"])
async def test_shielded_has_the_outcome(loop: asyncio.AbstractEventLoop, ends: str, is_done: bool) -> None:
    future: asyncio.Future[int] = loop.create_future()

    def end() -> None:
        if ends == "a value":
            future.set_result(7)
        elif ends == "an error":
            future.set_exception(LookupError())
        else:
            future.cancel()

    if is_done:
        end()
    else:
        loop.call_soon(end)
    if ends == "a value":
        assert await shielded(future) == 7
    else:
        with pytest.raises(LookupError if ends == "an error" else asyncio.CancelledError):
            await shielded(future)
