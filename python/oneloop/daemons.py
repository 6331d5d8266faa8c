"""Stop loops that still run in daemon threads when the interpreter exits.

CPython ends daemon threads at an arbitrary point, which is not safe for a loop. At exit, each such loop
is therefore asked to stop at the end of its current tick, and exit waits for that for a limited time.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from time import monotonic, sleep  # bound before monkey patching can replace them
from typing import TYPE_CHECKING

from oneloop.signals import is_main_thread

if TYPE_CHECKING:
    from oneloop.loop import Loop

# How long exit waits for callbacks that still run in daemon threads, in seconds.
PATIENCE_S = 1.0

_running: weakref.WeakSet[Loop] = weakref.WeakSet()


def add(loop: Loop) -> None:
    """Register a loop that runs in this thread, if this is a daemon thread."""
    if not is_main_thread() and threading.current_thread().daemon:
        _running.add(loop)


def discard(loop: Loop) -> None:
    """Unregister a loop that has stopped."""
    _running.discard(loop)


@atexit.register
def halt_all() -> None:
    """Stop every registered loop. Loops whose callback runs longer than `PATIENCE_S` are not waited for."""
    waiting = list(_running)
    deadline = monotonic() + PATIENCE_S
    while waiting and monotonic() < deadline:
        waiting = [loop for loop in waiting if not loop._halt()]
        if waiting:
            sleep(0.001)
