"""The CPU work of the gevent talk's second benchmark: 100 times a recursion 100 deep."""

from __future__ import annotations


def _descend(depth: int) -> int:
    return 0 if depth == 0 else 1 + _descend(depth - 1)


def work() -> None:
    """About a third of a millisecond."""
    for _ in range(100):
        _descend(100)
