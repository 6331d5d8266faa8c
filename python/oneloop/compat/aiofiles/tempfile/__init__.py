"""`aiofiles.tempfile`: temporary files and directories, created and used in the thread pool."""

from __future__ import annotations

import sys
import tempfile
from functools import singledispatch
from io import BufferedRandom, BufferedReader, BufferedWriter, FileIO, TextIOBase
from typing import TYPE_CHECKING, Any

from oneloop.compat.aiofiles.base import AiofilesContextManager, call
from oneloop.compat.aiofiles.tempfile.temptypes import AsyncSpooledTemporaryFile, AsyncTemporaryDirectory
from oneloop.compat.aiofiles.threadpool.binary import AsyncBufferedIOBase, AsyncBufferedReader, AsyncFileIO
from oneloop.compat.aiofiles.threadpool.text import AsyncTextIOWrapper

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory", "TemporaryFile"]

_HAS_DELETE_ON_CLOSE = sys.version_info >= (3, 12)


def NamedTemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    delete: bool = True,
    delete_on_close: bool = True,
    loop: Any = None,
    executor: Any = None,
) -> AiofilesContextManager[Any]:
    """A temporary file with a name. `delete_on_close` has an effect from Python 3.12 on."""
    options: dict[str, Any] = {"delete": delete}
    if _HAS_DELETE_ON_CLOSE:
        options["delete_on_close"] = delete_on_close
    return AiofilesContextManager(
        _named(loop, executor, options, mode, buffering, encoding, newline, suffix, prefix, dir)
    )


async def _named(loop: Any, executor: Any, options: dict[str, Any], *args: Any) -> Any:
    file = await call(loop, executor, tempfile.NamedTemporaryFile, *args, **options)
    # Methods are called on the inner file. The outer object's closer removes the name when that is closed.
    result = wrap(file.file, file, loop=loop, executor=executor)
    if _HAS_DELETE_ON_CLOSE:
        result._closer = file._closer
    else:
        result.delete = file.delete
    return result


def TemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    loop: Any = None,
    executor: Any = None,
) -> AiofilesContextManager[Any]:
    """A temporary file without a name."""
    args = (mode, buffering, encoding, newline, suffix, prefix, dir)
    return AiofilesContextManager(_made(loop, executor, _wrap_itself, tempfile.TemporaryFile, *args))


def SpooledTemporaryFile(
    max_size: int = 0,
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    loop: Any = None,
    executor: Any = None,
) -> AiofilesContextManager[Any]:
    """A temporary file that is kept in memory up to `max_size` bytes."""
    args = (max_size, mode, buffering, encoding, newline, suffix, prefix, dir)
    making = _made(loop, executor, AsyncSpooledTemporaryFile, tempfile.SpooledTemporaryFile, *args)
    return AiofilesContextManager(making)


def TemporaryDirectory(
    suffix: Any = None, prefix: Any = None, dir: Any = None, loop: Any = None, executor: Any = None
) -> AiofilesContextManagerTempDir:
    """A temporary directory. `async with` returns its path."""
    making = _made(loop, executor, AsyncTemporaryDirectory, tempfile.TemporaryDirectory, suffix, prefix, dir)
    return AiofilesContextManagerTempDir(making)


async def _made(loop: Any, executor: Any, kind: Callable[..., Any], make: Callable[..., Any], *args: Any) -> Any:
    return kind(await call(loop, executor, make, *args), loop=loop, executor=executor)


class AiofilesContextManagerTempDir(AiofilesContextManager[Any]):
    """Returns the path of the directory instead of the object."""

    async def __aenter__(self) -> Any:
        self._obj = await self._coro
        return self._obj.name


@singledispatch
def wrap(base_io_obj: Any, file: Any, *, loop: Any = None, executor: Any = None) -> Any:
    """Return the asynchronous file for `file`, by the type of the io file inside it.

    Raises:
        TypeError: the type of the io file is not supported.
    """
    msg = f"Unsupported IO type: {base_io_obj}"
    raise TypeError(msg)


def _wrap_itself(file: Any, *, loop: Any, executor: Any) -> Any:
    return wrap(file, file, loop=loop, executor=executor)


@wrap.register(TextIOBase)
def _(base_io_obj: Any, file: Any, *, loop: Any = None, executor: Any = None) -> AsyncTextIOWrapper:
    return AsyncTextIOWrapper(file, loop=loop, executor=executor)


@wrap.register(BufferedWriter)
def _(base_io_obj: Any, file: Any, *, loop: Any = None, executor: Any = None) -> AsyncBufferedIOBase:
    return AsyncBufferedIOBase(file, loop=loop, executor=executor)


@wrap.register(BufferedReader)
@wrap.register(BufferedRandom)
def _(base_io_obj: Any, file: Any, *, loop: Any = None, executor: Any = None) -> AsyncBufferedReader:
    return AsyncBufferedReader(file, loop=loop, executor=executor)


@wrap.register(FileIO)
def _(base_io_obj: Any, file: Any, *, loop: Any = None, executor: Any = None) -> AsyncFileIO:
    return AsyncFileIO(file, loop=loop, executor=executor)
