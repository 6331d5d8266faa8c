"""The event loops. All run the same programs; only the factory differs."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

#: Rival name -> module that offers new_event_loop. The second name of uvloop is for A/A runs.
MODULES = {
    "asyncio": "asyncio",
    "uvloop": "uvloop",
    "uvloop-again": "uvloop",
    "rloop": "rloop",
    "blazio": "blazio",
    "zloop": "zloop",
    "zuvloop": "zuvloop",
    "oneloop": "oneloop",
}


def factory(name: str) -> LoopFactory:
    """The loop factory of a rival. Raises ImportError, AttributeError."""
    found: LoopFactory = importlib.import_module(MODULES[name]).new_event_loop
    return found


def run(main: Coroutine[object, object, object], name: str) -> None:
    """Runs a program on the rival's loop, the same way on every Python and loop."""
    with asyncio.Runner(loop_factory=factory(name)) as runner:
        runner.run(main)
