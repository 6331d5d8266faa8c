"""Replaces the functions with which asyncio makes loops, for `install()` and `oneloop run`.

Reaches `asyncio.run`, `asyncio.Runner`, `asyncio.new_event_loop` and `asyncio.EventLoop`, and the
policy where one is asked; a program that names `asyncio.SelectorEventLoop` gets what it names.
"""

from __future__ import annotations

import asyncio
from asyncio import events, runners
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def replace_factories(factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Make asyncio's factories call `factory`."""
    modules: tuple[Any, ...] = (asyncio, events)
    for module in modules:
        module.new_event_loop = factory
        if hasattr(module, "EventLoop"):
            module.EventLoop = factory
    # Runner reads the name from its own module's `events`.
    assert runners.events is events, "asyncio.runners makes loops in another way"
    policy: Any = getattr(events, "_get_event_loop_policy", events.get_event_loop_policy)()
    if hasattr(type(policy), "_loop_factory"):
        type(policy)._loop_factory = staticmethod(factory)
