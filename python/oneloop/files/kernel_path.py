"""Paths as the kernel gets them, and errors with the paths that the program gave."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import asyncio

    from oneloop._native import Files

__all__ = ["AnyPath", "FdOrPath", "at", "encoded", "named", "opened"]

AnyPath: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
FdOrPath: TypeAlias = "int | AnyPath"

AT_FDCWD = -100
"""Paths are relative to the current directory (openat(2))."""

_ENCODING = sys.getfilesystemencoding()
_ERRORS = sys.getfilesystemencodeerrors()
_IS_UTF8 = _ENCODING == "utf-8"


def encoded(path: AnyPath, function: str = "open", argument: str = "path") -> bytes:
    """The bytes of a path, without NUL.

    Raises:
        TypeError: it is no path; the message names `function` and `argument`, as os's does.
        ValueError: it has a NUL inside.
    """
    if type(path) is str and "\0" not in path:
        if _IS_UTF8:
            try:
                return path.encode()
            except UnicodeEncodeError:
                # Surrogates: bytes that are no text.
                return path.encode("utf-8", _ERRORS)
        return path.encode(_ENCODING, _ERRORS)
    try:
        name = os.fsencode(path)
    except TypeError:
        kind = type(path).__name__
        raise TypeError(f"{function}: {argument} should be string, bytes or os.PathLike, not {kind}") from None
    if 0 in name:
        raise ValueError("embedded null byte")
    return name


def at(dir_fd: int | None) -> int:
    """The directory's descriptor, or AT_FDCWD."""
    return AT_FDCWD if dir_fd is None else dir_fd


def named(error: OSError, path: FdOrPath, path2: AnyPath | None = None) -> OSError:
    """The error, with the filename or filenames that os would have given it."""
    error.filename = path if isinstance(path, int) else os.fspath(path)
    if path2 is not None:
        error.filename2 = os.fspath(path2)
    elif error.filename2 is not None:
        # None would be shown: "-> None".
        del error.filename2
    return error


async def opened(
    files: Files, path: AnyPath, flags: int, mode: int = 0o666, dir_fd: int | None = None, *, function: str = "open"
) -> int:
    """A new descriptor, which is the caller's to close.

    Raises:
        OSError: with `filename`, as `os.open` raises it.
    """
    name = encoded(path, function)
    try:
        fd = files.open(name, flags | os.O_CLOEXEC, mode, at(dir_fd))
        if isinstance(fd, int):
            return fd
        try:
            return await fd
        except BaseException:
            # Opened and cancelled in the same tick: nobody else would close it.
            fd.add_done_callback(_close_late)
            raise
    except OSError as error:
        named(error, path)
        raise


def _close_late(opening: asyncio.Future[int]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        os.close(opening.result())
