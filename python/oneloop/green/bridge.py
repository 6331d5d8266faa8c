"""From green threads to coroutines and back, on one loop.

A cancellation of the awaiting task raises CancelledError where the green thread waits, and waits for its end; a green
thread that is killed while it awaits something cancels that.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any, TypeVar

from greenlet import GreenletExit

from oneloop.green.greenlet import Greenlet
from oneloop.green.hub import Waiter, get_hub, is_in_green_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["await_", "ended", "run_green"]

T = TypeVar("T")


def await_(awaitable: Awaitable[T]) -> T:
    """What a coroutine, task or future of this hub's loop gives; in a green thread, which waits meanwhile.

    Killed, or out of time, the green thread cancels what it awaits, and does not wait for that.

    Raises:
        RuntimeError: in a coroutine, which can await it.
        BaseException: what it raises.
    """
    if not is_in_green_thread():
        close = getattr(awaitable, "close", None)
        if close is not None:
            close()
        raise RuntimeError("await_() is for green threads: a coroutine can await it")
    hub = get_hub()
    waiter = Waiter(hub)
    future: asyncio.Future[T] = asyncio.ensure_future(awaitable, loop=hub.asyncio_loop)
    future.add_done_callback(waiter.wake)
    try:
        waiter.get()
    except BaseException:
        future.remove_done_callback(waiter.wake)
        future.cancel()
        raise
    return future.result()


class _Running(Greenlet):
    """A green thread whose errors are its awaiter's."""

    def _report(self, error: BaseException) -> None:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            self.hub.handle_system_error(type(error), error, error.__traceback__)


async def run_green(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a function in a green thread of the running loop, with a copy of the caller's context; what it returns.

    Raises:
        asyncio.CancelledError: it was cancelled, or has ended with GreenletExit.
        BaseException: what it raises.
    """
    greenlet = _Running(function, *args, **kwargs)
    greenlet.gr_context = contextvars.copy_context()
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
    if loop is not greenlet.hub.asyncio_loop:
        raise RuntimeError(f"{greenlet!r} belongs to another event loop")
    is_over = loop.create_future()

    def tell(_: Greenlet) -> None:
        if not is_over.done():
            is_over.set_result(None)

    greenlet.rawlink(tell)
    while not is_over.done():
        try:
            await asyncio.shield(is_over)
        except asyncio.CancelledError as cancelled:
            if is_over.done():
                # Its end and the cancellation came together: the cancellation counts.
                raise
            greenlet.kill(cancelled, block=False)
