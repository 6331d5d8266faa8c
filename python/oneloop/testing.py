"""Tests with virtual time: a loop whose clock jumps to the next deadline when nothing is ready.

An hour of `asyncio.sleep` takes no time, timers fire in the exact order of their deadlines, and
sockets, pipes and threads go on working. The clock starts at 0 and stands still while anything is
ready, so that a test that computes for a second has used no virtual time at all.

The loop cannot know of what happens outside of it: while a program waits for another process, a
thread or a remote peer, virtual time passes at once, and a timeout around that wait fires first.
Where nothing is ready and no timer waits, it waits for real.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from oneloop import runner
from oneloop.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["new_event_loop", "run"]

_T = TypeVar("_T")


def new_event_loop() -> Loop:
    """Make a loop with virtual time, for test frameworks that take a loop factory."""
    return Loop(virtual_time=True)


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
