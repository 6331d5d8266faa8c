"""From green threads to coroutines and back, on one loop.

A cancellation of the awaiting task raises CancelledError where the green thread waits, and waits for its end; a green
thread that is killed while it awaits something cancels that.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from typing import TYPE_CHECKING, Any, TypeVar

from greenlet import GreenletExit, getcurrent

from oneloop.green.greenlet import Greenlet
from oneloop.green.hub import Waiter, get_hub, is_in_green_thread
from oneloop.green.parking_selector import is_on_hub

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oneloop.green.hub import Hub

__all__ = ["await_", "ended", "in_context", "run_green"]

T = TypeVar("T")


def await_(awaitable: Awaitable[T]) -> T:
    """What an awaitable gives; in a green thread, which waits meanwhile.

    A coroutine runs on the loop that has called the green thread with `run_green`, else on the hub's; a task or future
    may belong to any loop of this hub's. Killed, or out of time, the green thread cancels what it awaits, and does not
    wait for that.

    Raises:
        RuntimeError: in a coroutine, which can await it.
        ValueError: it belongs to a loop that does not run on this hub.
        BaseException: what it raises.
    """
    if not is_in_green_thread():
        close = getattr(awaitable, "close", None)
        if close is not None:
            close()
        raise RuntimeError("await_() is for green threads: a coroutine can await it")
    hub = get_hub()
    loop = _loop_for(awaitable, hub)
    waiter = Waiter(hub)
    if loop is not hub.asyncio_loop:
        return _await_elsewhere(awaitable, loop, waiter)
    future: asyncio.Future[T] = asyncio.ensure_future(awaitable, loop=hub.asyncio_loop)
    future.add_done_callback(waiter.wake)
    try:
        waiter.get()
    except BaseException:
        future.remove_done_callback(waiter.wake)
        future.cancel()
        raise
    return future.result()


def _loop_for(awaitable: Awaitable[Any], hub: Hub) -> asyncio.AbstractEventLoop:
    if asyncio.isfuture(awaitable):
        loop = awaitable.get_loop()
    else:
        current = getcurrent()
        loop = current.loop if isinstance(current, _Running) else hub.asyncio_loop
    return loop if is_on_hub(loop, hub) else hub.asyncio_loop


def _await_elsewhere(awaitable: Awaitable[T], loop: asyncio.AbstractEventLoop, waiter: Waiter) -> T:
    """On a loop that another green thread runs: everything is done in that loop's turn."""
    begun: list[asyncio.Future[T]] = []
    is_over = False

    def begin() -> None:
        if is_over:
            close = getattr(awaitable, "close", None)
            if close is not None:
                close()
            return
        begun.append(asyncio.ensure_future(awaitable, loop=loop))
        begun[0].add_done_callback(waiter.wake)

    def cancel() -> None:
        for future in begun:
            future.remove_done_callback(waiter.wake)
            future.cancel()

    loop.call_soon_threadsafe(begin)
    try:
        waiter.get()
    except BaseException:
        is_over = True
        if not loop.is_closed():
            loop.call_soon_threadsafe(cancel)
        raise
    return begun[0].result()


def in_context(function: Callable[..., T], context: contextvars.Context | None = None) -> Callable[..., T]:
    """What calls a function in a context that is shared, not copied: for `spawn`, `run_green`, pools.

    Args:
        function: it is to be called in a green thread.
        context: None for the caller's own: what either of them sets, both see.
    """
    shared = getcurrent().gr_context if context is None else context

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> T:
        current = getcurrent()
        own, current.gr_context = current.gr_context, shared
        try:
            return function(*args, **kwargs)
        finally:
            current.gr_context = own

    return call


class _Running(Greenlet):
    """A green thread whose errors are its awaiter's."""

    def __init__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(function, *args, **kwargs)
        self.loop = asyncio.get_running_loop()
        self.gr_context = contextvars.copy_context()

    def _report(self, error: BaseException) -> None:
        if not isinstance(error, (KeyboardInterrupt, SystemExit)):
            return
        if self.loop is self.hub.asyncio_loop or self.loop.is_closed():
            self.hub.handle_system_error(type(error), error, error.__traceback__)
        else:
            self.loop.call_soon_threadsafe(_raise, error)


def _raise(error: BaseException) -> None:
    """Out of the loop whose callback this is."""
    raise error


async def run_green(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a function in a green thread of the running loop, with a copy of the caller's context; what it returns.

    With `in_context(function)` it shares the caller's context.

    Raises:
        asyncio.CancelledError: it was cancelled, or has ended with GreenletExit.
        BaseException: what it raises.
    """
    greenlet = _Running(function, *args, **kwargs)
    greenlet.start()
    value: T = await ended(greenlet)
    return value


async def ended(greenlet: Greenlet) -> Any:
    """The end of a green thread, awaited; see `Greenlet.__await__`."""
    if not greenlet.ready():
        await _wait(greenlet)
    raised = greenlet.exception
    if isinstance(raised, StopIteration):
        raise RuntimeError("a green thread raised StopIteration") from raised
    if raised is not None:
        raise raised
    if isinstance(greenlet.value, GreenletExit):
        raise asyncio.CancelledError(*greenlet.value.args)
    return greenlet.value


async def _wait(greenlet: Greenlet) -> None:
    """Until it has ended; each cancellation meanwhile is raised in it."""
    loop = asyncio.get_running_loop()
    if not is_on_hub(loop, greenlet.hub):
        raise RuntimeError(
            f"{greenlet!r} belongs to another event loop than {loop!r}, which awaits it: spawn green threads while the "
            "loop that awaits them runs; that has to be a oneloop loop (oneloop.run())"
        )
    is_over = loop.create_future()

    def settle() -> None:
        if not is_over.done():
            is_over.set_result(None)

    def tell(_: Greenlet) -> None:
        # The hub calls it; the loop may be another green thread's.
        if loop is greenlet.hub.asyncio_loop:
            settle()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(settle)

    greenlet.rawlink(tell)
    while not is_over.done():
        try:
            await asyncio.shield(is_over)
        except asyncio.CancelledError as cancelled:
            if is_over.done():
                # Its end and the cancellation came together: the cancellation counts.
                raise
            greenlet.kill(cancelled, block=False)
