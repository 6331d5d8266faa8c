"""What gevent's test helpers need of its private `_compat`."""

from __future__ import annotations

import io
from time import get_clock_info, perf_counter

__all__ = ["LINUX", "OSX", "PURE_PYTHON", "PYPY", "WIN", "NativeStrIO", "get_clock_info", "get_this_psutil_process"]
__all__ += ["perf_counter", "reraise", "thread_mod_name"]

LINUX = True
OSX = PYPY = WIN = PURE_PYTHON = False
NativeStrIO = io.StringIO
thread_mod_name = "_thread"


def get_this_psutil_process() -> None:
    """Return None: psutil, which counts descriptors for some tests, is not used."""


def reraise(_: type[BaseException], value: BaseException, trace: object = None) -> None:
    """Raise `value` with a traceback."""
    raise value.with_traceback(trace)  # type: ignore[arg-type]
