"""`Turns`: the threads that use one loop of plain code, one at a time.

A response may be read by another thread than the one that sent its request, while that one, or a third one, waits for
something else on the same loop. One thread runs the loop for all. Whoever comes stops it, and what somebody waits for
stops it, too; then each has a turn to see whether its own wait is over, and the last one runs the loop again.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oneloop.loop import Loop

__all__ = ["Turns"]

_HANDED_OVER = -1


class _Place:
    """A thread that waits for a turn.

    Attributes:
        turn: is released when it has one.
        seen: how often the loop had been run when it looked whether its own wait is over; -1: it has not looked yet.
    """

    __slots__ = ("seen", "turn")

    def __init__(self, seen: int) -> None:
        self.turn = threading.Lock()
        self.turn.acquire()
        self.seen = seen


class Turns:
    """Who may run a loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        # A signal handler that takes a turn may run at any point.
        self._guard = threading.RLock()
        self._holder: int | None = None
        self._waiting: list[_Place] = []
        self._runs = 0

    def take(self) -> bool:
        """Wait for a turn. Returns False if the thread has it already: it must not be given back then."""
        me = threading.get_ident()
        with self._guard:
            if self._holder == me:
                return False
            if self._holder is None:
                self._holder = me
                return True
            place = _Place(-1)
            self._waiting.append(place)
        # It sleeps, or will ask whether somebody waits. A closed loop has nobody who runs it.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._wait(place)
        return True

    @property
    def is_wanted(self) -> bool:
        """Whether another thread has to look whether its wait is over."""
        return any(place.seen < self._runs for place in self._waiting)

    def has_run(self) -> None:
        """The loop was run: the wait of any thread may be over."""
        self._runs += 1

    def pass_on(self) -> None:
        """Let the next one look, and wait for another turn."""
        place = _Place(self._runs)
        with self._guard:
            self.give()
            self._waiting.append(place)
            if self._holder is None:
                # The others have gone meanwhile.
                self._waiting.remove(place)
                self._holder = threading.get_ident()
                return
        self._wait(place)

    def give(self) -> None:
        """End the turn."""
        with self._guard:
            waiting = self._waiting
            if not waiting:
                self._holder = None
                return
            self._holder = _HANDED_OVER
            following = next((place for place in waiting if place.seen < self._runs), waiting[0])
            waiting.remove(following)
            following.turn.release()

    def _wait(self, place: _Place) -> None:
        try:
            place.turn.acquire()
        except BaseException:
            with self._guard:
                if place in self._waiting:
                    self._waiting.remove(place)
                else:
                    self.give()
            raise
        self._holder = threading.get_ident()
