"""Waits that leave nothing behind if they are cancelled.

`wait` and `shielded` are `asyncio.wait` and `shield`, without what newer versions of CPython do if they are cancelled.

From CPython 3.14 on a variable of `asyncio.wait` is the task that waits, and the CancelledError of that task has the
frame in its traceback: the task stays until the garbage collector runs. And `asyncio.shield` of later versions reports
an exception that the future has after its waiter was cancelled. `on_thread` is `asyncio.to_thread` for what must not
go on behind its caller's back.
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import tasks
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["clear_frame", "on_thread", "shielded", "to_its_end", "wait"]

T = TypeVar("T")
_Future = TypeVar("_Future", bound="asyncio.Future[Any]")
_stock_wait: Any = tasks._wait  # type: ignore[attr-defined]


async def wait(
    futures: Iterable[_Future], *, timeout: float | None = None, return_when: str = asyncio.ALL_COMPLETED
) -> tuple[set[_Future], set[_Future]]:
    """Wait for futures of the running loop, as `asyncio.wait`.

    Raises:
        ValueError: there are no futures.
    """
    try:
        return await asyncio.wait(futures, timeout=timeout, return_when=return_when)
    except BaseException as exc:
        clear_frame(exc, _stock_wait)
        raise


async def shielded(future: asyncio.Future[T]) -> T:
    """Await a future that goes on if the waiter is cancelled. An exception that it has then is nobody's.

    Raises:
        BaseException: what the future has raised.
    """
    try:
        await wait([future])
        return future.result()
    except asyncio.CancelledError:
        # Once, however many have waited, and without their contexts.
        future.remove_done_callback(_retrieve)
        future.add_done_callback(_retrieve, context=contextvars.Context())
        raise
    finally:
        # The traceback of what is raised has this frame.
        del future


def _retrieve(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


async def to_its_end(future: asyncio.Future[T], on_cancel: Callable[[asyncio.Future[T]], object]) -> T:
    """Await a future that goes on if the waiter is cancelled. The waiter ends with it, and is cancelled only then.

    Args:
        future: what to wait for. An exception that it has after a cancellation is nobody's.
        on_cancel: called with the future at each cancellation. It may end it sooner.

    Raises:
        BaseException: what the future has raised.
    """
    cancelled: asyncio.CancelledError | None = None
    try:
        while not future.done():
            try:
                await wait([future])
            except asyncio.CancelledError as error:
                cancelled = error
                on_cancel(future)
        if cancelled is not None:
            _retrieve(future)
            raise cancelled
        return future.result()
    finally:
        # The traceback of what is raised has this frame.
        del future, cancelled, on_cancel


async def on_thread(function: Callable[..., T], *args: Any) -> T:
    """Call a function in a thread of the loop's executor. When this has ended, no thread is in it, nor will be.

    If this is cancelled, it ends when the function has returned, or at once if no thread has begun with it. What the
    function has returned or raised is lost then.

    Raises:
        BaseException: what the function has raised.
    """
    # Whoever takes it decides: the thread that begins, or the cancellation.
    turn = [True]

    def call() -> T:
        # Whose caller is gone does nothing.
        return function(*args) if _taken(turn) else cast("T", None)

    def give_up(calling: asyncio.Future[T]) -> None:
        if _taken(turn):
            calling.cancel()

    return await to_its_end(asyncio.get_running_loop().run_in_executor(None, call), give_up)


def _taken(turn: list[bool]) -> bool:
    try:
        return turn.pop()
    except IndexError:
        return False


def clear_frame(exc: BaseException, function: Any) -> None:
    """Forget the variables of a coroutine that has ended with an exception.

    One of them is the future or the task that has raised it. Together they would stay until the garbage collector runs,
    with all that they have.
    """
    traceback = exc.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is function.__code__:
            traceback.tb_frame.clear()
        traceback = traceback.tb_next
