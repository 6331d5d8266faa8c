"""Where a call is made: in a green thread, or in a step of a loop, that is in a coroutine or a callback.

In a step of oneloop's own loop nothing could run while it blocks. A loop that a green thread runs, such as asyncio's in
a patched program, can wait in the midst of a step: see docs/design/0027.
"""

from __future__ import annotations

import asyncio
from asyncio import _get_running_loop
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from oneloop import _native

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.green.hub import Hub

__all__ = ["block_in_steps", "is_in_callback", "is_in_green_thread", "is_patched", "may_block", "wait_here"]

P = ParamSpec("P")
T = TypeVar("T")


class _Steps:
    may_block = False


def block_in_steps(is_allowed: bool) -> None:
    """Set whether a step of a loop that a green thread runs may block. `oneloop.green.facade` does, for patching.

    In a patched program it may, as in one that is not patched: its loop waits, and other green threads run.
    """
    _Steps.may_block = is_allowed


def is_patched() -> bool:
    """Whether asyncio is patched."""
    return _Steps.may_block


def is_in_green_thread() -> bool:
    """Whether the caller is no coroutine or callback of a running loop. Objects that can be awaited are, there."""
    return _get_running_loop() is None


def may_block() -> bool:
    """Whether a call that has to wait may do so here: in a green thread, and see `block_in_steps`."""
    loop = _get_running_loop()
    return loop is None or (_Steps.may_block and not isinstance(loop, _native.LoopCore))


def wait_here(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that waits as in a green thread, and return its result.

    In a step that may block its loop is hidden meanwhile: none counts as running, and no task as current.

    Raises:
        BlockingSwitchOutError: called in a coroutine or a callback that may not block.
    """
    if is_in_green_thread():
        return function(*args, **kwargs)
    hub: Hub = _native.get_hub()  # type: ignore[assignment]
    if not hub._may_block_in_step():
        raise hub._parking_refused()
    return _native.call_hidden(function, *args, **kwargs)


def is_in_callback() -> bool:
    """Whether the caller runs in a callback of a hub that runs its own loop. There it may neither block nor await."""
    loop = _get_running_loop()
    if loop is None or asyncio.current_task(loop) is not None:
        return False
    hub = getattr(loop, "_hub", None)
    return hub is not None and hub.is_owner
