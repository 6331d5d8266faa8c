"""How a program gets a oneloop loop: `run`, `new_event_loop`, `install`."""

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
    """Make a loop. OSError when the process is out of descriptors."""
    return Loop()


def run(
    main: Coroutine[Any, Any, _T],
    *,
    debug: bool | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> _T:
    """Run a coroutine on a new oneloop loop and return its result, like `asyncio.run`.

    In a green thread it is a loop that lets the other green threads go on (`oneloop.green.run`).

    Args:
        main: a coroutine (from Python 3.14 on any awaitable, as `asyncio.run` has it).
        debug: turns the loop's debug mode on or off; None leaves it to PYTHONASYNCIODEBUG.
        loop_factory: makes another loop instead.

    Returns:
        What the coroutine returns.

    Raises:
        RuntimeError: inside a running loop.
        ValueError, TypeError: for anything but a coroutine, as the Python version has it.
    """
    # What asyncio.run() does, which takes a loop factory from Python 3.12 on.
    if events._get_running_loop() is not None:
        raise RuntimeError("oneloop.run() cannot be called from a running event loop")
    with asyncio.Runner(debug=debug, loop_factory=loop_factory or default_loop) as runner:
        return runner.run(main)


def install() -> None:
    """Make every `asyncio.run`, `Runner` and `new_event_loop` from here on give a oneloop loop.

    Sets the event loop policy up to Python 3.13. From 3.14 on policies are deprecated (gone in
    3.16): asyncio's default factories are replaced instead, for the rest of the process.
    """
    if sys.version_info < (3, 14):
        from oneloop.policy import EventLoopPolicy

        asyncio.set_event_loop_policy(EventLoopPolicy())
    else:
        from oneloop.factories import replace_factories

        replace_factories()
