"""How much of the machine other programs use before a suite is measured, from /proc/stat (proc_stat(5))."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

STAT = Path("/proc/stat")
#: A machine with less than this in use is quiet.
QUIET_SHARE = 0.05
#: After this long, seconds, it is measured all the same, and the record says how busy the machine was.
LONGEST_WAIT_S = 180.0
_OVER_S = 1.0
_IDLE, _IOWAIT = 3, 4
_TIMES = 8
"""Up to `steal`; those behind it are contained in the first two."""


def _times() -> tuple[int, int]:
    """(idle, all) of all CPUs since the start of the machine, clock ticks."""
    with STAT.open(encoding="ascii") as file:
        ticks = [int(field) for field in file.readline().split()[1 : 1 + _TIMES]]
    return ticks[_IDLE] + ticks[_IOWAIT], sum(ticks)


def busy_share(over_s: float = _OVER_S) -> float:
    """The share of the CPUs' time, from 0 to 1, that was used or taken in the next `over_s` seconds."""
    idle, total = _times()
    time.sleep(over_s)
    later_idle, later_total = _times()
    passed = later_total - total
    return 1 - (later_idle - idle) / passed if passed else 0.0


def wait(say: Callable[[str], None], longest_s: float = LONGEST_WAIT_S) -> float:
    """Waits until the machine is quiet, or for `longest_s`; returns the share that was in use at last."""
    end = time.monotonic() + longest_s
    share = busy_share()
    if share >= QUIET_SHARE:
        say(f"  {share:.0%} of the CPUs are in use: waiting until it is less than {QUIET_SHARE:.0%}")
    while share >= QUIET_SHARE and time.monotonic() < end:
        share = busy_share()
    return share
