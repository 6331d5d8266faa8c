"""Puts a loop where `test.test_asyncio` looks for one, before its modules are imported.

The tests make their loops through `asyncio.new_event_loop`, the default policy, `asyncio.EventLoop`,
`asyncio.SelectorEventLoop([selector])`, the base classes `base_events.BaseEventLoop` and
`selector_events.BaseSelectorEventLoop`, and their own `utils.TestLoop`. Only those names are replaced: everything else
that the tests see is the interpreter's own. Knows nothing of results or of which tests run.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import selectors
import sys
import types
from asyncio import base_events, selector_events, unix_events
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


class _Shown(types.ModuleType):
    """One of asyncio's modules as a module of tests sees it: the same, save for the base class of loops."""

    def __init__(self, shown: types.ModuleType, base: type) -> None:
        super().__init__(shown.__name__)
        vars(self).update(_shown=shown, BaseEventLoop=base)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._shown, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._shown, name)


def adapt(module: types.ModuleType) -> None:
    """Give a module of tests the installed loop also where it makes or derives one from `BaseEventLoop` itself.

    In that module only: oneloop's own class stands on the real one, and tests ask for the real one's methods.
    """
    doubles = sys.modules.get("tests.conformance.doubles")
    if doubles is None:
        return
    source = inspect.getsource(module)
    for shown in (asyncio, base_events):
        name = shown.__name__.rpartition(".")[2]
        if re.search(rf"\b{name}\.BaseEventLoop\(|\({name}\.BaseEventLoop\)", source):
            vars(module)[name] = _Shown(shown, doubles.CountedLoop)


def loops_made() -> int:
    """How many of oneloop's loops there have been in this process."""
    doubles = sys.modules.get("tests.conformance.doubles")
    return doubles.CountedLoop.made if doubles is not None else 0


def _install_oneloop() -> None:
    from test.test_asyncio import utils

    from tests.conformance import doubles

    utils.TestLoop = doubles.adopt(utils.TestLoop)

    class SelectorEventLoop(doubles.CountedLoop):
        """oneloop's loop under the constructor that the tests call; it has no use for a selector."""

        def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
            super().__init__()
            if selector is not None:
                selector.close()

    # A test asks `isinstance(loop, asyncio.SelectorEventLoop)` of loops made by any of the names below.
    replacement: Any = SelectorEventLoop
    names = ("SelectorEventLoop", "EventLoop", "_UnixSelectorEventLoop", "BaseSelectorEventLoop")
    for module in (asyncio, unix_events, selector_events):
        for name in names:
            if hasattr(module, name):
                setattr(module, name, replacement)
    policy: Any = unix_events._UnixDefaultEventLoopPolicy
    policy._loop_factory = replacement
