"""The work of handlers: that of the gevent talk's second benchmark (100 recursions of depth 100), or a given time."""

from __future__ import annotations

import time

#: How long a handler computes after its response, or between head and body, in rows that measure when these arrive.
AFTER_ANSWER_S = 0.010


def _descend(depth: int) -> int:
    return 0 if depth == 0 else 1 + _descend(depth - 1)


def work() -> None:
    """Computes for about a third of a millisecond."""
    for _ in range(100):
        _descend(100)


def compute_for(seconds: float) -> None:
    """Keeps the CPU busy for a time, like a handler that continues after its response."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
