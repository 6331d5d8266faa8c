"""The end of the default executor, without a fault of CPython 3.12.0 and 3.12.1.

gh-111358: the time limit of `shutdown_default_executor` begins only when the threads have ended, so a thread that never
ends keeps the loop for ever, and `asyncio.run` too. The other versions do what this does.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import warnings
from typing import Any

__all__ = ["ExecutorMixin", "shut_down"]


class ExecutorMixin:
    """`shutdown_default_executor` of `oneloop.Loop`."""

    __slots__ = ()

    if (3, 12) <= sys.version_info < (3, 12, 2):

        async def shutdown_default_executor(self, timeout: float | None = None) -> None:
            """Wait until the calls in the default executor have ended.

            Args:
                timeout: the longest time to wait in seconds; then a RuntimeWarning is issued. None means no limit.
            """
            await shut_down(self, timeout)


async def shut_down(loop: Any, timeout_s: float | None) -> None:
    """Implement `shutdown_default_executor` for a loop; see there."""
    loop._executor_shutdown_called = True
    executor = loop._default_executor
    if executor is None:
        return
    ended = loop.create_future()

    def tell(error: Exception | None) -> None:
        if ended.done():
            # Nobody waits any more.
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def join() -> None:
        error = None
        try:
            executor.shutdown(wait=True)
        except Exception as caught:  # noqa: BLE001 - it is raised in the loop's thread
            error = caught
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, error)

    thread = threading.Thread(target=join)
    thread.start()
    try:
        async with asyncio.timeout(timeout_s):
            await ended
    except TimeoutError:
        warnings.warn(f"the executor's threads have not ended within {timeout_s} seconds", RuntimeWarning, stacklevel=3)
        executor.shutdown(wait=False)
    else:
        thread.join()
