"""Loops that still run in daemon threads when the interpreter goes down.

CPython lets such threads end in the middle of whatever they do. A loop must not: at exit each one is
told to stop at the end of its tick, and given a moment to get there.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from time import monotonic, sleep  # the interpreter's own, whatever is patched later
from typing import TYPE_CHECKING

from oneloop.signals import is_main_thread

if TYPE_CHECKING:
    from oneloop.loop import Loop

# How long exit waits for a callback that runs in a daemon thread, in seconds.
PATIENCE_S = 1.0

_running: weakref.WeakSet[Loop] = weakref.WeakSet()


def add(loop: Loop) -> None:
    """Remember a loop that runs in this thread, unless the interpreter waits for the thread."""
    if not is_main_thread() and threading.current_thread().daemon:
        _running.add(loop)


def discard(loop: Loop) -> None:
    """Forget a loop that has stopped."""
    _running.discard(loop)


@atexit.register
def halt_all() -> None:
    """Stop every loop that is left; gives up on one whose callback takes too long."""
    waiting = list(_running)
    deadline = monotonic() + PATIENCE_S
    while waiting and monotonic() < deadline:
        waiting = [loop for loop in waiting if not loop._halt()]
        if waiting:
            sleep(0.001)
