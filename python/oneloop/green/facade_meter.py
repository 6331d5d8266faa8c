"""`FacadeMeter`: the counters of a `FacadeLoop`, which asyncio's own code runs.

They are for `statistics()`, `--stats` and `oneloop top`. The queue of ready handles tells when a callback begins, which
is when asyncio takes it out; the loop tells the rest. The bytes of transports are not counted: they are asyncio's own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

from oneloop.statistics import Statistics

if TYPE_CHECKING:
    from asyncio import Handle

__all__ = ["FacadeMeter"]

_WINDOW_S = 1.0
"""The longest callback of the last one to two windows is a recent one."""
_SHARE = 1 / 64
"""How much the last iteration counts in the mean of their durations."""


class _Ready(deque["Handle"]):
    """asyncio's queue of ready handles, which tells the meter which one is taken out."""

    def __init__(self, meter: FacadeMeter) -> None:
        super().__init__()
        self._meter = meter

    def popleft(self) -> Handle:
        handle = super().popleft()
        self._meter.begin(handle)
        return handle


class FacadeMeter:
    """Written in the loop's thread. Any thread may read it, while it holds the GIL."""

    def __init__(self) -> None:
        self.ready = _Ready(self)
        self._ticks = self._callbacks = self._polls = self._events = 0
        self._longest_s, self._longest_name = 0.0, ""
        self._longest_tick_s = self._lag_s = 0.0
        self._tick_began_s = self._callback_began_s = 0.0
        self._running: Handle | None = None
        self._window_began_s = 0.0
        # Of this window, and of the one before it.
        self._recent: tuple[float, str] = (0.0, "")
        self._older: tuple[float, str] = (0.0, "")

    def polled(self, events: int) -> None:
        """The selector has returned this number of events. An iteration's time begins here."""
        self._polls += 1
        self._events += events
        self._tick_began_s = monotonic()

    def begin(self, handle: Handle) -> None:
        """A handle was taken out of the queue. The one before it has ended."""
        now = monotonic()
        self._end(now)
        if not handle.cancelled():
            self._callbacks += 1
            self._running, self._callback_began_s = handle, now

    def end_tick(self) -> None:
        """The iteration has ended, perhaps by an exception."""
        now = monotonic()
        self._end(now)
        self._ticks += 1
        took_s = now - self._tick_began_s if self._tick_began_s else 0.0
        self._tick_began_s = 0.0
        self._longest_tick_s = max(self._longest_tick_s, took_s)
        self._lag_s += (took_s - self._lag_s) * _SHARE

    def _end(self, now: float) -> None:
        handle, self._running = self._running, None
        if handle is None:
            return
        took_s = now - self._callback_began_s
        if now - self._window_began_s > _WINDOW_S:
            self._roll(now)
        if took_s > self._recent[0]:
            name = _name(handle)
            self._recent = (took_s, name)
            if took_s > self._longest_s:
                self._longest_s, self._longest_name = took_s, name

    def _roll(self, now: float) -> None:
        is_next = now - self._window_began_s <= 2 * _WINDOW_S
        self._older, self._recent = self._recent if is_next else (0.0, ""), (0.0, "")
        self._window_began_s = now

    def activity(self) -> tuple[float | None, float, str]:
        """How long the current callback has been running, or None; duration and name of the longest recent one."""
        now = monotonic()
        running = self._running
        if now - self._window_began_s > _WINDOW_S:
            self._roll(now)
        recent_s, name = max(self._recent, self._older)
        return (None if running is None else now - self._callback_began_s, recent_s, name)

    def statistics(self, loop: asyncio.AbstractEventLoop) -> Statistics:
        """Return the counters.

        Args:
            loop: the loop, which knows its timers and transports.
        """
        inner: Any = loop
        cancelled = inner._timer_cancelled_count
        return Statistics(
            ticks=self._ticks,
            callbacks=self._callbacks,
            polls=self._polls,
            events=self._events,
            stale_events=0,
            timers_pending=len(inner._scheduled) - cancelled,
            timers_cancelled=cancelled,
            open_transports=len(inner._transports),
            bytes_in=0,
            bytes_out=0,
            longest_callback_s=self._longest_s,
            longest_callback_name=self._longest_name,
            longest_tick_s=self._longest_tick_s,
            loop_lag_s=self._lag_s,
        )


def _name(handle: Handle) -> str:
    """As in the statistics of oneloop's own loops."""
    callback: Any = handle._callback  # type: ignore[attr-defined]
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        coroutine: Any = owner.get_coro()
        return f"{getattr(coroutine, '__qualname__', coroutine)} ({owner.get_name()})"
    return str(getattr(callback, "__qualname__", type(callback).__qualname__))
