"""run_in_executor and the default executor."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import sys
import threading
from typing import Any

import pytest

from oneloop.executors import shut_down


async def test_runs_in_another_thread(loop: asyncio.AbstractEventLoop) -> None:
    assert await loop.run_in_executor(None, threading.get_ident) != threading.get_ident()
    assert await loop.run_in_executor(None, max, 1, 5, 3) == 5


async def test_errors_come_back(loop: asyncio.AbstractEventLoop) -> None:
    def fail() -> None:
        raise LookupError("in the thread")

    with pytest.raises(LookupError, match="in the thread"):
        await loop.run_in_executor(None, fail)


async def test_many_at_once(loop: asyncio.AbstractEventLoop) -> None:
    results = await asyncio.gather(*(loop.run_in_executor(None, pow, number, 2) for number in range(200)))
    assert results == [number**2 for number in range(200)]


async def test_to_thread_carries_the_context(loop: asyncio.AbstractEventLoop) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("carried")
    assert await asyncio.to_thread(variable.get) == "carried"


async def test_an_executor_can_be_given(loop: asyncio.AbstractEventLoop) -> None:
    with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="given") as pool:
        name = await loop.run_in_executor(pool, lambda: threading.current_thread().name)
        assert name.startswith("given")


def test_the_default_executor_can_be_set(loop: asyncio.AbstractEventLoop) -> None:
    pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="default")
    loop.set_default_executor(pool)
    name = loop.run_until_complete(loop.run_in_executor(None, lambda: threading.current_thread().name))
    assert name.startswith("default")


@pytest.mark.parametrize("executor", [None, object(), "pool"])
def test_what_is_not_an_executor(loop: asyncio.AbstractEventLoop, executor: Any) -> None:
    with pytest.raises(TypeError, match="executor must be ThreadPoolExecutor instance"):
        loop.set_default_executor(executor)


def test_after_shutdown_it_is_refused(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(loop.run_in_executor(None, int))
    loop.run_until_complete(loop.shutdown_default_executor())
    with pytest.raises(RuntimeError, match="Executor shutdown has been called"):
        loop.run_in_executor(None, int)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the timeout came with Python 3.12")
@pytest.mark.skipif(
    "timeouts.timeout" not in inspect.getsource(asyncio.BaseEventLoop.shutdown_default_executor),
    reason="shutdown_default_executor() of this patch release, on which oneloop relies, waits past its timeout",
)
def test_shutdown_waits_no_longer_than_its_timeout(loop: asyncio.AbstractEventLoop) -> None:
    release = threading.Event()
    future = loop.run_in_executor(None, release.wait)
    with pytest.warns(RuntimeWarning, match="did not finish"):
        loop.run_until_complete(loop.shutdown_default_executor(0.01))  # type: ignore[call-arg,unused-ignore]
    release.set()
    assert loop.run_until_complete(future) is True
    for thread in threading.enumerate():
        if thread.name.startswith(("asyncio_", "ThreadPoolExecutor")):
            thread.join()


async def test_a_cancelled_call_does_not_disturb_the_loop(loop: asyncio.AbstractEventLoop) -> None:
    release = threading.Event()
    future = loop.run_in_executor(None, release.wait)
    await asyncio.sleep(0)
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future
    release.set()
    assert await loop.run_in_executor(None, int) == 0


def test_only_callables(loop: asyncio.AbstractEventLoop) -> None:
    async def coroutine() -> None: ...

    loop.set_debug(True)
    with pytest.raises(TypeError, match="coroutines cannot be used with run_in_executor"):
        loop.run_in_executor(None, coroutine)
    with pytest.raises(TypeError, match="callable object was expected by run_in_executor"):
        loop.run_in_executor(None, 1)  # type: ignore[arg-type]


@pytest.mark.oneloop_only("for CPython 3.12.0 and 3.12.1, whose own waits for ever: python/cpython#111358")
@pytest.mark.parametrize("limit_s", [0.01, None])
async def test_the_end_of_the_default_executor(loop: asyncio.AbstractEventLoop, limit_s: float | None) -> None:
    go = threading.Event()
    called = loop.run_in_executor(None, go.wait)
    if limit_s is None:
        loop.call_soon(go.set)
        await shut_down(loop, limit_s)
        assert called.done()
    else:
        with pytest.warns(RuntimeWarning, match="within 0.01 seconds"):
            await shut_down(loop, limit_s)
        assert not called.done()
        go.set()
    assert await called
    with pytest.raises(RuntimeError, match="shutdown"):
        await loop.run_in_executor(None, print)


@pytest.mark.oneloop_only("for CPython 3.12.0 and 3.12.1")
async def test_an_error_at_the_end_of_the_default_executor(loop: asyncio.AbstractEventLoop) -> None:
    class Failing(concurrent.futures.ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait, cancel_futures=cancel_futures)
            raise LookupError("mine")

    loop.set_default_executor(Failing())
    with pytest.raises(LookupError, match="mine"):
        await shut_down(loop, 10)
    loop._default_executor = None  # type: ignore[attr-defined]
