"""oneloop on systems other than Linux: asyncio under oneloop's names, with one warning.

A library can therefore depend on oneloop on every platform. On these systems nothing is faster than
asyncio, and names that only the native loop has raise an ImportError.
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
    """Raise a RuntimeWarning that this is asyncio, on the first call only."""
    if sys.platform in _warned:
        return
    _warned.add(sys.platform)
    warnings.warn(
        f"the event loop of oneloop needs Linux: on {sys.platform}, oneloop runs on plain asyncio",
        RuntimeWarning,
        stacklevel=3,
    )


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop of asyncio."""
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
    """Do nothing: asyncio keeps its own loops."""
    warn_once()


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(f"oneloop.{name} is available on Linux only (this platform is {sys.platform})")
