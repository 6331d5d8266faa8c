"""Temporary files and directories: the four classes of `tempfile`, to be awaited or used in `async with`.

Names, modes and permissions are those of tempfile. A file without a name is created without one if the filesystem
supports it (O_TMPFILE). A cancelled call leaves no file behind.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import secrets
import tempfile
from asyncio import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Self, final, overload

from oneloop.files.engine import AT_FDCWD, current, ended, undisturbed
from oneloop.files.opening import AnyFile, Opening, Request, file_on, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterable
    from types import TracebackType
    from typing import Literal

    from _typeshed import OpenBinaryMode, OpenTextMode

    from oneloop._native import Files
    from oneloop.files.binary import BinaryFile
    from oneloop.files.text import TextFile

__all__ = ["NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory", "TemporaryFile"]

FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
RIGHTS = 0o600

# The errors of open(2) if O_TMPFILE is not supported, by the filesystem or by an old kernel.
WITHOUT_NAMELESS = frozenset({errno.EISDIR, errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL})

Affix = str | bytes | None
Folder = str | bytes | os.PathLike[str] | None


@overload
def TemporaryFile(
    mode: OpenTextMode,
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Affix = None,
    prefix: Affix = None,
    dir: Folder = None,
    *,
    errors: str | None = None,
) -> Opening[TextFile]: ...
@overload
def TemporaryFile(
    mode: OpenBinaryMode = "w+b",
    buffering: Literal[-1] = -1,
    encoding: None = None,
    newline: None = None,
    suffix: Affix = None,
    prefix: Affix = None,
    dir: Folder = None,
    *,
    errors: None = None,
) -> Opening[BinaryFile]: ...
@overload
def TemporaryFile(
    mode: str,
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Affix = None,
    prefix: Affix = None,
    dir: Folder = None,
    *,
    errors: str | None = None,
) -> Opening[AnyFile]: ...
def TemporaryFile(  # noqa: N802 - tempfile's name
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Affix = None,
    prefix: Affix = None,
    dir: Folder = None,
    *,
    errors: str | None = None,
) -> Opening[TextFile] | Opening[BinaryFile] | Opening[AnyFile]:
    """Open a file that has no name and is freed when it is closed, like `tempfile.TemporaryFile`.

    Returns:
        An `Opening`, as `open` does: await it, or use it in `async with`.

    Raises:
        TypeError, ValueError, LookupError: an argument is invalid.
        OSError: when it is awaited, with the directory as `filename`.
    """
    checked = request(-1, mode, buffering, (encoding, errors, newline))
    return Opening(partial(_nameless, suffix, prefix, dir), checked)


async def _nameless(suffix: Affix, prefix: Affix, folder: Folder, checked: Request) -> AnyFile:
    files = current()
    where = await _folder(folder, files)
    try:
        opened = files.open(os.fsencode(where), os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, RIGHTS, AT_FDCWD)
        number = opened if isinstance(opened, int) else await _number(opened, partial(_close, files=files))
    except OSError as exc:
        if exc.errno not in WITHOUT_NAMELESS:
            exc.filename = where
            raise
        number, path = await _created(suffix, prefix, where, files)
        try:
            await _unlink(path, files)
        except BaseException:
            files.forsake(number)
            raise
    return await file_on(number, files, checked._replace(name=number), is_ours=True)


@final
class NamedTemporaryFile:
    """A file with a name that is deleted when it is closed, like `tempfile.NamedTemporaryFile`.

    Await it or use it in `async with`. Then it has the methods of the file that `open()` returns for this mode.
    With `delete_on_close=False` it is deleted at the end of the `async with` block.
    """

    def __init__(
        self,
        mode: str = "w+b",
        buffering: int = -1,
        encoding: str | None = None,
        newline: str | None = None,
        suffix: Affix = None,
        prefix: Affix = None,
        dir: Folder = None,
        delete: bool = True,
        *,
        errors: str | None = None,
        delete_on_close: bool = True,
    ) -> None:
        self.file: Any = None
        self.name: str | bytes = ""
        self.delete = delete
        self._delete_on_close = delete_on_close
        self._request = request(-1, mode, buffering, (encoding, errors, newline))
        self._where = (suffix, prefix, dir)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.__dict__.get("file") is None:
            raise AttributeError(
                f"'NamedTemporaryFile' object has no attribute {name!r}: the file is not open yet, so use"
                " `async with NamedTemporaryFile(...) as file:` or `file = await NamedTemporaryFile(...)`"
            )
        return getattr(self.file, name)

    def __repr__(self) -> str:
        return f"<oneloop.files.NamedTemporaryFile name={self.name!r} file={self.file!r}>"

    async def _open(self) -> Self:
        files = current()
        suffix, prefix, folder = self._where
        number, self.name = await _created(suffix, prefix, await _folder(folder, files), files)
        try:
            self.file = await file_on(number, files, self._request._replace(name=self.name), is_ours=True)
        except BaseException:
            await _unlink(self.name, files)
            raise
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        return self if self.file is not None else await self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        finally:
            await self._remove()

    def __aiter__(self) -> AsyncIterator[Any]:
        lines: AsyncIterator[Any] = self.file.__aiter__()
        return lines

    async def close(self, *, timeout: float | None = None) -> None:
        """Close the file. Delete it, unless `delete` or `delete_on_close` is False."""
        try:
            await self.file.close(timeout=timeout)
        finally:
            if self._delete_on_close:
                await self._remove()

    async def _remove(self) -> None:
        # There is no await before the removal begins, so a cancelled task cannot leave the file behind.
        if self.delete and self.name:
            self.delete = False
            try:
                await _unlink(self.name, current())
            except OSError as error:
                error.filename = self.name
                raise

    def __del__(self) -> None:
        if self.__dict__.get("file") is not None and self.delete and self.name:
            self.delete = False
            os.unlink(self.name)


@final
class SpooledTemporaryFile:
    """A file in memory that is moved to the disk once it has more than `max_size` bytes (0: never).

    Like `tempfile.SpooledTemporaryFile`, but its methods are coroutines, also while it is in memory. Use it with
    `async with`, or directly.
    """

    def __init__(
        self,
        max_size: int = 0,
        mode: str = "w+b",
        buffering: int = -1,
        encoding: str | None = None,
        newline: str | None = None,
        suffix: Affix = None,
        prefix: Affix = None,
        dir: Folder = None,
        *,
        errors: str | None = None,
    ) -> None:
        self._max_size = max_size
        self._rolled = False
        # Held while the memory is used or moved to the disk.
        self._turn = asyncio.Lock()
        self._opening = TemporaryFile(mode, buffering, encoding, newline, suffix, prefix, dir, errors=errors)
        self._mode = mode
        memory = io.BytesIO()
        self._file: Any = memory
        if "b" not in mode:
            style = self._opening._request.style
            assert style is not None
            self._file = io.TextIOWrapper(memory, style.encoding, style.errors, newline)

    async def __aenter__(self) -> Self:
        if self.closed:
            raise ValueError("Cannot enter context with closed file")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    def __getattr__(self, name: str) -> Any:
        if name in ("encoding", "errors", "newlines", "readable", "writable", "seekable", "isatty"):
            return getattr(self._file, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def closed(self) -> bool:
        """True once the file is closed."""
        return bool(self._file.closed)

    @property
    def mode(self) -> str:
        """The `mode` argument, or the mode of the file on the disk."""
        return str(self._file.mode) if self._rolled else self._mode

    @property
    def name(self) -> int | None:
        """The descriptor once the file is on the disk, else None."""
        return self._file.name if self._rolled else None

    async def rollover(self) -> None:
        """Move the file to the disk now."""
        async with self._turn:
            await self._roll()

    async def _roll(self) -> None:
        """Move the file to the disk. The lock is held, so no write to the memory is lost."""
        if self._rolled:
            return
        memory = self._file
        position = memory.tell()
        is_text = isinstance(memory, io.TextIOWrapper)
        if is_text:
            memory.flush()
        file: Any = await self._opening
        try:
            binary = file.buffer if is_text else file
            await binary.write((memory.buffer if is_text else memory).getvalue())
            await file.seek(position)
        except BaseException:
            await file.close()
            raise
        self._file = file
        self._rolled = True

    async def fileno(self) -> int:
        """Move the file to the disk, and return the descriptor."""
        await self.rollover()
        return int(self._file.fileno())

    async def read(self, size: int | None = -1, /) -> Any:
        """Like the method of a file from `open`."""
        return await self._do("read", size)

    async def readline(self, size: int = -1, /) -> Any:
        """Like the method of a file from `open`."""
        return await self._do("readline", size)

    async def readlines(self, hint: int = -1, /) -> Any:
        """Like the method of a file from `open`."""
        return await self._do("readlines", hint)

    async def readinto(self, buffer: Any, /) -> int:
        """Like the method of a file from `open`."""
        return int(await self._do("readinto", buffer))

    async def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Like the method of a file from `open`."""
        return int(await self._do("seek", offset, whence))

    async def tell(self) -> int:
        """Like the method of a file from `open`."""
        return int(await self._do("tell"))

    async def flush(self) -> None:
        """Like the method of a file from `open`."""
        await self._do("flush")

    async def close(self) -> None:
        """Close the file and free its content."""
        await self._do("close")

    async def truncate(self, size: int | None = None, /) -> int:
        """Like the method of a file from `open`. Moves the file to the disk if `size` is above `max_size`."""
        if size is not None and self._max_size and size > self._max_size:
            await self.rollover()
        return int(await self._do("truncate", size))

    async def write(self, data: Any, /) -> int:
        """Like the method of a file from `open`. Moves the file to the disk if it exceeds `max_size`."""
        return int(await self._do("write", data))

    async def writelines(self, lines: Iterable[Any], /) -> None:
        """Like the method of a file from `open`. Moves the file to the disk if it exceeds `max_size`."""
        await self._do("writelines", lines)

    async def _do(self, name: str, *arguments: Any) -> Any:
        if not self._rolled:
            async with self._turn:
                # Another task may have moved the file to the disk meanwhile.
                if not self._rolled:
                    done = getattr(self._file, name)(*arguments)
                    is_writing = name in ("write", "writelines")
                    if is_writing and self._max_size and self._file.tell() > self._max_size:
                        await self._roll()
                    return done
        return await getattr(self._file, name)(*arguments)


@final
class TemporaryDirectory:
    """A directory that is removed with its content, like `tempfile.TemporaryDirectory`.

    `async with` creates it and returns its name. `await` creates it and returns this object; call `cleanup()` then.
    """

    def __init__(
        self,
        suffix: Affix = None,
        prefix: Affix = None,
        dir: Folder = None,
        ignore_cleanup_errors: bool = False,
        *,
        delete: bool = True,
    ) -> None:
        self._arguments = (suffix, prefix, dir, ignore_cleanup_errors)
        self._delete = delete
        self._directory: tempfile.TemporaryDirectory[Any] | None = None

    @property
    def name(self) -> Any:
        """The directory's path; None before it is created."""
        return None if self._directory is None else self._directory.name

    def __repr__(self) -> str:
        return f"<oneloop.files.TemporaryDirectory {self.name!r}>"

    async def _make(self) -> Self:
        made = current().call(tempfile.TemporaryDirectory, *self._arguments)
        directory = await _number(made, _remove_late)
        if not self._delete:
            # `delete=False` exists from Python 3.12 on; 3.11 does not have the argument.
            directory._finalizer.detach()
        self._directory = directory
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self._make().__await__()

    async def __aenter__(self) -> Any:
        if self._directory is None:
            await self
        return self.name

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._delete:
            await self.cleanup()

    async def cleanup(self) -> None:
        """Remove the directory. If the call is cancelled, the removal still continues."""
        if self._directory is not None:
            done = current().call(self._directory.cleanup)
            await undisturbed(done)
            done.result()


# -- the parts -----------------------------------------------------------------------------------


async def _folder(folder: Folder, files: Files) -> str | bytes:
    """Return the directory for temporary files. Its default is determined on a thread, once per process."""
    if folder is not None:
        return os.fspath(folder)
    if tempfile.tempdir is None:
        return await files.call(tempfile.gettempdir)
    return tempfile.gettempdir()


async def _created(suffix: Affix, prefix: Affix, folder: str | bytes, files: Files) -> tuple[int, str | bytes]:
    """Create a file with a new random name. Return its descriptor and its path."""
    is_bytes = any(isinstance(part, bytes) for part in (suffix, prefix, folder))
    last: OSError | None = None
    for _ in range(tempfile.TMP_MAX):
        middle = secrets.token_hex(4)
        affixes = [os.fsencode(part) for part in (prefix or tempfile.gettempprefix(), middle, suffix or "")]
        path = os.path.join(os.path.abspath(os.fsencode(folder)), b"".join(affixes))
        name = path if is_bytes else os.fsdecode(path)
        try:
            opened = files.open(path, FLAGS, RIGHTS, AT_FDCWD)
            number = (
                opened if isinstance(opened, int) else await _number(opened, partial(_close, files=files, path=path))
            )
        except FileExistsError as exc:
            last = exc
            continue
        except OSError as exc:
            exc.filename = name
            raise
        return number, name
    raise FileExistsError(errno.EEXIST, "No usable temporary file name found") from last


async def _number(made: Future[Any], discard: Callable[[Future[Any]], None]) -> Any:
    """Wait for a new file or directory. If the waiter is cancelled, `discard` is called when it has been created."""
    try:
        await undisturbed(made)
    except BaseException:
        made.add_done_callback(discard)
        raise
    return made.result()


def _close(opened: Future[int], files: Files, path: bytes | None = None) -> None:
    if opened.cancelled() or opened.exception() is not None:
        return
    files.forsake(opened.result())
    if path is not None:
        files.unlink(path, False, AT_FDCWD)


async def _unlink(path: str | bytes, files: Files) -> None:
    """Remove a file. If cancelled, raise CancelledError only after the file has been removed."""
    unlinking = files.unlink(os.fsencode(path), False, AT_FDCWD)
    if unlinking is not None:
        try:
            await undisturbed(unlinking)
        except asyncio.CancelledError:
            await ended(unlinking)
            raise
        unlinking.result()


def _remove_late(made: Future[tempfile.TemporaryDirectory[Any]]) -> None:
    if not made.cancelled() and made.exception() is None:
        made.result().cleanup()
