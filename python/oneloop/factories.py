"""Replaces what asyncio makes loops with when nobody names a loop: for `install`, `oneloop run`.

`asyncio.run`, `asyncio.Runner` and `asyncio.new_event_loop` all end in the default policy's
`_loop_factory` (Python 3.11 to 3.15), so that one attribute reaches every one of them, in whatever
module their names were imported. `asyncio.EventLoop`, the default's public name since 3.13, is
replaced with it. A program that names `asyncio.SelectorEventLoop` or sets a policy of its own gets
what it names.
"""

from __future__ import annotations

import asyncio
from asyncio import unix_events
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def replace_factories(factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Make `factory` the default loop of asyncio in this process, from here on.

    A class is best: `isinstance(loop, asyncio.EventLoop)` then holds.
    """
    policy: Any = unix_events._UnixDefaultEventLoopPolicy
    # A plain function would become a method of the policy.
    policy._loop_factory = staticmethod(factory)
    modules: tuple[Any, ...] = (asyncio, unix_events)
    for module in modules:
        if hasattr(module, "EventLoop"):
            module.EventLoop = factory
