"""`open`, with the arguments of the built-in. It returns an `Opening`, which is awaited or used in `async with`."""

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
from functools import lru_cache, partial
from operator import index
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, SupportsIndex, TypeVar, cast, final, overload

from oneloop.files.binary import BinaryFile
from oneloop.files.coding import Style, style_of
from oneloop.files.descriptor import SEEK_TEXT, Opened
from oneloop.files.engine import at, check_timeout, current, encoded, had, named, opened, within
from oneloop.files.handle import Handle
from oneloop.files.text import TextFile, described
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

__all__ = ["AnyFile", "Mode", "Opening", "Request", "file_on", "open", "request"]

AnyFile = TextFile | BinaryFile | UnbufferedFile
F = TypeVar("F", TextFile, BinaryFile, UnbufferedFile, AnyFile)

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
    """Check the arguments of `open()` or of a function based on it. `style` is (encoding, errors, newline).

    Raises:
        TypeError, ValueError, LookupError: as the built-in.
    """
    parsed = parse(mode) if type(mode) is str and isinstance(buffering, int) else None
    checked: Style | None = None
    encoding, errors, newline = style
    if parsed is None or (not parsed.is_text and style != (None, None, None)):
        raise _refusal(mode, buffering, *style)
    if parsed.is_text:
        if buffering == 0:
            raise ValueError("can't have unbuffered text I/O")
        for part in style:
            if part is not None and not isinstance(part, str):
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
            raise ValueError(
                f"direct=True needs a binary mode and no buffering, not mode={mode!r}, buffering={buffering}"
            )
        buffering = 0
    if not isinstance(name, int) and not closefd:
        raise ValueError("Cannot use closefd=False with file name")
    return Request(name, parsed, buffering, checked, closefd, opener, dir_fd, direct, timeout_s)


class Mode(NamedTuple):
    """A parsed, valid mode."""

    given: str
    is_reading: bool
    is_writing: bool
    is_appending: bool
    is_text: bool
    # For open(2), without O_CLOEXEC.
    flags: int
    # The `mode` attribute of a binary file: rb, wb, ab, xb, rb+, ab+, xb+; wb+ from Python 3.15 on.
    of_bytes: str


_FLAGS = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL, "a": os.O_CREAT | os.O_APPEND}


@lru_cache(maxsize=128)
def parse(mode: str) -> Mode | None:
    """Parse a mode. Return None if `open()` does not accept it."""
    letters = set(mode)
    verbs = letters & set(_FLAGS)
    if letters - set("axrwb+t") or len(mode) > len(letters) or len(verbs) != 1 or {"b", "t"} <= letters:
        return None
    verb = verbs.pop()
    is_updating = "+" in letters
    access = os.O_RDWR if is_updating else os.O_RDONLY if verb == "r" else os.O_WRONLY
    # Before Python 3.15, a file opened with "w+" has the mode "rb+".
    told = "r" if verb == "w" and is_updating and sys.version_info < (3, 15) else verb
    return Mode(
        given=mode,
        is_reading=verb == "r" or is_updating,
        is_writing=verb != "r" or is_updating,
        is_appending=verb == "a",
        is_text="b" not in letters,
        flags=access | _FLAGS[verb],
        of_bytes=told + ("b+" if is_updating else "b"),
    )


class Request(NamedTuple):
    """The checked arguments of `open`."""

    name: str | bytes | int
    mode: Mode
    buffering: int
    style: Style | None
    closefd: bool
    opener: Callable[[str, int], int] | None
    dir_fd: int | None
    is_direct: bool
    timeout_s: float | None


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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            await self._file.close()

    if not TYPE_CHECKING:  # a type checker reports these mistakes itself

        def __getattr__(self, name):
            raise AttributeError(f"'Opening' object has no attribute {name!r}: {REMEDY}")

        def _refuse(self, *_exit):
            raise TypeError(f"'Opening' object supports only `await` and `async with`: {REMEDY}")

        __enter__ = __exit__ = __iter__ = __aiter__ = _refuse


def _refusal(mode: object, buffering: object, encoding: object, errors: object, newline: object) -> Exception:
    """Return the exception that the built-in `open()` raises for these arguments in this Python version."""
    try:
        builtins.open(  # type: ignore[call-overload]
            os.devnull, mode, buffering, encoding, errors, newline
        ).close()
    except (TypeError, ValueError) as exc:
        return exc.with_traceback(None)
    return ValueError(f"invalid mode: {mode!r}")


def _name_of(file: object) -> str | bytes | int:
    """Return a path as str or bytes, or a descriptor as int."""
    if not isinstance(file, str | bytes) and isinstance(file, SupportsIndex):
        number = index(file)
        if isinstance(file, bool) and sys.version_info >= (3, 13):
            warnings.warn("bool is used as a file descriptor", RuntimeWarning, stacklevel=3)
        if number < 0:
            raise ValueError("negative file descriptor")
        if number > LARGEST_NUMBER:
            raise TypeError("expected str, bytes or os.PathLike object, not int")
        return number
    if type(file) is str and "\0" not in file:
        return file
    name = os.fspath(file)  # type: ignore[call-overload]
    if b"\0" in os.fsencode(name):
        raise ValueError("embedded null byte")
    assert isinstance(name, str | bytes)
    return name


# -- opening -------------------------------------------------------------------------------------


async def _opened(request: Request) -> AnyFile:
    if request.timeout_s is not None:
        return await within(request.timeout_s, _opened, request._replace(timeout_s=None))
    files = current()
    name = request.name
    if isinstance(name, int):
        return await file_on(name, files, request, is_ours=False)
    flags = request.mode.flags | os.O_CLOEXEC | (os.O_DIRECT if request.is_direct else 0)
    if request.opener is not None:
        number = await _by_opener(request.opener, name, flags, files)
        return await file_on(number, files, request, is_ours=True)
    if files.is_spent():
        await files.later()
    try:
        found = files.open_at_once(encoded(name), flags, at(request.dir_fd))
    except OSError as error:
        named(error, name)
        raise
    if found is None:
        number = await opened(files, name, flags, CREATION_MODE, request.dir_fd)
        return await file_on(number, files, request, is_ours=True)
    number, looked = found
    try:
        return _made(number, files, request, True, looked)
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
    """The file object for an open descriptor, which is closed if there can be none."""
    try:
        looked = files.look(number)
        return _made(number, files, request, is_ours, looked if isinstance(looked, tuple) else await looked)
    except BaseException as error:
        is_open = not (isinstance(error, OSError) and error.errno == errno.EBADF)
        if is_open and (is_ours or request.closefd):
            files.forsake(number)
        raise


def _made(number: int, files: Files, request: Request, is_ours: bool, looked: tuple[int, int, int, bool]) -> AnyFile:
    mode, name = request.mode, request.name
    file_mode, size, block_bytes, is_near = looked
    kind = stat.S_IFMT(file_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    # Other code may use a descriptor that we did not open: then its position in the kernel is the cursor.
    is_own = is_ours and request.opener is None
    is_file = kind in (stat.S_IFREG, stat.S_IFBLK)
    is_seekable = is_file or _is_seekable(number)
    offset = -1
    if is_file and is_own:
        offset = size if mode.is_appending else 0
    if mode.is_appending and is_seekable:
        # On a network filesystem, SEEK_END could block: use the size that was reported before.
        os.lseek(number, *((0, os.SEEK_END) if is_near else (size, os.SEEK_SET)))
    is_terminal = kind == stat.S_IFCHR and os.isatty(number)
    if request.buffering == 0:
        buffer_bytes = 0
    elif mode.is_reading and mode.is_writing and not is_seekable:
        raise io.UnsupportedOperation(SEEK_TEXT)
    else:
        buffer_bytes = request.buffering if request.buffering > 1 else _buffer_bytes(block_bytes)
    made = Opened(
        name,
        mode,
        offset,
        size,
        is_file,
        is_seekable,
        is_near,
        mode.is_appending or (not is_own and _is_appending(number)),
        request.is_direct,
        request.closefd,
        buffer_bytes,
        request.buffering <= 1,
    )
    handle = Handle(files, number, buffer_bytes, made, asyncio.get_running_loop())
    try:
        if request.style is not None:
            is_by_line = request.buffering == 1 or (request.buffering < 0 and is_terminal)
            text = TextFile(handle, request.style, line_buffering=is_by_line)
            handle.describe = partial(described, style=request.style)
            return text
        binary = UnbufferedFile(handle) if request.buffering == 0 else BinaryFile(handle)
    except BaseException:
        # The caller closes the descriptor.
        handle.number = -1
        raise
    handle.describe = UnbufferedFile.described if request.buffering == 0 else BinaryFile.described
    return binary


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
    if sys.version_info >= (3, 14):
        return max(min(block_bytes, LARGEST_BLOCK_BYTES), io.DEFAULT_BUFFER_SIZE)
    return block_bytes if block_bytes > 1 else io.DEFAULT_BUFFER_SIZE
