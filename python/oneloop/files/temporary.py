"""Temporary files and directories: the four classes of `tempfile`, to be awaited or used in `async with`.

Names, modes and permissions are those of tempfile. A file without a name is created without one if the filesystem
supports it (O_TMPFILE). A cancelled call leaves no file behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import tempfile
import warnings
from asyncio import Future
from functools import partial
from typing import TYPE_CHECKING, Any, AnyStr, Generic, Self, final, overload

from oneloop.files.engine import AT_FDCWD, current, ended, running_loop, undisturbed
from oneloop.files.opening import AnyFile, Opening, file_on
from oneloop.files.request import Request, request
from oneloop.files.text import TextFile
from oneloop.loop import Loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from types import TracebackType
    from typing import Literal

    from _typeshed import OpenBinaryMode, OpenTextMode, StrPath

    from oneloop._native import Files
    from oneloop.files.binary import BinaryFile
    from oneloop.files.handle import Handle

__all__ = ["NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile"]

FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
RIGHTS = 0o600

# The errors of open(2) if O_TMPFILE is not supported, by the filesystem or by an old kernel.
WITHOUT_NAMELESS = frozenset({errno.EISDIR, errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL})

Affix = str | bytes | None
Folder = str | bytes | os.PathLike[str] | None


@overload
def TemporaryFile(  # pyright: ignore[reportOverlappingOverload] # tempfile's function takes any str as well
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
    checked = request(-1, mode, buffering, encoding, errors, newline)
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
        self._request = request(-1, mode, buffering, encoding, errors, newline)
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
            except FileNotFoundError:
                # The program has moved or removed it, as tempfile accepts from Python 3.12 on.
                return
            except OSError as error:
                error.filename = self.name
                raise

    def __del__(self) -> None:
        if self.__dict__.get("file") is None or not self.delete or not self.name:
            return
        self.delete = False
        handle: Handle = self.file.buffer.handle if isinstance(self.file, TextFile) else self.file.handle
        if not handle.opened.is_local and running_loop() is handle.loop:
            # The filesystem may be slow: a thread does it, also if the loop is closed meanwhile.
            handle.files.forsake_name(os.fsencode(self.name))
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.name)


@final
class TemporaryDirectory(Generic[AnyStr]):
    """A directory that is removed with its content, like `tempfile.TemporaryDirectory`.

    `async with` creates it and returns its name. `await` creates it and returns this object; call `cleanup()` then.
    """

    @overload
    def __init__(
        self: TemporaryDirectory[str],
        suffix: str | None = None,
        prefix: str | None = None,
        dir: StrPath | None = None,
        ignore_cleanup_errors: bool = False,
        *,
        delete: bool = True,
    ) -> None: ...
    @overload
    def __init__(
        self: TemporaryDirectory[bytes],
        suffix: bytes | None = None,
        prefix: bytes | None = None,
        dir: bytes | None = None,
        ignore_cleanup_errors: bool = False,
        *,
        delete: bool = True,
    ) -> None: ...
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
    def name(self) -> AnyStr | None:
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

    async def __aenter__(self) -> AnyStr:
        if self._directory is None:
            await self
        made: Any = self._directory
        name: AnyStr = made.name
        return name

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

    def __del__(self) -> None:
        directory = self.__dict__.get("_directory")
        if directory is not None and directory._finalizer.alive and isinstance(running_loop(), Loop):
            warnings.warn(f"Implicitly cleaning up {self!r}", ResourceWarning, stacklevel=1, source=self)
            _remove(directory)


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
        files.forsake_name(path)


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
        _remove(made.result())


def _remove(directory: tempfile.TemporaryDirectory[Any]) -> None:
    """Remove a directory on a thread. If the loop is closed before, tempfile removes it."""
    current().call_removal(directory.cleanup)
