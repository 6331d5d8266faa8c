"""Tests with virtual time: a loop whose clock jumps to the next deadline when nothing is ready.

An hour of `asyncio.sleep` takes no time, and timers fire in the exact order of their deadlines. The
clock starts at 0 and stands still while anything is ready or a job runs in an executor, so that a
test that computes for a second has used no virtual time at all. Sockets and pipes go on working.

The loop cannot know of what happens outside of its process: while a program waits for another
process or a remote peer, virtual time passes at once, and a timeout around that wait fires first.
Where nothing is ready and no timer waits, it waits for real.
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

# How often a loop that waits for a job in a thread looks for it, in real time.
_JOB_PAUSE_S = 0.0005


class _VirtualTimeLoop(Loop):
    """A loop with virtual time, which stands still while jobs run in executors."""

    def __init__(self, *, virtual_time: bool = True) -> None:
        super().__init__(virtual_time=virtual_time)
        self._jobs = 0

    def run_in_executor(self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts) -> asyncio.Future[_T]:
        future = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        future.add_done_callback(self._job_ended)
        if self._jobs == 1:
            self.call_soon(self._hold_clock)
        return future

    def _job_ended(self, _future: asyncio.Future[Any]) -> None:
        self._jobs -= 1

    def _hold_clock(self) -> None:
        # As long as something is ready, the clock stands.
        if self._jobs:
            time.sleep(_JOB_PAUSE_S)
            self.call_soon(self._hold_clock)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        # The time that Runner allows would have passed at once.
        await super().shutdown_default_executor()


def new_event_loop() -> Loop:
    """Make a loop with virtual time, for test frameworks that take a loop factory."""
    # The native constructor looks for the argument too.
    return _VirtualTimeLoop(virtual_time=True)


def run(main: Coroutine[Any, Any, _T], *, debug: bool | None = None) -> _T:
    """Run a coroutine in virtual time and return its result.

    Raises what `oneloop.run` raises.

    >>> import asyncio
    >>> async def main():
    ...     await asyncio.sleep(3600)
    ...     return asyncio.get_running_loop().time()
    >>> run(main())
    3600.0
    """
    return runner.run(main, debug=debug, loop_factory=new_event_loop)
