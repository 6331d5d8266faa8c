"""Tests with virtual time: a loop whose clock jumps to the next deadline when nothing is ready.

An hour of `asyncio.sleep` takes no real time, and timers fire in the exact order of their deadlines. The
clock starts at 0. It stops while a callback is ready or a job runs in an executor, so computation takes
no virtual time. Sockets and pipes work as usual. The clock also stops while data is on its way
between two open TCP sockets of the loop, but not longer than 0.3 seconds of real time in which nothing arrives.

The clock does not wait for other work outside of the process. While a program waits for another process or a
remote peer, the clock jumps immediately, so a timeout around that wait expires first. If nothing is
ready and no timer is scheduled, the loop waits in real time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from oneloop import runner
from oneloop.loop import Loop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor
    from typing import TypeVarTuple

    _Ts = TypeVarTuple("_Ts")

__all__ = ["new_event_loop", "run"]

_T = TypeVar("_T")

# Real time between two checks whether an executor's job has ended, in seconds.
_JOB_PAUSE_S = 0.0005


class _VirtualTimeLoop(Loop):
    """A loop with virtual time whose clock stops while jobs run in executors."""

    def __init__(self, *, virtual_time: bool = True) -> None:
        super().__init__(virtual_time=virtual_time)
        self._jobs = 0

    def run_in_executor(self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts) -> asyncio.Future[_T]:
        future: asyncio.Future[_T] = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        future.add_done_callback(self._job_ended)
        if self._jobs == 1:
            self.call_soon(self._hold_clock)
        return future

    def _job_ended(self, _future: asyncio.Future[Any]) -> None:
        self._jobs -= 1

    def _hold_clock(self) -> None:
        # The clock does not advance while a callback is ready, so keep one ready.
        if self._jobs:
            time.sleep(_JOB_PAUSE_S)
            self.call_soon(self._hold_clock)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        # Ignore the Runner's timeout: in virtual time it would expire immediately.
        await super().shutdown_default_executor()


def new_event_loop() -> Loop:
    """Return a new loop with virtual time, for test frameworks that take a loop factory."""
    # Passed explicitly because the native `__new__` reads the argument too.
    return _VirtualTimeLoop(virtual_time=True)


def run(main: Coroutine[Any, Any, _T], *, debug: bool | None = None) -> _T:
    """Run a coroutine in virtual time and return its result. Otherwise like `oneloop.run`.

    Args:
        main: as for `oneloop.run`.
        debug: as for `oneloop.run`.

    Raises:
        RuntimeError, ValueError, TypeError: as `oneloop.run`.
        BaseException: any exception that the coroutine raises.

    >>> import asyncio
    >>> async def main():
    ...     await asyncio.sleep(3600)
    ...     return asyncio.get_running_loop().time()
    >>> run(main())
    3600.0
    """
    return runner.run(main, debug=debug, loop_factory=new_event_loop)
