"""Replaces what asyncio makes loops with when nobody names a loop: for `install`, `oneloop run`.

`asyncio.run`, `asyncio.Runner` and `asyncio.new_event_loop` all end in the default policy's
`_loop_factory` (Python 3.11 to 3.15), so that one attribute reaches every one of them, in whatever
module their names were imported. `asyncio.EventLoop`, the default's public name since 3.13, is
replaced with it. `oneloop run` also serves `asyncio.SelectorEventLoop()`, with which servers name the default of Linux.
A program that sets a policy of its own, derives a loop, or gives it a selector gets what it names.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import unix_events
from typing import Any

from oneloop.loop import Loop


def default_loop() -> asyncio.AbstractEventLoop:
    """A `oneloop.Loop`; in a green thread, a loop that lets the others go on."""
    # Where nobody has imported it, there are no green threads.
    facade = sys.modules.get("oneloop.green.facade")
    if facade is not None and facade.is_wanted():
        loop: asyncio.AbstractEventLoop = facade.FacadeLoop()
        return loop
    return Loop()


def replace_factories(*, named: bool = False) -> None:
    """Make `default_loop` what asyncio makes loops with in this process, from here on.

    Args:
        named: also for programs that call `asyncio.SelectorEventLoop()` without arguments.
    """
    policy: Any = unix_events._UnixDefaultEventLoopPolicy
    # A plain function would become a method of the policy.
    policy._loop_factory = staticmethod(default_loop)
    modules: tuple[Any, ...] = (asyncio, unix_events)
    for module in modules:
        if hasattr(module, "EventLoop"):
            # A class: `isinstance(loop, asyncio.EventLoop)` holds.
            module.EventLoop = Loop
    if named:
        stock: Any = unix_events._UnixSelectorEventLoop
        stock.__new__ = staticmethod(_new_named)


def _new_named(cls: type, *args: object, **kwargs: object) -> object:
    """`asyncio.SelectorEventLoop.__new__`; what it returns is not initialised again, as it is of another class."""
    if cls is unix_events._UnixSelectorEventLoop and all(value is None for value in (*args, *kwargs.values())):
        return default_loop()
    return object.__new__(cls)
