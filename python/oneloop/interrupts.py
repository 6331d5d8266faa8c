"""Which thread runs signal handlers, and whether SIGINT can interrupt it. Imports neither asyncio nor the native core.

The interpreter's functions are bound at import, before monkey patching can replace them.
"""

from __future__ import annotations

import _thread
import os
import signal

__all__ = ["do_nothing", "is_main_thread", "may_be_interrupted"]

_get_handler = signal.getsignal
_get_ident = _thread.get_ident


_known_main: list[int] = []
"""The ident of the main thread, once it is known. No other thread ever gets it: the main thread's stack is not reused.

In a forked child it is the parent's. If the main thread has forked, it is the child's too; otherwise it is nobody's.
"""


def is_main_thread() -> bool:
    """Return True in the thread that runs signal handlers. `threading` gives wrong answers in a patched program."""
    ident = _get_ident()
    if ident in _known_main:
        return True
    if _thread.get_native_id() != os.getpid():
        return False
    _known_main[:] = [ident]
    return True


def do_nothing(signum: int, frame: object) -> None:
    """A handler: the interpreter writes a signal's number only if the signal has a Python handler."""


def may_be_interrupted() -> bool:
    """Whether a KeyboardInterrupt that is raised in this thread can come from a signal."""
    return is_main_thread() and _get_handler(signal.SIGINT) not in (do_nothing, signal.SIG_IGN, signal.SIG_DFL, None)
