"""uvloop's public names, on oneloop (those of uvloop 0.23).

Differences: `install()` does not warn on Python 3.12 and 3.13. `EventLoopPolicy` is asyncio's default policy with
oneloop loops, so `get_event_loop()` creates a loop in the main thread in the same cases as asyncio's policy.
`Loop.statistics()` replaces uvloop's `_debug_*` counters.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import oneloop
from oneloop.compat.uvloop.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from oneloop.policy import EventLoopPolicy

# The version whose names these are, because programs compare it.
__version__ = "0.23.0"

__all__ = ["Loop", "__version__", "new_event_loop", "run"]
if sys.version_info < (3, 16):
    __all__ += ["EventLoopPolicy", "install"]

_T = TypeVar("_T")


def new_event_loop() -> Loop:
    """Create a loop."""
    return Loop()


def run(
    main: Coroutine[Any, Any, _T],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = new_event_loop,
    debug: bool | None = None,
) -> _T:
    """Run a coroutine on a new loop and return its result.

    Args:
        main: the coroutine.
        loop_factory: creates the loop; None uses asyncio's default.
        debug: whether to run in debug mode; None means the default.

    Raises:
        TypeError: `loop_factory` creates a loop that is not a oneloop loop, or `main` cannot be awaited.
        RuntimeError: called inside a running loop.
    """

    async def on_our_loop() -> _T:
        if not isinstance(asyncio.get_running_loop(), oneloop.Loop):
            if asyncio.iscoroutine(main):
                main.close()
            raise TypeError("uvloop.run() uses a non-uvloop event loop")
        return await main

    if asyncio._get_running_loop() is not None:
        raise RuntimeError("uvloop.run() cannot be called from a running event loop")
    # None selects asyncio's own default, as in uvloop.
    with asyncio.Runner(loop_factory=loop_factory, debug=debug) as running:
        return running.run(on_our_loop())


def install() -> None:
    """Set an event loop policy that creates oneloop loops."""
    from oneloop.policy import EventLoopPolicy

    # From Python 3.14 on, asyncio issues its deprecation warning for this call, as in uvloop.
    asyncio.set_event_loop_policy(EventLoopPolicy())


if not TYPE_CHECKING:  # a type checker must not assume that every name exists

    def __getattr__(name):
        if name == "EventLoopPolicy" and name in __all__:
            from oneloop.policy import EventLoopPolicy

            return EventLoopPolicy
        raise AttributeError(f"module 'uvloop' has no attribute {name!r}")
