"""Replace asyncio's default loop factory, for `install` and `oneloop run`.

`asyncio.run`, `asyncio.Runner` and `asyncio.new_event_loop` all call the default policy's
`_loop_factory` (Python 3.11 to 3.15). Replacing this one attribute therefore changes all of them, also
where a module has imported them by name. `asyncio.EventLoop`, the public name of the default since
3.13, is replaced as well. `oneloop run` also replaces `asyncio.SelectorEventLoop()`, which servers use
as the name of Linux' default. A program that sets another policy, derives a loop class, or passes a
selector is not affected.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import unix_events
from typing import Any

from oneloop.loop import Loop


def default_loop() -> asyncio.AbstractEventLoop:
    """Return a new `oneloop.Loop`; in a green thread, a facade loop that lets other green threads run."""
    # If the module is not imported, there are no green threads.
    facade = sys.modules.get("oneloop.green.facade")
    if facade is not None and facade.is_wanted():
        loop: asyncio.AbstractEventLoop = facade.FacadeLoop()
        return loop
    return Loop()


def replace_factories(*, named: bool = False) -> None:
    """Make `default_loop` asyncio's default loop factory for the rest of this process.

    Args:
        named: replace `asyncio.SelectorEventLoop()`, called without arguments, too.
    """
    policy: Any = unix_events._UnixDefaultEventLoopPolicy
    # Without staticmethod, the function would become a method of the policy.
    policy._loop_factory = staticmethod(default_loop)
    modules: tuple[Any, ...] = (asyncio, unix_events)
    for module in modules:
        if hasattr(module, "EventLoop"):
            # The class itself, so that `isinstance(loop, asyncio.EventLoop)` is true.
            module.EventLoop = Loop
    if named:
        stock: Any = unix_events._UnixSelectorEventLoop
        stock.__new__ = staticmethod(_new_named)


def _new_named(cls: type, *args: object, **kwargs: object) -> object:
    """Replace `asyncio.SelectorEventLoop.__new__`.

    `__init__` is not called for the loop of oneloop, because it is not an instance of `asyncio.SelectorEventLoop`.
    """
    if cls is unix_events._UnixSelectorEventLoop and all(value is None for value in (*args, *kwargs.values())):
        return default_loop()
    return object.__new__(cls)
