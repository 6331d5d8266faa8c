"""`time`: the standard library's module with a `sleep` that lets other green threads go on."""

from __future__ import annotations

import operator
import time as _stock
from typing import Any

from oneloop.green.hub import sleep as _sleep
from oneloop.green.threadlock import may_park

__implements__ = ["sleep"]
__all__ = ["sleep"]


def sleep(seconds: float, /) -> None:
    """Let other green threads and coroutines go on, for at least so many seconds. See `time.sleep`.

    An OS thread that has no hub sleeps by itself.

    Raises:
        ValueError: it is negative.
        TypeError: it is no number.
        BlockingSwitchOutError: in a coroutine, which awaits `asyncio.sleep` instead.
    """
    if not hasattr(seconds, "__float__"):
        seconds = operator.index(seconds)  # type: ignore[arg-type]
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    if may_park():
        _sleep(seconds)
    else:
        _stock.sleep(seconds)


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
