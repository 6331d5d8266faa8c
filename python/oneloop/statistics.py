"""What a loop tells about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Statistics:
    """Counters of one loop since it was made; the result of `loop.statistics()`."""

    ticks: int
    """Turns of the loop."""
    callbacks: int
    """Callbacks that have run: handles, timers, protocol methods, readers."""
    polls: int
    """Times that the kernel was asked for readiness."""
    events: int
    """Readiness that was delivered to its owner."""
    stale_events: int
    """Readiness that was dropped because its owner had gone."""
    timers_pending: int
    """Timers that wait and are not cancelled."""
    open_transports: int
    """Transports made and not yet closed."""
    bytes_in: int
    """Bytes that transports have received."""
    bytes_out: int
    """Bytes that transports have sent."""
    longest_callback_s: float
    """Length of the longest callback, in seconds."""
    longest_callback_name: str
    """Its qualified name."""
    longest_tick_s: float
    """Length of the longest turn, in seconds."""
    loop_lag_s: float
    """Decaying mean of the length of turns, in seconds: how long readiness waits for callbacks."""
