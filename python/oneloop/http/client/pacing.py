"""`Pace`: how many requests go to each origin in a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["Pace"]

_MOST_KNOWN = 4096


class Pace:
    """Gives requests their turns, evenly spaced.

    Args:
        per_second: requests to one origin; None: no limit.
    """

    def __init__(self, per_second: float | None) -> None:
        if per_second is not None and per_second <= 0:
            raise ValueError(f"max_requests_per_second must be positive, not {per_second}")
        self._gap_s = 0.0 if per_second is None else 1 / per_second
        # Origin -> when its next request may begin.
        self._next: dict[Hashable, float] = {}

    def turn(self, origin: Hashable, now: float) -> float:
        """Take the next turn of an origin. Returns how long to wait for it, in seconds."""
        if not self._gap_s:
            return 0.0
        if len(self._next) >= _MOST_KNOWN:
            self._next = {key: free for key, free in self._next.items() if free > now}
        begins = max(now, self._next.get(origin, now))
        self._next[origin] = begins + self._gap_s
        return begins - now
