"""Prints a warning under `oneloop run` if a program does not run on oneloop, and why.

Each loop is detected when it starts to run: every loop calls `asyncio._set_running_loop`, once per `run_forever`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio import events
from typing import TYPE_CHECKING, Any

from oneloop.loop import Loop

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["has_seen_loops", "watch"]

_OF_LOOPS = ("asyncio", "oneloop", "uvloop", "anyio")
"""Packages whose frames are skipped in the search for the code that has chosen the loop."""


class _Seen:
    kinds: set[type] = set()  # noqa: RUF012 - there is one for the process
    has_ours = False
    has_warned = False
    is_child = False
    keeps_named = False


def watch(*, is_child: bool, keeps_named: bool) -> None:
    """Check each loop that starts to run from now on.

    Args:
        is_child: whether this process was started by a program under `oneloop run`.
        keeps_named: whether loops that the program names itself are left in place (`--keep-named`).
    """
    _Seen.is_child, _Seen.keeps_named = is_child, keeps_named
    set_running: Any = events._set_running_loop
    seen = _Seen.kinds

    def _set_running_loop(loop: Any, /) -> None:
        set_running(loop)
        if loop is not None and type(loop) not in seen:
            _look_at(type(loop))

    # Loops of other packages are imported later and import the function from one of these two modules.
    events._set_running_loop = _set_running_loop
    asyncio._set_running_loop = _set_running_loop


def has_seen_loops() -> bool:
    """Return whether a loop of any kind has run in this process."""
    return bool(_Seen.kinds)


def _look_at(kind: type) -> None:
    _Seen.kinds.add(kind)
    if issubclass(kind, Loop) or kind.__module__.partition(".")[0] == "oneloop":
        _Seen.has_ours = True
    elif not (_Seen.has_ours or _Seen.has_warned):
        _Seen.has_warned = True
        _say(f"{_subject()} does not run on oneloop: {_chooser(kind)} uses {_name(kind)}. {_advice(kind)}")


def _say(text: str) -> None:
    # The program's loop runs, whatever the program has done to sys.stderr: closed it, or taken away its reader.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        if sys.stderr is not None:
            print(f"oneloop run: {text}", file=sys.stderr, flush=True)


def _subject() -> str:
    return f"process {os.getpid()} of this program" if _Seen.is_child else "this program"


def _name(kind: type) -> str:
    names: dict[type, str] = {asyncio.SelectorEventLoop: "asyncio.SelectorEventLoop"}
    module = kind.__module__.partition(".")[0] if kind.__module__ != "__main__" else ""
    return names.get(kind) or (f"{module}.{kind.__qualname__}" if module else kind.__qualname__)


def _chooser(kind: type) -> str:
    """The first frame outside of asyncio and of the loop's own package: its file and line."""
    own = kind.__module__.partition(".")[0]
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == "__main__" or package not in (*_OF_LOOPS, own):
            path = frame.f_code.co_filename
            # With the package, because `uvicorn/server.py` is clearer than `server.py`.
            short = os.path.join(package, os.path.basename(path)) if package != "__main__" else os.path.basename(path)
            return f"{short}, line {frame.f_lineno},"
        frame = frame.f_back
    return "it"


def _advice(kind: type) -> str:
    is_stock = kind is asyncio.SelectorEventLoop
    root = kind.__module__.partition(".")[0]
    if _Seen.keeps_named and (is_stock or root == "uvloop"):
        return "Leave out --keep-named to replace it."
    if root == "uvloop":
        return "It was imported before oneloop could replace it."
    if is_stock:
        return "It was created with a selector. Leave out the selector, and oneloop replaces it."
    if issubclass(kind, asyncio.SelectorEventLoop):
        return "oneloop does not replace a class derived from asyncio.SelectorEventLoop. Derive it from oneloop.Loop."
    return "If the program has an option for the loop, choose asyncio, which oneloop replaces."
