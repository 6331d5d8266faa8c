"""`open`, with the arguments of the built-in. It returns an `Opening`, which is awaited or used in `async with`."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import io
import os
import stat
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, final, overload

from oneloop.files.binary import BinaryFile
from oneloop.files.descriptor import SEEK_TEXT, Opened
from oneloop.files.engine import AT_FDCWD, check_timeout, close_late, current, encoded, had, named, opened, within
from oneloop.files.handle import Handle
from oneloop.files.request import Request, name_of, request
from oneloop.files.text import TextFile, text_file
from oneloop.files.unbuffered import UnbufferedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from types import TracebackType
    from typing import Literal

    from _typeshed import (
        FileDescriptorOrPath,
        OpenBinaryMode,
        OpenTextMode,
    )

    from oneloop._native import Files

__all__ = ["AnyFile", "Opening", "file_on", "open"]

AnyFile = TextFile | BinaryFile | UnbufferedFile
F = TypeVar("F", TextFile, BinaryFile, UnbufferedFile, AnyFile)

CREATION_MODE = 0o666
LARGEST_BLOCK_BYTES = 8 * 1024 * 1024
# Python 3.14 has larger buffers than the file's blocks.
HAS_LEAST_BUFFER = sys.version_info >= (3, 14)
TYPE_MASK, REGULAR = 0o170000, stat.S_IFREG
DIRECT = os.O_DIRECT


@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenTextMode = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    dir_fd: int | None = None,
    direct: bool = False,
    timeout: float | None = None,
) -> Opening[TextFile]: ...
@overload
def open(  # type: ignore[overload-overlap]  # an int that is not a literal 0 matches the later overload
    file: FileDescriptorOrPath,
    mode: OpenBinaryMode,
    buffering: Literal[0],
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    dir_fd: int | None = None,
    direct: bool = False,
    timeout: float | None = None,
) -> Opening[UnbufferedFile]: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryMode,
    buffering: int = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    dir_fd: int | None = None,
    direct: Literal[True],
    timeout: float | None = None,
) -> Opening[UnbufferedFile]: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryMode,
    buffering: int = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    dir_fd: int | None = None,
    direct: Literal[False] = False,
    timeout: float | None = None,
) -> Opening[BinaryFile]: ...
@overload
def open(  # a mode that is known only at run time; other strings, such as "rw", are refused
    file: FileDescriptorOrPath,
    mode: OpenTextMode | OpenBinaryMode,
    buffering: int = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    dir_fd: int | None = None,
    direct: bool = False,
    timeout: float | None = None,
) -> Opening[AnyFile]: ...
def open(
    file: FileDescriptorOrPath,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    dir_fd: int | None = None,
    direct: bool = False,
    timeout: float | None = None,
) -> Opening[TextFile] | Opening[BinaryFile] | Opening[UnbufferedFile] | Opening[AnyFile]:
    """Open a file without blocking the loop. Use the result with `async with`, or await it.

    The first eight arguments are those of the built-in `open()`, with the same meaning, defaults and errors. Invalid
    arguments raise when `open()` is called; errors of the filesystem are raised by the await.

    Args:
        file: a path (str, bytes or PathLike), or an open descriptor (int).
        mode: one of r, w, x, a, optionally with +, and with b or t.
        buffering: the size of the buffer in bytes; 0: no buffer; 1: flush text after each line.
        encoding: the text's encoding.
        errors: how encoding and decoding errors are handled.
        newline: how line ends are translated.
        closefd: if `file` is a descriptor, whether closing the file closes it.
        opener: called on a thread with the path and the flags; returns an open descriptor.
        dir_fd: a directory's descriptor. Relative paths start there.
        direct: bypass the page cache (O_DIRECT). Needs a binary mode, has no buffer, and offsets, sizes and buffers
            must be aligned (see `direct_alignment`).
        timeout: in seconds, for opening the file. The file's methods have their own `timeout`.

    Returns:
        An `Opening`. Its result is a `TextFile` for text, a `BinaryFile` for binary modes, and an `UnbufferedFile`
        with `buffering=0`.

    Raises:
        TypeError, ValueError, LookupError: as the built-in.
        OSError: as the built-in, with `filename`.
        TimeoutError: the timeout has expired.
        RuntimeError: no event loop is running, or it is not a oneloop loop.
    """
    if timeout is not None:
        check_timeout(timeout)
    name = name_of(file)
    checked = request(name, mode, buffering, encoding, errors, newline, closefd, opener, dir_fd, direct, timeout)
    return Opening(_opened, checked)


# Appended to the errors of an `Opening` that is used as if it were the open file.
REMEDY = (
    "the file is not open yet: use `async with oneloop.files.open(...) as file:` or"
    " `file = await oneloop.files.open(...)`"
)


@final
class Opening(Generic[F]):
    """The result of `open`: a file that is not open yet.

    `await` opens it and returns the file. `async with` opens it, and closes it at the end of the block.
    """

    __slots__ = ("_file", "_open", "_request")

    def __init__(self, opened: Callable[[Request], Coroutine[object, object, AnyFile]], request: Request) -> None:
        self._open = opened
        self._request = request
        self._file: F | None = None

    def __await__(self) -> Generator[Any, None, F]:
        # The overloads of `open` determine F, so the cast is correct.
        opening: Any = self._open(self._request)
        return cast("Generator[Any, None, F]", opening.__await__())

    async def __aenter__(self) -> F:
        file: Any = await self._open(self._request)
        self._file = file
        return cast("F", file)

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return _nothing() if self._file is None else self._file.close()

    if not TYPE_CHECKING:  # a type checker reports these mistakes itself

        def __getattr__(self, name):
            raise AttributeError(f"'Opening' object has no attribute {name!r}: {REMEDY}")

        def _refuse(self, *_exit):
            raise TypeError(f"'Opening' object supports only `await` and `async with`: {REMEDY}")

        __enter__ = __exit__ = __iter__ = __aiter__ = _refuse


async def _nothing() -> None:
    """Do nothing, as `__aexit__` of an `Opening` that was never entered."""


# -- opening -------------------------------------------------------------------------------------


async def _opened(request: Request) -> AnyFile:
    name, mode, _, _, _, opener, dir_fd, is_direct, timeout_s = request
    if timeout_s is not None:
        return await within(timeout_s, _opened, request._replace(timeout_s=None))
    files = current()
    if isinstance(name, int):
        return await file_on(name, files, request, is_ours=False)
    flags = mode.flags | DIRECT if is_direct else mode.flags
    if opener is not None:
        number = await _by_opener(opener, name, flags, files)
        return await file_on(number, files, request, is_ours=True)
    if files.is_spent():
        await files.later()
    try:
        found = files.open_at_once(encoded(name), flags, CREATION_MODE, AT_FDCWD if dir_fd is None else dir_fd)
        if isinstance(found, asyncio.Future):
            opening = found
            try:
                found = await opening
            except BaseException:
                # Opened and cancelled in the same tick.
                opening.add_done_callback(partial(close_late, files))
                raise
    except OSError as error:
        named(error, name)
        raise
    if found is None:
        number = await opened(files, name, flags, CREATION_MODE, dir_fd)
        return await file_on(number, files, request, is_ours=True)
    number, status = found
    try:
        return _made(number, files, request, True, status)
    except BaseException:
        files.forsake(number)
        raise


async def _by_opener(opener: Callable[[str, int], int], name: str | bytes, flags: int, files: Files) -> int:
    # Its thread cannot be stopped.
    number: object = await had(files, files.call(opener, name, flags))
    if not isinstance(number, int):
        raise TypeError("expected integer from opener")
    if number < 0:
        raise ValueError(f"opener returned {number}")
    os.set_inheritable(number, False)
    return number


async def file_on(number: int, files: Files, request: Request, *, is_ours: bool) -> AnyFile:
    """Return the file object for an open descriptor.

    After an error, a descriptor that we have opened is closed. Like the built-in `open()`, one of the program is closed
    only if `closefd` is true and the descriptor itself is usable, but not with these arguments.
    """
    is_usable = False
    try:
        status = files.status(number)
        status = status if isinstance(status, tuple) else await status
        is_usable = not stat.S_ISDIR(status[0])
        return _made(number, files, request, is_ours, status)
    except BaseException as error:
        is_open = not (isinstance(error, OSError) and error.errno == errno.EBADF)
        if is_open and (is_ours or (request.closefd and is_usable)):
            files.forsake(number)
        raise


def _made(number: int, files: Files, request: Request, is_ours: bool, status: tuple[int, int, int, bool]) -> AnyFile:
    name, mode, buffering, style, closefd, opener, _, is_direct, _ = request
    file_mode, size, block_bytes, is_local = status
    is_terminal = False
    # Other code may use a descriptor that we did not open: then the position is the kernel's.
    if file_mode & TYPE_MASK == REGULAR and is_ours and opener is None and not mode.is_appending:
        offset, is_file, is_seekable, is_appending = 0, True, True, False
    else:
        offset, is_file, is_seekable, is_appending, is_terminal = _examined(number, request, is_ours, status)
    if buffering > 1 or buffering == 0:
        buffer_bytes = buffering
    else:
        buffer_bytes = _buffer_bytes(block_bytes) if HAS_LEAST_BUFFER or block_bytes <= 1 else block_bytes
    made = tuple.__new__(
        Opened,
        (
            name, mode, offset, size, is_file, is_seekable, is_local, is_appending, is_direct, closefd,
            buffer_bytes, buffering <= 1, style,
        ),
    )  # fmt: skip
    handle = Handle(files, number, made, asyncio.get_running_loop())
    try:
        if style is not None:
            return text_file(handle, style, buffering == 1 or (buffering < 0 and is_terminal))
        return UnbufferedFile(handle) if buffering == 0 else BinaryFile(handle)
    except BaseException:
        # The caller closes the descriptor.
        handle.number = -1
        raise


def _examined(
    number: int, request: Request, is_ours: bool, status: tuple[int, int, int, bool]
) -> tuple[int, bool, bool, bool, bool]:
    """Return the position, whether it is a file, can seek and appends, and whether it is a terminal."""
    mode = request.mode
    file_mode, size, _, is_local = status
    kind = stat.S_IFMT(file_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), request.name)
    is_own = is_ours and request.opener is None
    is_file = kind in (stat.S_IFREG, stat.S_IFBLK)
    is_seekable = is_file or _is_seekable(number)
    offset = -1
    if is_file and is_own:
        offset = size if mode.is_appending else 0
    if mode.is_appending and is_seekable:
        # On a network filesystem, SEEK_END could block: use the size that was reported before.
        os.lseek(number, *((0, os.SEEK_END) if is_local else (size, os.SEEK_SET)))
    is_terminal = kind == stat.S_IFCHR and os.isatty(number)
    if request.buffering != 0 and mode.is_reading and mode.is_writing and not is_seekable:
        raise io.UnsupportedOperation(SEEK_TEXT)
    return offset, is_file, is_seekable, mode.is_appending or (not is_own and _is_appending(number)), is_terminal


def _is_seekable(number: int) -> bool:
    try:
        os.lseek(number, 0, os.SEEK_CUR)
    except OSError:
        return False
    return True


def _is_appending(number: int) -> bool:
    """Return True if the descriptor has O_APPEND: all writes go to the end."""
    return bool(fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND)


def _buffer_bytes(block_bytes: int) -> int:
    """Return the buffer size that the built-in `open()` of this Python version uses."""
    if HAS_LEAST_BUFFER:
        return max(min(block_bytes, LARGEST_BLOCK_BYTES), io.DEFAULT_BUFFER_SIZE)
    return block_bytes if block_bytes > 1 else io.DEFAULT_BUFFER_SIZE
