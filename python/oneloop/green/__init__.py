"""Green threads: blocking-style code that runs beside coroutines on one event loop, with gevent's names.

Requires the greenlet package: `pip install 'oneloop[green]'`. The modules of this package have the names of gevent's
modules; docs/reference/green.md lists them and the differences from gevent.
"""

from __future__ import annotations

# First, because of its error in a subinterpreter, where greenlet cannot be imported either.
from oneloop import _native as _core  # noqa: F401  # pyright: ignore[reportUnusedImport]
from oneloop.loop import Loop as _Loop

try:
    import greenlet as _greenlet  # noqa: F401 - imported first, for a clear error message  # pyright: ignore[reportUnusedImport]
except ImportError as _missing:
    raise ImportError("oneloop.green needs the greenlet package: pip install 'oneloop[green]'") from _missing

from sys import getswitchinterval, setswitchinterval

from oneloop.green.bridge import await_, in_context
from oneloop.green.exceptions import GreenletExit
from oneloop.green.facade import run
from oneloop.green.greenlet import Greenlet, joinall, kill, killall, spawn, spawn_later, spawn_raw
from oneloop.green.hub import get_hub, getcurrent, idle, reinit, sleep
from oneloop.green.hub import use_loop_class as _use_loop_class
from oneloop.green.iwait import iwait, wait
from oneloop.green.os import fork
from oneloop.green.settings import config
from oneloop.green.signal import signal_handler
from oneloop.green.timeout import Timeout, with_timeout

__all__ = [
    "Greenlet",
    "GreenletExit",
    "Timeout",
    "await_",
    "config",
    "fork",
    "get_hub",
    "getcurrent",
    "getswitchinterval",
    "idle",
    "in_context",
    "iwait",
    "joinall",
    "kill",
    "killall",
    "reinit",
    "run",
    "setswitchinterval",
    "signal_handler",
    "sleep",
    "spawn",
    "spawn_later",
    "spawn_raw",
    "wait",
    "with_timeout",
]

# A hub that no loop runs yet makes one of this class. `oneloop.loop` itself uses green threads.
_use_loop_class(_Loop)
