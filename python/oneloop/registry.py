"""The loops of this process, numbered in the order in which they were made. Holds only weak references to them."""

from __future__ import annotations

import os
import weakref
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.loop import Loop

__all__ = ["add", "add_kind", "call_with_first", "follow_kinds", "has_made_loops", "loops"]

_numbers = count(1)
_loops: dict[int, weakref.ref[Loop]] = {}
_made: list[int] = []
"""The number of the first loop."""
_calls_with_first: list[Callable[[], None]] = []


def add(loop: Loop) -> None:
    """Register a new loop and give it a number."""
    number = next(_numbers)
    _loops[number] = weakref.ref(loop, lambda _, number=number: _loops.pop(number, None))  # type: ignore[misc]
    if not _made:
        _made.append(number)
        for call in _calls_with_first:
            call()


def call_with_first(function: Callable[[], None]) -> None:
    """Call a function when the first loop of this process, or of a forked child, is made."""
    _calls_with_first.append(function)


_kinds: list[type] = []
_followers: list[Callable[[type], None]] = []


def add_kind(kind: type) -> None:
    """Register a class of loops beside `oneloop.Loop`, when its module is imported."""
    _kinds.append(kind)
    for follower in _followers:
        follower(kind)


def follow_kinds(follower: Callable[[type], None]) -> None:
    """Call a function with each class that is registered, now and later."""
    _followers.append(follower)
    for kind in _kinds:
        follower(kind)


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
