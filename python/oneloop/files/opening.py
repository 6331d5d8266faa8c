"""`open`: its arguments as the built-in's, and what it gives: something to await, or to enter."""

from __future__ import annotations

import asyncio
import builtins
import errno
import fcntl
import io
import os
import stat
import sys
import warnings
from asyncio import Future
from operator import index
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, SupportsIndex, TypeVar, cast, final, overload

from oneloop.files import engine
from oneloop.files.binary import SEEK_TEXT, BinaryFile
from oneloop.files.deadline import within
from oneloop.files.file import Origin
from oneloop.files.mode import Mode, parse
from oneloop.files.raw import Descriptor, undisturbed
from oneloop.files.text import Style, TextFile, style_of
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

__all__ = ["AnyFile", "Opening", "Request", "file_on", "open", "request"]

AnyFile = TextFile | BinaryFile | UnbufferedFile
F = TypeVar("F", TextFile, BinaryFile, UnbufferedFile, AnyFile)

AT_FDCWD = -100
CREATION_MODE = 0o666
LARGEST_BLOCK_BYTES = 8 * 1024 * 1024
LARGEST_NUMBER = 2**31 - 1


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
def open(  # type: ignore[overload-overlap]  # a 0 that is not written down is taken for a size
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
def open(
    file: FileDescriptorOrPath,
    mode: str,
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
    """Open a file without blocking the loop; for `async with`, or to be awaited.

    The first eight arguments are those of the built-in, with the same meanings, defaults and errors. Wrong ones are
    told by the call, before anything is opened; what the file system says, by the await.

    Args:
        file: a path (str, bytes or PathLike), or the number of an open descriptor.
        mode: one of r, w, x, a, with +, and with b or t.
        buffering: the size of the buffer, 0 for none, 1 for lines.
        encoding: of text.
        errors: what happens to text that cannot be decoded or encoded.
        newline: None, "", or what ends a line.
        closefd: whether closing the file closes the descriptor that `file` is.
        opener: what opens instead, called with the path and the flags on a thread.
        dir_fd: relative paths start at this directory.
        direct: past the page cache (O_DIRECT): binary and unbuffered; offsets, sizes and buffers must be aligned.
        timeout: in seconds, for opening alone; the methods have their own.

    Returns:
        For text a `TextFile`, for binary modes a `BinaryFile`, with `buffering=0` an `UnbufferedFile`.

    Raises:
        TypeError, ValueError, LookupError: as the built-in.
        OSError: as the built-in, with the file's name; or after the timeout, TimeoutError.
        RuntimeError: the running loop is not oneloop's.
    """
    name = _name_of(file)
    style = (encoding, errors, newline)
    checked = request(name, mode, buffering, style, closefd, opener, dir_fd, direct, timeout)
    return Opening(_opened, checked)


def request(
    name: str | bytes | int,
    mode: str,
    buffering: int,
    style: tuple[str | None, str | None, str | None],
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    dir_fd: int | None = None,
    direct: bool = False,
    timeout_s: float | None = None,
) -> Request:
    """Check the arguments of `open()`, or of what calls it; `style` is encoding, errors and newline.

    Raises:
        TypeError, ValueError, LookupError: as the built-in.
    """
    parsed = parse(mode) if type(mode) is str and isinstance(buffering, int) else None
    checked: Style | None = None
    if parsed is None or (not parsed.is_text and style != (None, None, None)):
        raise _refusal(mode, buffering, *style)
    if parsed.is_text:
        if buffering == 0:
            raise ValueError("can't have unbuffered text I/O")
        encoding, errors, newline = style
        if not all(part is None or isinstance(part, str) for part in style):
            raise _refusal(mode, buffering, *style)
        checked = style_of(io.text_encoding(encoding, 3), errors, newline)
    elif buffering == 1:
        warnings.warn(
            "line buffering (buffering=1) isn't supported in binary mode, the default buffer size will be used",
            RuntimeWarning,
            stacklevel=3,
        )
        buffering = -1
    if direct:
        if parsed.is_text or buffering > 0:
            raise ValueError("direct=True needs a binary mode, and no buffering")
        buffering = 0
    if not isinstance(name, int) and not closefd:
        raise ValueError("Cannot use closefd=False with file name")
    return Request(name, parsed, buffering, checked, closefd, opener, dir_fd, direct, timeout_s)


class Request(NamedTuple):
    """A valid call of `open`."""

    name: str | bytes | int
    mode: Mode
    buffering: int
    style: Style | None
    closefd: bool
    opener: Callable[[str, int], int] | None
    dir_fd: int | None
    is_direct: bool
    timeout_s: float | None


@final
class Opening(Generic[F]):
    """A file to be opened: by `await`, or by `async with`, which also closes it."""

    __slots__ = ("_file", "_open", "_request")

    def __init__(self, opened: Callable[[Request], Coroutine[object, object, AnyFile]], request: Request) -> None:
        self._open = opened
        self._request = request
        self._file: F | None = None

    def __await__(self) -> Generator[Any, None, F]:
        # Which class it is was said by the overload.
        opening: Any = self._open(self._request)
        return cast("Generator[Any, None, F]", opening.__await__())

    async def __aenter__(self) -> F:
        file: F = await self
        self._file = file
        return file

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            await self._file.close()


def _refusal(mode: object, buffering: object, encoding: object, errors: object, newline: object) -> Exception:
    """What the built-in `open()` says to such arguments, in its words for this version of Python."""
    try:
        builtins.open(  # type: ignore[call-overload]
            os.devnull, mode, buffering, encoding, errors, newline
        ).close()
    except (TypeError, ValueError) as exc:
        return exc.with_traceback(None)
    return ValueError(f"invalid mode: {mode!r}")


def _name_of(file: object) -> str | bytes | int:
    """A path as str or bytes, or the number of a descriptor."""
    if not isinstance(file, str | bytes) and isinstance(file, SupportsIndex):
        number = index(file)
        if isinstance(file, bool) and sys.version_info >= (3, 13):
            warnings.warn("bool is used as a file descriptor", RuntimeWarning, stacklevel=3)
        if number < 0:
            raise ValueError("negative file descriptor")
        if number > LARGEST_NUMBER:
            raise TypeError("expected str, bytes or os.PathLike object, not int")
        return number
    name = os.fspath(file)  # type: ignore[call-overload]
    if b"\0" in os.fsencode(name):
        raise ValueError("embedded null byte")
    assert isinstance(name, str | bytes)
    return name


# -- what the await does -------------------------------------------------------------------------


async def _opened(request: Request) -> AnyFile:
    if request.timeout_s is not None:
        return await within(request.timeout_s, _opened(request._replace(timeout_s=None)))
    files = engine.current()
    name = request.name
    if isinstance(name, int):
        return file_on(name, files, request, is_ours=False)
    flags = request.mode.flags | os.O_CLOEXEC | (os.O_DIRECT if request.is_direct else 0)
    if request.opener is not None:
        number = await _by_opener(request.opener, name, flags, files)
    else:
        number = await _by_engine(name, flags, AT_FDCWD if request.dir_fd is None else request.dir_fd, files)
    return file_on(number, files, request, is_ours=True)


async def _by_engine(name: str | bytes, flags: int, dir_fd: int, files: Files) -> int:
    try:
        opened = files.open(os.fsencode(name), flags, CREATION_MODE, dir_fd)
        if isinstance(opened, int):
            return opened
        try:
            return await opened
        except BaseException:
            # Opened and cancelled in the same tick: nobody else would close it.
            opened.add_done_callback(_close_late)
            raise
    except OSError as exc:
        exc.filename = name
        raise


async def _by_opener(opener: Callable[[str, int], int], name: str | bytes, flags: int, files: Files) -> int:
    opened = files.call(opener, name, flags)
    try:
        await undisturbed(opened)
    except BaseException:
        # The thread cannot be stopped.
        opened.add_done_callback(_close_late)
        raise
    number: object = opened.result()
    if not isinstance(number, int):
        raise TypeError("expected integer from opener")
    if number < 0:
        raise ValueError(f"opener returned {number}")
    os.set_inheritable(number, False)
    return number


def _close_late(opened: Future[int]) -> None:
    if opened.cancelled() or opened.exception() is not None:
        return
    number: object = opened.result()
    if isinstance(number, int) and number >= 0:
        os.close(number)


def file_on(number: int, files: Files, request: Request, *, is_ours: bool) -> AnyFile:
    """The file object for an open descriptor, which is closed if there can be none."""
    try:
        return _made(number, files, request, is_ours)
    except BaseException:
        if is_ours or request.closefd:
            os.close(number)
        raise


def _made(number: int, files: Files, request: Request, is_ours: bool) -> AnyFile:
    mode, name = request.mode, request.name
    status = os.fstat(number)
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    # A number that came from elsewhere may be known elsewhere: its position in the kernel is the cursor then.
    is_own = is_ours and request.opener is None
    has_offsets = kind in (stat.S_IFREG, stat.S_IFBLK)
    is_appending = mode.is_appending or (not is_own and bool(fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND))
    is_seekable = has_offsets or _is_seekable(number)
    if mode.is_appending and is_seekable:
        os.lseek(number, 0, os.SEEK_END)
    offset = -1
    if has_offsets and is_own:
        offset = status.st_size if mode.is_appending else 0
    descriptor = Descriptor(
        number, files, asyncio.get_running_loop(), closefd=request.closefd, is_direct=request.is_direct
    )
    origin = Origin(descriptor, name, mode, offset, is_seekable, is_appending)
    if request.buffering == 0:
        return UnbufferedFile(origin)
    if mode.is_reading and mode.is_writing and not is_seekable:
        raise io.UnsupportedOperation(SEEK_TEXT)
    is_terminal = kind == stat.S_IFCHR and os.isatty(number)
    sized = request.buffering > 1
    block = request.buffering if sized else _buffer_bytes(status.st_blksize)
    binary = BinaryFile(origin, buffer_bytes=block, may_grow=not sized)
    if request.style is None:
        return binary
    is_by_line = request.buffering == 1 or (request.buffering < 0 and is_terminal)
    try:
        return TextFile(binary, request.style, line_buffering=is_by_line)
    except BaseException:
        # The caller closes the number.
        descriptor.number = -1
        raise


def _is_seekable(number: int) -> bool:
    try:
        os.lseek(number, 0, os.SEEK_CUR)
    except OSError:
        return False
    return True


def _buffer_bytes(block_bytes: int) -> int:
    """How much the built-in `open()` of this version buffers."""
    if sys.version_info >= (3, 14):
        return max(min(block_bytes, LARGEST_BLOCK_BYTES), io.DEFAULT_BUFFER_SIZE)
    return block_bytes if block_bytes > 1 else io.DEFAULT_BUFFER_SIZE
