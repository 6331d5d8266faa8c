"""`Statistics`: the counters of a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Statistics:
    """Counters of one loop since it was created. `loop.statistics()` returns them."""

    ticks: int
    """Number of iterations of the loop."""
    callbacks: int
    """Number of callbacks that have run: handles, timers, protocol methods, readers."""
    polls: int
    """Number of times that the loop polled the kernel for readiness."""
    events: int
    """Number of readiness events that were delivered to their owner."""
    stale_events: int
    """Number of readiness events that were dropped because their owner no longer exists."""
    timers_pending: int
    """Number of timers that are scheduled and not cancelled."""
    timers_cancelled: int
    """Number of timers that are cancelled and not yet removed: work that the loop still has to do."""
    open_transports: int
    """Number of transports that are not yet closed."""
    bytes_in: int
    """Bytes that transports have received."""
    bytes_out: int
    """Bytes that transports have sent."""
    longest_callback_s: float
    """Duration of the longest callback, in seconds."""
    longest_callback_name: str
    """Qualified name of the longest callback. For a step of a task: the coroutine's name, with the task's name."""
    longest_tick_s: float
    """Duration of the longest iteration, in seconds."""
    loop_lag_s: float
    """Decaying mean of the duration of an iteration, in seconds: how long an event waits for callbacks."""
