"""The running loop's file operations: which engine does them, and how a program chooses one."""

from __future__ import annotations

import asyncio
import atexit
import os
from typing import TYPE_CHECKING

from oneloop import _native
from oneloop.loop import Loop

if TYPE_CHECKING:
    from oneloop._native import Files

__all__ = ["current"]

# Threads may still run what a closed loop has left them.
atexit.register(_native.wait_for_file_calls)

ENVIRONMENT = "ONELOOP_FILES"
"""Names the engine that all loops of the process use: ring, aio or threads."""


def current() -> Files:
    """The file operations of the running loop; made at the first use.

    Raises:
        RuntimeError: no loop is running, or it is not a oneloop loop.
        ValueError: `ONELOOP_FILES` names no engine.
        OSError: `ONELOOP_FILES` names an engine that the kernel, or its sandbox, refuses.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Loop):
        raise RuntimeError(
            f"oneloop.files needs a oneloop event loop, not {type(loop).__name__}: start the "
            "program with oneloop.run(main()) or `oneloop run`"
        )
    files = loop._files
    if files is None:
        files = loop._files = _native.Files(loop, os.environ.get(ENVIRONMENT) or None)
    return files
