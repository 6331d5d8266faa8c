"""Whether a call that waits lets other green threads run, or blocks the OS thread.

Code of the standard library that waits while it holds a lock of the interpreter's threads must block: another green
thread of this OS thread that wants the lock would block it for ever.
"""

from __future__ import annotations

import functools
from _thread import _local
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from oneloop.green.hub import has_hub
from oneloop.green.steps import may_block

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["blocking", "may_wait"]

P = ParamSpec("P")
T = TypeVar("T")

# Of an OS thread: how many of the functions below it is in.
_here = _local()


def may_wait() -> bool:
    """Whether a wait lets other green threads run. In OS threads without any, and where it may not, it blocks."""
    return may_block() and has_hub() and not getattr(_here, "depth", 0)


def blocking(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that blocks its OS thread when it waits, also in a green thread."""

    @functools.wraps(function)
    def block(*args: P.args, **kwargs: P.kwargs) -> T:
        _here.depth = getattr(_here, "depth", 0) + 1
        try:
            return function(*args, **kwargs)
        finally:
            _here.depth -= 1

    return block
