"""`wait` and `shielded`: `asyncio.wait` and `shield`, without what newer versions of CPython do if they are cancelled.

From CPython 3.14 on a variable of `asyncio.wait` is the task that waits, and the CancelledError of that task has the
frame in its traceback: the task stays until the garbage collector runs. And `asyncio.shield` of later versions reports
an exception that the future has after its waiter was cancelled.
"""

from __future__ import annotations

import asyncio
from asyncio import tasks
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["clear_frame", "shielded", "wait"]

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
        future.add_done_callback(_retrieve)
        raise
    finally:
        # The traceback of what is raised has this frame.
        del future


def _retrieve(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


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
