"""Calls from green threads to coroutines and back, on one loop.

If a task that awaits a green thread is cancelled, CancelledError is raised where the green thread waits, and the task
waits for its end. If a green thread is killed while it awaits something, that is cancelled.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from typing import TYPE_CHECKING, Any, TypeVar

from greenlet import getcurrent

from oneloop.green.awaiting import ended
from oneloop.green.greenlet import Greenlet
from oneloop.green.hub import Waiter, get_hub
from oneloop.green.parking_selector import is_on_hub
from oneloop.green.steps import is_in_green_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oneloop.green.hub import Hub

__all__ = ["await_", "in_context", "run_green"]

T = TypeVar("T")


def await_(awaitable: Awaitable[T]) -> T:
    """Wait in a green thread for the result of an awaitable.

    A coroutine runs on the loop that called the green thread with `run_green`, otherwise on the hub's loop. A task or
    future can belong to any loop that runs on this hub. If the green thread is killed or a Timeout expires, the
    awaitable is cancelled, and the green thread does not wait for that.

    Args:
        awaitable: a coroutine, task, future or other awaitable.

    Raises:
        RuntimeError: called in a coroutine, which can use `await`.
        ValueError: the awaitable belongs to a loop that does not run on this hub.
        BaseException: the exception that the awaitable raises.
    """
    if not is_in_green_thread():
        close = getattr(awaitable, "close", None)
        if close is not None:
            close()
        raise RuntimeError("await_() is for green threads: use `await` in a coroutine")
    hub = get_hub()
    loop = _loop_for(awaitable, hub)
    if asyncio.isfuture(awaitable) and awaitable.get_loop() is not loop:
        raise ValueError(
            f"{awaitable!r} belongs to an event loop that does not run here. If asyncio.gather() or ensure_future() "
            "was called in a green thread: these look for a running loop, and a green thread has none. Call them in a "
            "coroutine that is passed to await_(), or start green threads and use joinall()"
        )
    waiter = Waiter(hub)
    if loop is not hub.asyncio_loop or (loop.get_task_factory() is not None and not asyncio.isfuture(awaitable)):
        # An eager task factory runs the coroutine at once, which needs the running loop.
        return _await_elsewhere(awaitable, loop, waiter)
    future: asyncio.Future[T] = asyncio.ensure_future(awaitable, loop=hub.asyncio_loop)
    future.add_done_callback(waiter.wake)
    try:
        waiter.get()
    except BaseException:
        future.remove_done_callback(waiter.wake)
        # At the end of the loop its tasks were cancelled already.
        if not loop.is_closed():
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
    """Await on a loop that another green thread runs: the future is created and cancelled in that loop's callbacks."""
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
    """Return a wrapper that calls `function` in a shared context instead of a copy: for `spawn`, `run_green`, pools.

    Args:
        function: the function to call in a green thread.
        context: the context; None means the caller's own, so that the caller and the function see each other's changes.
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
    """A green thread whose exceptions are raised in the coroutine that awaits it."""

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
    """Raise an error out of the loop; used as a callback."""
    raise error


async def run_green(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a function in a green thread of the running loop, with a copy of the caller's context.

    To share the caller's context instead, pass `in_context(function)`.

    Args:
        function: the function to call.
        *args: its arguments.
        **kwargs: its keyword arguments.

    Returns:
        The function's return value.

    Raises:
        asyncio.CancelledError: the call was cancelled, or the green thread ended with GreenletExit.
        BaseException: the exception that the function raises.
    """
    greenlet = _Running(function, *args, **kwargs)
    greenlet.start()
    value: T = await ended(greenlet)
    return value
