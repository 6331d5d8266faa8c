"""`time`: the standard library's module, with a `sleep` that lets other green threads run."""

from __future__ import annotations

import time as _stock
from typing import Any

from oneloop.green.hub import sleep as _sleep
from oneloop.green.seconds import checked_seconds
from oneloop.green.threadlock import may_park

__implements__ = ["sleep"]
__all__ = ["sleep"]


def sleep(seconds: float, /) -> None:
    """Sleep for at least `seconds` seconds, while other green threads and coroutines run. Like `time.sleep`.

    In an OS thread without a hub, it blocks the thread.

    Raises:
        ValueError: `seconds` is negative or NaN.
        OverflowError: `seconds` is more than 292 years.
        TypeError: `seconds` is not a number.
        BlockingSwitchOutError: called in a coroutine that may not block; use `await asyncio.sleep()` there.
    """
    seconds = checked_seconds(seconds)
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    if may_park():
        _sleep(seconds)
    else:
        _stock.sleep(seconds)


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
