"""`aiofiles.threadpool`: `open`, the standard streams, and `wrap` for io files."""

from __future__ import annotations

import asyncio
import builtins
import sys
from functools import singledispatch
from io import BufferedIOBase, BufferedRandom, BufferedReader, BufferedWriter, FileIO, TextIOBase
from typing import Any

from oneloop.compat.aiofiles.base import AiofilesContextManager, call
from oneloop.compat.aiofiles.threadpool.binary import (
    AsyncBufferedIOBase,
    AsyncBufferedReader,
    AsyncFileIO,
    AsyncIndirectBufferedIOBase,
)
from oneloop.compat.aiofiles.threadpool.text import AsyncTextIndirectIOWrapper, AsyncTextIOWrapper
from oneloop.files.binary import BinaryFile
from oneloop.files.opening import open as open_file
from oneloop.files.text import TextFile
from oneloop.files.unbuffered import UnbufferedFile
from oneloop.loop import Loop

__all__ = (
    "open",
    "stderr",
    "stderr_bytes",
    "stdin",
    "stdin_bytes",
    "stdout",
    "stdout_bytes",
)

# Tests of programs replace this. What the replacement returns is wrapped, as in aiofiles.
sync_open = builtins.open


def open(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
    *,
    loop: Any = None,
    executor: Any = None,
) -> AiofilesContextManager[Any]:
    """Open a file, with `await` or with `async with`, which also closes it. Arguments as in the built-in."""
    arguments = (file, mode, buffering, encoding, errors, newline, closefd, opener)
    return AiofilesContextManager(_open(arguments, loop, executor))


async def _open(arguments: tuple[Any, ...], loop: Any, executor: Any) -> Any:
    running = loop or asyncio.get_running_loop()
    if executor is None and isinstance(running, Loop) and sync_open is builtins.open:
        return wrap(await open_file(*arguments), loop=loop)
    names = ("mode", "buffering", "encoding", "errors", "newline", "closefd", "opener")
    keywords = dict(zip(names, arguments[1:], strict=True))
    return wrap(await call(loop, executor, sync_open, arguments[0], **keywords), loop=loop, executor=executor)


@singledispatch
def wrap(file: Any, *, loop: Any = None, executor: Any = None) -> Any:
    """Return the asynchronous file for an io file. This is a single-dispatch function, so types can be added.

    Raises:
        TypeError: the type of `file` is not supported.
    """
    msg = f"Unsupported io type: {file}."
    raise TypeError(msg)


@wrap.register(TextIOBase)
@wrap.register(TextFile)
def _(file: Any, *, loop: Any = None, executor: Any = None) -> AsyncTextIOWrapper:
    return AsyncTextIOWrapper(file, loop=loop, executor=executor)


@wrap.register(BufferedWriter)
@wrap.register(BufferedIOBase)
def _(file: Any, *, loop: Any = None, executor: Any = None) -> AsyncBufferedIOBase:
    return AsyncBufferedIOBase(file, loop=loop, executor=executor)


@wrap.register(BufferedReader)
@wrap.register(BufferedRandom)
def _(file: Any, *, loop: Any = None, executor: Any = None) -> AsyncBufferedReader:
    return AsyncBufferedReader(file, loop=loop, executor=executor)


@wrap.register(BinaryFile)
def _(file: BinaryFile, *, loop: Any = None, executor: Any = None) -> AsyncBufferedIOBase:
    kind = AsyncBufferedReader if file.readable() else AsyncBufferedIOBase
    return kind(file, loop=loop, executor=executor)


@wrap.register(FileIO)
@wrap.register(UnbufferedFile)
def _(file: Any, *, loop: Any = None, executor: Any = None) -> AsyncFileIO:
    return AsyncFileIO(file, loop=loop, executor=executor)


stdin = AsyncTextIndirectIOWrapper("sys.stdin", None, None, indirect=lambda: sys.stdin)
stdout = AsyncTextIndirectIOWrapper("sys.stdout", None, None, indirect=lambda: sys.stdout)
stderr = AsyncTextIndirectIOWrapper("sys.stderr", None, None, indirect=lambda: sys.stderr)
stdin_bytes = AsyncIndirectBufferedIOBase("sys.stdin.buffer", None, None, indirect=lambda: sys.stdin.buffer)
stdout_bytes = AsyncIndirectBufferedIOBase("sys.stdout.buffer", None, None, indirect=lambda: sys.stdout.buffer)
stderr_bytes = AsyncIndirectBufferedIOBase("sys.stderr.buffer", None, None, indirect=lambda: sys.stderr.buffer)
