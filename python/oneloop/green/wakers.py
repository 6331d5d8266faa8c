"""What can wake a loop whose green threads all wait, beside its timers and descriptors: threads and signals.

A patched program that waits in `threading.Event.wait()` until its signal handler sets the event, or until Ctrl-C
interrupts it, works with threads, and so it does here. In one that waits in gevent's own functions, nobody waits for
Ctrl-C: LoopExit is raised, as in gevent.
"""

from __future__ import annotations

import select
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneloop.green.monkey.state import is_module_patched
from oneloop.green.workers import idle_threads, unfinished_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ignore_handler", "is_alone"]

_TASKS = Path("/proc/self/task")
_CHECKS, _CHECK_INTERVAL_S = 20, 0.001
_select = select.select  # the original, even if patching replaces it later
# Threads of oneloop's file engines, and the kernel's workers of a ring.
_OWN = ("oneloop", "iou-wrk", "iou-sqp")
# The threads when foreign ones were found last: a program that waits for those again and again is not delayed.
_seen: set[str] = set()


_handlers_that_wake_nobody: list[Callable[..., object]] = [signal.default_int_handler]
# These have the functions that replace the standard library's in a patched program; locks are native.
_REPLACEMENTS = ("monkey.queues", "select", "selectors")


def ignore_handler(handler: Callable[..., object]) -> None:
    """Do not count a signal handler of this package where gevent's functions wait: that of `signal_handler`."""
    _handlers_that_wake_nobody.append(handler)


def is_alone(is_only_thread: bool, is_joining: bool = False, main: Any = None, waits_for_lock: bool = False) -> bool:
    """Return whether no other thread, signal handler or Ctrl-C can wake a loop whose green threads all wait.

    Args:
        is_only_thread: whether the interpreter has no other thread.
        is_joining: only what the hub itself waits for counts, as in gevent's `join`.
        main: the OS thread's main greenlet, in which KeyboardInterrupt would be raised.
        waits_for_lock: whether that waits for a lock of `threading`.
    """
    if is_joining:
        return not unfinished_tasks()
    if sys.version_info < (3, 12) and not is_only_thread:
        # Before Python 3.12 a thread that is still starting has the ident of the thread that created it, so that the
        # dictionary below would have one entry for both.
        return False
    # All threads of the interpreter, including this one.
    others = 0 if is_only_thread else len(sys._current_exceptions()) - 1
    return others <= idle_threads() and not _may_wake(1 + others, main, waits_for_lock)


def _may_wake(known: int, main: Any, waits_for_lock: bool) -> bool:
    """Return whether a signal or a thread of a library might end a wait.

    Args:
        known: the number of the interpreter's threads.
        main: the OS thread's main greenlet.
        waits_for_lock: whether that waits for a lock of `threading`.
    """
    if not is_module_patched("threading"):
        return False
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    called = [handler for handler in handlers if callable(handler)]
    if any(handler not in _handlers_that_wake_nobody for handler in called):
        return True
    return (bool(called) and _waits_as_thread(main, waits_for_lock)) or _has_foreign_threads(known)


def _waits_as_thread(main: Any, waits_for_lock: bool) -> bool:
    """Return whether the main greenlet waits in a function that replaces one of a thread.

    Then Ctrl-C ends the wait, or a handler of `signal_handler`. Not so at the end of the program, where it waits for
    its threads: Ctrl-C would only leave them, as LoopExit does.
    """
    if getattr(sys.modules["threading"], "_SHUTTING_DOWN", False):
        return False
    if waits_for_lock:
        return True
    frame = getattr(main, "gr_frame", None)
    while frame is not None:
        package, _, name = str(frame.f_globals.get("__name__")).partition("oneloop.green.")
        if package:
            return False
        if name in _REPLACEMENTS:
            return True
        frame = frame.f_back
    return False


def _has_foreign_threads(known: int) -> bool:
    """Return whether the process has threads that a library in C has started, and that may call into Python.

    Args:
        known: the number of the interpreter's threads.
    """
    found: set[str] = set()
    for check in range(_CHECKS):
        try:
            tasks = list(_TASKS.iterdir())
        except OSError:
            # Without /proc nothing is known of them.
            return False
        if len(tasks) <= known:
            return False
        found = {task.name for task in tasks if not _is_own(task)}
        if len(found) <= known:
            return False
        if check == 0 and found == _seen:
            return True
        # One that the interpreter has just finished with still ends.
        _select([], [], [], _CHECK_INTERVAL_S)
    _seen.clear()
    _seen.update(found)
    return True


def _is_own(task: Path) -> bool:
    try:
        return (task / "comm").read_text().startswith(_OWN)
    except OSError:
        # It has ended.
        return True
