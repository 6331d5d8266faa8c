"""The loops of this process, numbered in the order in which they were made. Holds only weak references to them.

When the first loop is made, the socket for `oneloop top` is opened if `ONELOOP_STATS_SOCKET` is set.
"""

from __future__ import annotations

import os
import weakref
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oneloop.loop import Loop

__all__ = ["VARIABLE", "add", "has_made_loops", "loops"]

VARIABLE = "ONELOOP_STATS_SOCKET"
"""The environment variable that enables the socket: a path, or 1 for the default path."""

_numbers = count(1)
_loops: dict[int, weakref.ref[Loop]] = {}
_made: list[int] = []
"""The number of the first loop."""


def add(loop: Loop) -> None:
    """Register a new loop and give it a number."""
    number = next(_numbers)
    _loops[number] = weakref.ref(loop, lambda _, number=number: _loops.pop(number, None))  # type: ignore[misc]
    if not _made:
        _made.append(number)
        if os.environ.get(VARIABLE):
            from oneloop import stats_socket

            stats_socket.open_as_environment_says()


def loops() -> list[tuple[int, Loop]]:
    """Return the loops that still exist, with their numbers. Can be called from any thread."""
    # Copied in one step, because other threads may make loops at the same time.
    return [(number, loop) for number, reference in list(_loops.items()) if (loop := reference()) is not None]


def has_made_loops() -> bool:
    """Return whether this process has made a loop."""
    return bool(_made)


def _forget_the_parents() -> None:
    _loops.clear()
    _made.clear()


os.register_at_fork(after_in_child=_forget_the_parents)
