"""The functions that create a oneloop loop: `run`, `new_event_loop`, `install`."""

from __future__ import annotations

import asyncio
import sys
from asyncio import events
from typing import TYPE_CHECKING, Any, TypeVar

from oneloop.factories import default_loop
from oneloop.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_T = TypeVar("_T")


def new_event_loop() -> Loop:
    """Return a new loop. It is not running, and not set as the current loop.

    Raises:
        OSError: the process has no file descriptors left.
    """
    return Loop()


def run(
    main: Coroutine[Any, Any, _T],
    *,
    debug: bool | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> _T:
    """Run a coroutine on a new oneloop loop and return its result, like `asyncio.run`.

    In a green thread, the new loop does not block the other green threads (see `oneloop.green.run`).

    Args:
        main: a coroutine; from Python 3.14 on any awaitable, as with `asyncio.run`.
        debug: turns the loop's debug mode on or off. None: the environment variable PYTHONASYNCIODEBUG decides.
        loop_factory: called to create the loop, instead of the default.

    Returns:
        The coroutine's result.

    Raises:
        RuntimeError: an event loop is already running in this thread.
        ValueError, TypeError: `main` is not a coroutine; the class depends on the Python version.
        BaseException: any exception that the coroutine raises.
    """
    # asyncio.run() itself has no `loop_factory` in Python 3.11.
    if events._get_running_loop() is not None:
        raise RuntimeError(
            "oneloop.run() cannot be called from a running event loop: in a coroutine, await the coroutine instead"
        )
    with asyncio.Runner(debug=debug, loop_factory=loop_factory or default_loop) as runner:
        return runner.run(main)


def install() -> None:
    """Make `asyncio.run`, `asyncio.Runner` and `asyncio.new_event_loop` create oneloop loops.

    Loops that exist already are not changed. Up to Python 3.13 this sets the event loop policy. From 3.14
    on, where policies are deprecated (3.16 removes them), it replaces asyncio's default factory for the
    rest of the process.
    """
    if sys.version_info < (3, 14):
        from oneloop.policy import EventLoopPolicy

        asyncio.set_event_loop_policy(EventLoopPolicy())
    else:
        from oneloop.factories import replace_factories

        replace_factories()
