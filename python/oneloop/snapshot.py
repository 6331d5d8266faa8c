"""The snapshot that the stats socket sends: the state of this process's loops as one line of JSON.

The fields are described in docs/reference/statistics.md. `FORMAT` is increased when a field changes its meaning or is
removed. The functions are called in the thread of the socket, which holds the GIL during the call.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import oneloop
from oneloop import registry

if TYPE_CHECKING:
    from types import FrameType

    from oneloop.loop import Loop

__all__ = ["FORMAT", "line", "take"]

FORMAT = 1

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def line() -> bytes:
    """Return the snapshot as a line of JSON."""
    return json.dumps(take(), separators=(",", ":")).encode() + b"\n"


def take() -> dict[str, Any]:
    """Return the snapshot."""
    return {
        "format": FORMAT,
        "oneloop": oneloop.__version__,
        "python": sys.version.partition(" ")[0],
        "pid": os.getpid(),
        "parent": os.getppid(),
        "argv": [str(word) for word in getattr(sys, "argv", ())],
        "time_s": time.monotonic(),
        "loops": [_of_loop(number, loop) for number, loop in registry.loops()],
    }


def _of_loop(number: int, loop: Loop) -> dict[str, Any]:
    # Read this first: it may start a new time window of the meter, and must not do so between the values below.
    busy_s, longest_s, name = loop._activity()
    ident = loop._thread_id
    hub, files = loop._hub, loop._files
    info = None if files is None else files.info()
    thread = None if ident is None else threading._active.get(ident)  # type: ignore[attr-defined]
    return {
        "number": number,
        "state": _state(loop, busy_s),
        "debug": loop.get_debug(),
        "thread": None if thread is None else thread.name,
        "busy_s": busy_s,
        "busy_with": None if busy_s is None or ident is None else _place(sys._current_frames().get(ident)),
        "recent_longest_callback_s": longest_s,
        "recent_longest_callback_name": name,
        "green_threads": 0 if hub is None else hub.alive,
        "file_engine": None if info is None else info["engine"],
        "file_operations": 0 if info is None else info["operations"],
        "client": _clients(loop),
        **asdict(loop.statistics()),
    }


def _clients(loop: Loop) -> dict[str, int] | None:
    """The sums over the pools of HTTP clients on the loop; None if there are none."""
    pools = sys.modules.get("oneloop.http.client.pools")
    return None if pools is None else pools.counters_of(loop)


def _state(loop: Loop, busy_s: float | None) -> str:
    if loop.is_closed():
        return "closed"
    if not loop.is_running():
        return "stopped"
    return "sleeping" if busy_s is None else "busy"


def _place(frame: FrameType | None) -> str | None:
    """The innermost frame of a thread outside of oneloop and asyncio, as `function (file:line)`."""
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith((_PACKAGE, "<frozen")) and f"{os.sep}asyncio{os.sep}" not in path:
            return f"{frame.f_code.co_qualname} ({os.path.basename(path)}:{frame.f_lineno})"
        frame = frame.f_back
    return None
