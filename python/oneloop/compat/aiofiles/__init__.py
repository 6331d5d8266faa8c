"""aiofiles' public names, on oneloop (those of aiofiles 25.1).

What `open` gives reads and writes on oneloop's files; functions that have no such way run on the
loop's pool. `executor=` and `loop=` are taken as aiofiles takes them: who gives one gets that executor.
On a loop that is not oneloop's everything runs in its executor, as in aiofiles.

Differences: an opened file is no wrapper of a file of io's, so that `raw` is absent and `buffer` is an
asynchronous file too. Lines are not read one trip at a time. A cancelled `open` leaves no descriptor
behind, and a cancelled read loses nothing.
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
