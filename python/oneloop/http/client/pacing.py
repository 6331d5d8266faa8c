"""`Pace`: how many requests go to each origin in a second."""

from __future__ import annotations

from _thread import RLock
from bisect import insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["Pace"]

_MOST_KNOWN = 4096


class Pace:
    """Gives requests their turns, evenly spaced. Any thread may use it.

    Args:
        per_second: requests to one origin; None: no limit.
    """

    def __init__(self, per_second: float | None) -> None:
        if per_second is not None and per_second <= 0:
            raise ValueError(f"max_requests_per_second must be positive, not {per_second}")
        self.is_unlimited = per_second is None
        self._gap_s = 0.0 if per_second is None else 1 / per_second
        self.forget_parents()
        # Origin -> the turn behind all that were given; and those that were given back, the first one first.
        self._next: dict[Hashable, float] = {}
        self._returned: dict[Hashable, list[float]] = {}

    def forget_parents(self) -> None:
        """In a forked child: a thread that is not there may hold the lock."""
        # Reentrant: a signal's handler may send a request.
        self._guard = RLock()

    def turn(self, origin: Hashable, now: float, latest: float | None) -> float | None:
        """Take the next turn of an origin.

        Args:
            origin: the origin.
            now: the time of the loop.
            latest: turns from this time on are not taken; None: all are.

        Returns:
            When the turn is; None if there is none in time.
        """
        with self._guard:
            if len(self._next) >= _MOST_KNOWN and origin not in self._next:
                self._next = {key: free for key, free in self._next.items() if free > now}
                self._returned = {key: turns for key, turns in self._returned.items() if key in self._next}
            returned = self._returned.get(origin, [])
            while returned and returned[0] < now:
                del returned[0]
            begins = returned[0] if returned else max(now, self._next.get(origin, now))
            if latest is not None and begins >= latest and begins > now:
                return None
            if returned:
                del returned[0]
            else:
                self._next[origin] = begins + self._gap_s
            return begins

    def give_back(self, origin: Hashable, turn: float) -> None:
        """Give a turn back that was not used: another request takes it."""
        with self._guard:
            insort(self._returned.setdefault(origin, []), turn)
