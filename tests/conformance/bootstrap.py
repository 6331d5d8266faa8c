"""Puts a loop where `test.test_asyncio` looks for one, before its modules are imported.

The tests make their loops through `asyncio.new_event_loop`, the default policy, `asyncio.EventLoop` and
`asyncio.SelectorEventLoop([selector])`. Only those names are replaced: everything else that the tests see is
the interpreter's own. Knows nothing of results or of which tests run.
"""

from __future__ import annotations

import asyncio
import selectors
from asyncio import unix_events
from typing import Any

LOOPS = ("asyncio", "oneloop")


def install(loop_name: str) -> None:
    """Make the named loop the one that asyncio's tests get. "asyncio" changes nothing.

    Raises:
        ValueError: for a name that is not in LOOPS.
    """
    if loop_name not in LOOPS:
        raise ValueError(f"unknown loop {loop_name!r}: one of {', '.join(LOOPS)}")
    if loop_name == "oneloop":
        _install_oneloop()


def _install_oneloop() -> None:
    import oneloop

    class SelectorEventLoop(oneloop.Loop):
        """oneloop's loop under the constructor that the tests call; it has no use for a selector."""

        def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
            super().__init__()
            if selector is not None:
                selector.close()

    # A test asks `isinstance(loop, asyncio.SelectorEventLoop)` of loops made by any of the names below.
    replacement: Any = SelectorEventLoop
    for module in (asyncio, unix_events):
        for name in ("SelectorEventLoop", "EventLoop", "_UnixSelectorEventLoop"):
            if hasattr(module, name):
                setattr(module, name, replacement)
    policy: Any = unix_events._UnixDefaultEventLoopPolicy
    policy._loop_factory = replacement
