"""Fixtures: the loop under test, and the audit after each test.

`loop_name` runs a test on stock asyncio and on oneloop. `async def` tests run on `loop`. Every step of a test is
bounded in time (`harness/guard.py`). After each test: no task, transport, descriptor, thread, child process or
unretrieved exception may remain, and the exception handler may not have been called, unless the test took what was
reported (`reported.take()`).
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from typing import Any, TypeVar

import pytest

from tests import children, descriptors
from tests.harness.limits import limit_of
from tests.harness.record import LeftBehindError
from tests.loops import FACTORIES, LoopFactory

pytest_plugins = ["tests.harness.guard"]

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]

# Coroutines end a little before the guard would end them: a timeout in a task shows where it waited.
MARGIN_S = 3.0

# On a test: one of its steps has raised.
FAILED = pytest.StashKey[bool]()


class Reported:
    """What the loop's exception handler was told."""

    def __init__(self) -> None:
        self.contexts: list[dict[str, Any]] = []

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.contexts.append(context)

    def take(self) -> list[dict[str, Any]]:
        """Everything reported so far; the test answers for it from here on."""
        taken, self.contexts = self.contexts, []
        return taken

    def take_one(self, error: type[BaseException]) -> dict[str, Any]:
        """The single report so far, which is of this error."""
        (context,) = self.take()
        assert isinstance(context.get("exception"), error), context
        return context


def pytest_configure(config: pytest.Config) -> None:
    """A shell's background job ignores Ctrl-C, and so would every program that the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the stock variant of tests that say how stock asyncio differs."""
    kept = []
    for item in items:
        callspec = getattr(item, "callspec", None)
        name = callspec.params.get("loop_name") if callspec else None
        only_ours = item.get_closest_marker("oneloop_only")
        if only_ours is not None and name == "asyncio":
            assert only_ours.args, f"{item.nodeid}: oneloop_only needs a reason"
            versions = only_ours.kwargs
            if versions.get("since", (3, 11)) <= sys.version_info < versions.get("before", (4,)):
                continue
        kept.append(item)
    items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    """The audit collects garbage after each test; what was imported for all of them need not be looked at again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    if call.excinfo is not None:
        item.stash[FAILED] = True
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    loop: asyncio.AbstractEventLoop = pyfuncitem._request.getfixturevalue("loop")
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    loop.run_until_complete(asyncio.wait_for(pyfuncitem.obj(**arguments), limit_of(pyfuncitem) - MARGIN_S))
    return True


@pytest.fixture(params=list(FACTORIES))
def loop_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def loop_factory(loop_name: str) -> LoopFactory:
    return FACTORIES[loop_name]


@pytest.fixture
def reported() -> Reported:
    return Reported()


ENDS_IN_S = 60
"""A thread that is about to end has so long for it; one that is not is an error anyway."""


@pytest.fixture(autouse=True)
def audit(request: pytest.FixtureRequest, reported: Reported) -> Iterator[None]:
    """Nothing that the test opened or started outlives it."""
    gc.collect()
    before = descriptors.open_descriptors()
    threads = set(threading.enumerate())
    processes = children.living()
    handled = sys.exc_info()[1]
    yield
    gc.collect()
    ending = [thread for thread in threading.enumerate() if thread not in threads]
    for thread in ending:
        # asyncio's own, which waits for a child, ends a moment after the child's end was told; that of a server closes
        # its connection when it sees that the client has.
        thread.join(ENDS_IN_S)
    if ending:
        # What only they had.
        gc.collect()
    left = descriptors.opened_since(before)
    if left and request.node.get_closest_marker("allows_open_fds") is None:
        raise LeftBehindError(f"descriptors left open: {left}")
    started = [thread for thread in threading.enumerate() if thread not in threads and thread.is_alive()]
    if started:
        raise LeftBehindError(f"threads left running: {started}")
    ended = children.end_since(processes)
    if ended:
        raise LeftBehindError(f"child processes left: {ended}")
    if sys.exc_info()[1] is not handled:
        # It would be the context of the errors of other tests; tests/tracing.py.
        raise LeftBehindError(f"an exception is being handled for ever: {sys.exc_info()[1]!r}")
    if reported.contexts:
        raise LeftBehindError(f"unexpected calls of the exception handler: {reported.contexts}")
    if FAILED in request.node.stash:
        # Its traceback holds what the next collection is to free.
        gc.unfreeze()
    else:
        # What is left is pytest's. Looked at again after each test, it would cost more than all the tests.
        gc.freeze()


@pytest.fixture
def loop(loop_factory: LoopFactory, audit: None, reported: Reported) -> Iterator[asyncio.AbstractEventLoop]:
    """A new loop that is not the current one; closed and audited afterwards."""
    made = loop_factory()
    made.set_exception_handler(reported)
    yield made
    if not made.is_closed():
        close_audited(made)


def close_audited(loop: asyncio.AbstractEventLoop) -> None:
    """Let a loop end what is ending, check that nothing remains, close it."""
    try:
        gc.collect()
        loop.run_until_complete(settle())
        left = asyncio.all_tasks(loop)
        if left:
            raise LeftBehindError(f"tasks left: {left}")
        statistics = getattr(loop, "statistics", None)
        if statistics is not None and statistics().open_transports:
            raise LeftBehindError(f"transports left open: {statistics()}")
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
    gc.collect()


async def settle(ticks: int = 5) -> None:
    """Let callbacks that are due run: connection_lost, closes of sockets."""
    for _ in range(ticks):
        await asyncio.sleep(0)


async def cancelled(operation: Awaitable[T], ticks: int = 5) -> asyncio.Future[T]:
    """Begin an operation, cancel it after so many ticks, and return how it has ended, one way or another.

    A task that was cancelled must be freed with the last reference to it: what its exception has, the frames of all
    that it waited in, must not have the task.
    """
    task = asyncio.ensure_future(operation)
    await settle(ticks)
    task.cancel()
    await asyncio.wait([task])
    if task is operation or not task.cancelled():
        return task
    kept, name = weakref.ref(task), repr(task)
    del task
    await settle(1)
    assert kept() is None, f"{name} is kept, by {gc.get_referrers(kept())}"
    ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    ended.cancel()
    return ended


@pytest.fixture
def run(loop: asyncio.AbstractEventLoop, request: pytest.FixtureRequest) -> Run[Any]:
    """Run one awaitable on `loop`, bounded in time."""

    def run_bounded(coroutine: Coroutine[Any, Any, T]) -> T:
        return loop.run_until_complete(asyncio.wait_for(coroutine, limit_of(request.node) - MARGIN_S))

    return run_bounded
