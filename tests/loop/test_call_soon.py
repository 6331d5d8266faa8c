"""call_soon, call_soon_threadsafe and their handles: order, arguments, contexts, cancelling."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from functools import partial
from typing import Any

import pytest

from tests.loop.conftest import run_ticks

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


def test_callbacks_run_in_order(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    for number in range(1000):
        loop.call_soon(seen.append, number)
    run_ticks(loop)
    assert seen == list(range(1000))


def test_what_a_callback_schedules_runs_in_the_next_tick(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[str] = []

    def first() -> None:
        seen.append("first")
        loop.call_soon(seen.append, "third")

    loop.call_soon(first)
    loop.call_soon(seen.append, "second")
    run_ticks(loop)
    assert seen == ["first", "second"]
    run_ticks(loop)
    assert seen == ["first", "second", "third"]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 9])
def test_arguments_arrive(loop: asyncio.AbstractEventLoop, count: int) -> None:
    seen: list[tuple[Any, ...]] = []
    arguments = tuple(range(count))
    loop.call_soon(lambda *received: seen.append(received), *arguments)
    loop.call_soon_threadsafe(lambda *received: seen.append(received), *arguments)
    loop.call_later(0, lambda *received: seen.append(received), *arguments)
    loop.call_soon(partial(lambda *received: seen.append(received)), *arguments)
    run_ticks(loop, 3)
    assert seen == [arguments] * 4


def test_callbacks_run_in_their_context(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[str] = []
    context = contextvars.copy_context()
    context.run(VARIABLE.set, "given")
    note = lambda: seen.append(VARIABLE.get())  # noqa: E731
    loop.call_soon(note, context=context)
    loop.call_soon_threadsafe(note, context=context)
    loop.call_later(0, note, context=context)
    loop.call_at(loop.time(), note, context=context)
    loop.call_soon(note)
    run_ticks(loop, 3)
    assert sorted(seen) == ["given"] * 4 + ["unset"]


def test_the_current_context_is_copied(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[str] = []

    def note_and_change() -> None:
        seen.append(VARIABLE.get())
        VARIABLE.set("changed")

    def schedule() -> None:
        VARIABLE.set("here")
        loop.call_soon(note_and_change)
        loop.call_soon(lambda: seen.append(VARIABLE.get()))

    contextvars.copy_context().run(schedule)
    run_ticks(loop, 2)
    # call_soon copies the context at the call, so that what one callback sets, another does not see.
    assert seen == ["here", "here"]


def test_cancelled_handles_do_not_run(loop: asyncio.AbstractEventLoop) -> None:
    handles = [loop.call_soon(pytest.fail, "cancelled, but ran") for _ in range(10)]
    for handle in handles:
        assert not handle.cancelled()
        handle.cancel()
        handle.cancel()
        assert handle.cancelled()
        assert "cancelled" in repr(handle)
    run_ticks(loop)


def test_a_callback_cancels_the_next(loop: asyncio.AbstractEventLoop) -> None:
    handles: list[asyncio.Handle] = []
    loop.call_soon(lambda: handles[0].cancel())  # noqa: PLW0108 - filled below
    handles.append(loop.call_soon(pytest.fail, "cancelled in the same tick, but ran"))
    run_ticks(loop)


def test_cancelling_drops_the_callback_at_once(loop: asyncio.AbstractEventLoop) -> None:
    import weakref

    class Callback:
        def __call__(self) -> None: ...

    callback = Callback()
    alive = weakref.ref(callback)
    handle = loop.call_soon(callback)
    timer = loop.call_later(1000, callback)
    del callback
    assert alive() is not None
    handle.cancel()
    timer.cancel()
    assert alive() is None


def test_handles_have_asyncios_interface(loop: asyncio.AbstractEventLoop) -> None:
    """A native handle cannot derive from asyncio.Handle (whose slots are its layout); it has its methods."""
    for handle in (loop.call_soon(print), loop.call_later(1000, print)):
        assert "print" in repr(handle)
        public = asyncio.TimerHandle if hasattr(handle, "when") else asyncio.Handle
        assert {name for name in dir(public) if not name.startswith("_")} <= set(dir(handle))
        handle.cancel()
    handle = loop.call_soon(print)
    assert handle.get_context() is not None if hasattr(handle, "get_context") else True
    handle.cancel()


@pytest.mark.parametrize("callback", [None, 1, "text"])
def test_what_cannot_be_called(loop: asyncio.AbstractEventLoop, callback: Any) -> None:
    loop.set_debug(True)
    for schedule in (loop.call_soon, loop.call_soon_threadsafe, partial(loop.call_later, 0)):
        with pytest.raises(TypeError, match="callable object was expected"):
            schedule(callback)


def test_coroutine_functions_are_refused(loop: asyncio.AbstractEventLoop) -> None:
    async def coroutine() -> None: ...

    loop.set_debug(True)
    for schedule in (loop.call_soon, loop.call_soon_threadsafe, partial(loop.call_later, 0), loop.call_soon):
        with pytest.raises(TypeError, match=r"coroutines cannot be used with call_(soon|soon_threadsafe|later|at)\(\)"):
            schedule(coroutine)


def test_threadsafe_wakes_an_idle_loop(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    total = 200

    def flood(first: int) -> None:
        for number in range(first, first + total):
            loop.call_soon_threadsafe(note, number)

    def note(number: int) -> None:
        seen.append(number)
        if len(seen) == 3 * total:
            loop.stop()

    threads = [threading.Thread(target=flood, args=(first,)) for first in (0, 1000, 2000)]
    for thread in threads:
        thread.start()
    loop.run_forever()
    for thread in threads:
        thread.join()
    for first in (0, 1000, 2000):
        assert [number for number in seen if first <= number < first + total] == list(range(first, first + total))


def test_threadsafe_one_at_a_time(loop: asyncio.AbstractEventLoop) -> None:
    """A wake-up per call: the loop is idle each time, as the caller waits for the callback before the next."""
    turns = 200

    def ping() -> None:
        for _ in range(turns):
            done = threading.Event()
            loop.call_soon_threadsafe(done.set)
            assert done.wait(30)
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=ping)
    thread.start()
    loop.run_forever()
    thread.join()


def test_threadsafe_before_the_loop_runs(loop: asyncio.AbstractEventLoop) -> None:
    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(loop.stop,))
    thread.start()
    thread.join()
    loop.run_forever()


def test_handles_from_threads_can_be_cancelled(loop: asyncio.AbstractEventLoop) -> None:
    handles: list[asyncio.Handle] = []
    thread = threading.Thread(
        target=lambda: handles.append(loop.call_soon_threadsafe(pytest.fail, "cancelled, but ran"))
    )
    thread.start()
    thread.join()
    handles[0].cancel()
    run_ticks(loop, 2)


def test_a_callback_that_raises_is_reported_and_the_rest_runs(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    seen: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError("callback")

    loop.call_soon(fail)
    loop.call_soon(seen.append, "after")
    loop.call_later(0, fail)
    loop.call_soon_threadsafe(fail)
    run_ticks(loop, 3)
    assert seen == ["after"]
    contexts = reported.take()
    assert [type(context["exception"]) for context in contexts] == [ZeroDivisionError] * 3
    for context in contexts:
        assert context["message"].startswith("Exception in callback ")
        assert "fail" in context["message"]
        assert hasattr(context["handle"], "cancelled")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_keyboard_interrupt_leaves_the_loop(loop: asyncio.AbstractEventLoop, error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    seen: list[str] = []
    loop.call_soon(fail)
    loop.call_soon(seen.append, "after")
    with pytest.raises(error):
        loop.run_forever()
    assert not loop.is_running()
    # What stood behind it is not lost.
    run_ticks(loop, 2)
    assert seen == ["after"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_keyboard_interrupt_in_a_timer(loop: asyncio.AbstractEventLoop, error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    loop.call_later(0.001, fail)
    with pytest.raises(error):
        loop.run_forever()
    run_ticks(loop)


def test_deep_recursion_in_a_callback(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    def recurse() -> None:
        recurse()

    loop.call_soon(recurse)
    run_ticks(loop)
    reported.take_one(RecursionError)
    assert loop.run_until_complete(asyncio.sleep(0, "alive")) == "alive"


def test_scheduling_at_the_recursion_limit(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    """call_soon and call_later in a stack that is nearly full either work or raise RecursionError."""
    scheduled: list[int] = []
    ran: list[int] = []

    def recurse(depth: int) -> None:
        loop.call_soon(ran.append, depth)
        scheduled.append(depth)
        recurse(depth + 1)

    loop.call_soon(recurse, 0)
    run_ticks(loop)
    reported.take_one(RecursionError)
    run_ticks(loop)
    assert ran[: len(scheduled)] == scheduled


def test_long_chains_of_callbacks(loop: asyncio.AbstractEventLoop) -> None:
    def again(left: int) -> None:
        if left:
            loop.call_soon(again, left - 1)
        else:
            loop.stop()

    loop.call_soon(again, 50_000)
    loop.run_forever()
