"""`concurrent.futures.ThreadPoolExecutor` in coroutines of a patched program.

    with ThreadPoolExecutor() as executor:
        await loop.run_in_executor(executor, function)

The `with` block ends with `shutdown()`, which joins idle threads. In a patched program these are green threads, which
end when the coroutine waits next. A coroutine that may not block cannot wait for them in `shutdown()`. It need not, if
all calls have ended.
"""

from __future__ import annotations

import functools
from concurrent.futures import Future
from concurrent.futures.thread import ThreadPoolExecutor
from typing import Any

from oneloop.green.steps import may_block

__all__ = ["adapt"]


def adapt() -> None:
    """Replace the executor's `submit` and `shutdown`. A second call has no effect."""
    pool: Any = ThreadPoolExecutor
    submit, shutdown = pool.submit, pool.shutdown
    if hasattr(submit, "__wrapped__"):
        return

    @functools.wraps(submit)
    def submit_noted(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = submit(self, fn, *args, **kwargs)
        unfinished: set[Future[Any]] = self.__dict__.setdefault("_unfinished", set())
        unfinished.add(future)
        future.add_done_callback(unfinished.discard)
        return future

    @functools.wraps(shutdown)
    def shutdown_somewhere(self: Any, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if wait and not may_block():
            shutdown(self, False, cancel_futures=cancel_futures)
            wait = bool(self.__dict__.get("_unfinished"))
        shutdown(self, wait, cancel_futures=cancel_futures)

    pool.submit, pool.shutdown = submit_noted, shutdown_somewhere
