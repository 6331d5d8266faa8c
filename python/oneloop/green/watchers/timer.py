"""`TimerWatcher`: reports that a time has passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop.green.watchers.events import TIMER
from oneloop.green.watchers.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.green.loop import Alarm, GreenLoop

__all__ = ["TimerWatcher"]


class TimerWatcher(Watcher):
    """Called after `after` seconds, and then every `repeat` seconds if `repeat` is more than 0.

    Raises:
        ValueError: `repeat` is negative.
        TypeError: `after` or `repeat` is not a number.
    """

    __slots__ = ("_after_s", "_alarm", "_deadline_s", "_repeat_s")

    def __init__(
        self, loop: GreenLoop, after: float = 0.0, repeat: float = 0.0, ref: bool = True, priority: int | None = None
    ) -> None:
        super().__init__(loop, ref, priority)
        self._after_s, self._repeat_s = float(after), float(repeat)
        if self._repeat_s < 0:
            raise ValueError(f"repeat must be positive or zero: {self._repeat_s!r}")
        self._alarm: Alarm | None = None
        # The time of the next call, on the clock of the loop below.
        self._deadline_s = 0.0

    def start(self, callback: Callable[..., object], *args: Any, update: bool = True) -> None:
        """Like `Watcher.start`. The time starts now; `update` is accepted because gevent has it, and ignored."""
        self._begin(callback, args)

    def again(self, callback: Callable[..., object], *args: Any, update: bool = True) -> None:
        """Restart with `repeat` as the time; stop if `repeat` is 0."""
        if not self._repeat_s:
            # As in libev, the watcher keeps the callback that was passed.
            self.stop()
            self._callback, self._args = callback, args
            return
        self._events = 0
        if self._is_active:
            self._callback, self._args = callback, args
            self._disarm()
            self._arm_in(self._repeat_s)
            return
        after_s, self._after_s = self._after_s, self._repeat_s
        try:
            self._begin(callback, args)
        finally:
            self._after_s = after_s

    def _arm(self) -> None:
        self._arm_in(self._after_s)

    def _arm_in(self, seconds: float) -> None:
        self._deadline_s = self.loop.asyncio_loop.time() + max(seconds, 0.0)
        self._set_alarm()

    def _set_alarm(self) -> None:
        self._alarm = self.loop._alarm_at(self._deadline_s, self._expired, self._ref)

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ref_changed(self) -> None:
        self._disarm()
        self._set_alarm()

    def _rearm(self) -> None:
        self._set_alarm()

    def _expired(self) -> None:
        self._alarm = None
        self.loop._feed(self, TIMER)
        if self._repeat_s:
            # A late timer does not make up for missed calls.
            self._deadline_s = max(self._deadline_s + self._repeat_s, self.loop.asyncio_loop.time())
            self._set_alarm()
        else:
            self._lapse()

    @property
    def at(self) -> float:
        """When the timer expires, on the clock of `loop.now()`."""
        return self.loop.now() + self._deadline_s - self.loop.asyncio_loop.time()
