"""The loops of this process, numbered in the order in which they were made; holds none of them alive.

The first loop opens the socket for `oneloop top`, if the environment asks for it.
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
"""The environment variable that asks for the socket: a path, or 1 for the usual place."""

_numbers = count(1)
_loops: dict[int, weakref.ref[Loop]] = {}
_made: list[int] = []
"""The number of the first loop."""


def add(loop: Loop) -> None:
    """Number a new loop."""
    number = next(_numbers)
    _loops[number] = weakref.ref(loop, lambda _, number=number: _loops.pop(number, None))  # type: ignore[misc]
    if not _made:
        _made.append(number)
        if os.environ.get(VARIABLE):
            from oneloop import stats_socket

            stats_socket.open_as_environment_says()


def loops() -> list[tuple[int, Loop]]:
    """Those that still exist, with their numbers. Any thread."""
    # In one step, as other threads make loops meanwhile.
    return [(number, loop) for number, reference in list(_loops.items()) if (loop := reference()) is not None]


def has_made_loops() -> bool:
    """Whether this process has made one."""
    return bool(_made)


def _forget_the_parents() -> None:
    _loops.clear()
    _made.clear()


os.register_at_fork(after_in_child=_forget_the_parents)
