"""What handlers compute: the work of the gevent talk's second benchmark (100 times a recursion 100 deep), or a time."""

from __future__ import annotations

import time

#: What a handler computes after its answer, or between its head and its body, where the row asks when that arrives.
AFTER_ANSWER_S = 0.010


def _descend(depth: int) -> int:
    return 0 if depth == 0 else 1 + _descend(depth - 1)


def work() -> None:
    """About a third of a millisecond."""
    for _ in range(100):
        _descend(100)


def compute_for(seconds: float) -> None:
    """Keeps the CPU busy for a time, as a handler that has answered and goes on."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
