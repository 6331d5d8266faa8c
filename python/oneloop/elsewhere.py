"""oneloop on other systems than Linux: asyncio under oneloop's names, with one warning.

So that a library may depend on oneloop without asking what it runs on. Nothing here makes a
program faster, and what only the native loop has raises an ImportError that says so.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_T = TypeVar("_T")


_warned: set[str] = set()


def warn_once() -> None:
    """Say that this is asyncio; a RuntimeWarning, at the first call only."""
    if sys.platform in _warned:
        return
    _warned.add(sys.platform)
    warnings.warn(
        f"oneloop runs on Linux only: on {sys.platform} it is plain asyncio",
        RuntimeWarning,
        stacklevel=3,
    )


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make asyncio's own loop."""
    warn_once()
    return asyncio.new_event_loop()


def run(
    main: Coroutine[Any, Any, _T],
    *,
    debug: bool | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> _T:
    """Run a coroutine as `asyncio.run` does."""
    warn_once()
    with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
        return runner.run(main)


def install() -> None:
    """Do nothing: asyncio's own loops stay."""
    warn_once()


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(f"oneloop.{name} exists on Linux only (this is {sys.platform})")
