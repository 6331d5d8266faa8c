"""Calls with a trace function that raises: an interruption at a line of one's choice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
Trace = Callable[[FrameType, str, Any], Any]


def traced(function: Callable[[], T], trace: Trace) -> T:
    """Call a function with this trace function, raise what it raises, and restore the one that was set before.

    If a trace function raises at the last line of an `except` block, CPython (3.11 to 3.15) does not leave the block:
    the exception handled there stays the handled one, and becomes the `__context__` of those that are raised later.
    It stays in the innermost generator that runs, so there is one here, which ends.
    """
    return next(_calls(function, trace))


def _calls(function: Callable[[], T], trace: Trace) -> Iterator[T]:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = function()
    finally:
        sys.settrace(before)
    yield result
