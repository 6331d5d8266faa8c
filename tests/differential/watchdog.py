"""Ends a program that hangs: an exception after some seconds of real time, a traceback of every thread before it."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

LIMIT_S = 60.0


class HangError(KeyboardInterrupt):
    """Derived from KeyboardInterrupt, which is what asyncio lets through everywhere."""


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Raise HangError in the main thread when the block takes longer than the limit; again and again until it ends."""

    def bark(_number: int, _frame: FrameType | None) -> None:
        raise HangError(f"still running after {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, bark)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
