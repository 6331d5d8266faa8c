"""The running loop's file operations: which engine does them, and how a program chooses one."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oneloop import _native
from oneloop.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oneloop._native import Files

__all__ = ["EngineInfo", "current", "engine_info", "use_engine"]

# Threads may still run what a closed loop has left them.
atexit.register(_native.wait_for_file_calls)

ENVIRONMENT = "ONELOOP_FILES"
"""Names the engine that all loops of the process use: ring, aio or threads."""

_log = logging.getLogger("oneloop.files")


@dataclass(frozen=True)
class EngineInfo:
    """How the running loop does file I/O; see `engine_info`."""

    engine: str
    """ring (io_uring), aio (Linux kernel AIO for O_DIRECT files, threads for the rest) or threads."""
    refused: Mapping[str, str]
    """Better engines that do not work here, and why."""
    operations: int
    """Operations under way."""
    threads: int
    """Threads of the pool, which has those alone that work needs."""


def engine_info() -> EngineInfo:
    """Which engine does the running loop's file I/O, and what it is doing.

    Raises:
        RuntimeError, ValueError, OSError: as every use of `oneloop.files`: no oneloop loop is running, or the engine
            that `ONELOOP_FILES` names is none, or forbidden here.
    """
    return EngineInfo(**current().info())


def use_engine(name: str) -> None:
    """Choose the running loop's engine, before its first use of files; wins over `ONELOOP_FILES`.

    Args:
        name: ring, aio or threads.

    Raises:
        ValueError: there is no engine of that name.
        OSError: the kernel, or a sandbox, forbids it.
        RuntimeError: the loop has used files already, or is not a oneloop loop.
    """
    loop = _running()
    if loop._files is not None:
        if loop._files.engine == name:
            return
        raise RuntimeError(
            f"this event loop does its file I/O with {loop._files.engine!r} already: choose before the first use"
        )
    loop._files = _native.Files(loop, name)


def current() -> Files:
    """The file operations of the running loop; made at the first use.

    Raises:
        RuntimeError: no loop is running, or it is not a oneloop loop.
        ValueError: `ONELOOP_FILES` names no engine.
        OSError: `ONELOOP_FILES` names an engine that the kernel, or a sandbox, forbids.
    """
    loop = _running()
    files = loop._files
    if files is None:
        files = loop._files = _native.Files(loop, os.environ.get(ENVIRONMENT) or None)
        for name, why in files.info()["refused"].items():
            _log.info("file engine %s does not work here (%s): using %s", name, why, files.engine)
    return files


def _running() -> Loop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Loop):
        raise RuntimeError(
            f"oneloop.files needs a oneloop event loop, not {type(loop).__name__}: start the "
            "program with oneloop.run(main()) or `oneloop run`"
        )
    return loop
