"""aiofiles' public names, on oneloop (those of aiofiles 25.1).

Files from `open` use oneloop's files. Functions without a counterpart in oneloop run in the loop's thread pool. The
arguments `executor` and `loop` have the same meaning as in aiofiles: an executor that is passed is used. On a loop that
is not a oneloop loop, everything runs in that loop's executor, as in aiofiles.

Differences: an open file does not wrap an io file, so it has no `raw`, and `buffer` is an asynchronous file too.
Reading a line does not take a thread switch per line. A cancelled `open` leaves no descriptor open, and a cancelled
read loses no data.
"""

from __future__ import annotations

from oneloop.compat.aiofiles import tempfile
from oneloop.compat.aiofiles.threadpool import (
    open,
    stderr,
    stderr_bytes,
    stdin,
    stdin_bytes,
    stdout,
    stdout_bytes,
)

__all__ = [
    "open",
    "stderr",
    "stderr_bytes",
    "stdin",
    "stdin_bytes",
    "stdout",
    "stdout_bytes",
    "tempfile",
]
