"""`Path`: pathlib's paths with coroutines as I/O methods.

`pathlib.PurePath` is the base class. Every method that `pathlib.Path` adds is here, with the same arguments plus
`timeout`. Those of newer Python versions are also available on older ones where they can be implemented.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pathlib
import shutil
import stat as modes
import sys
from typing import TYPE_CHECKING, Any, Literal, final, overload

from oneloop.files import attributes, names, trees, whole
from oneloop.files.copying import copy_content
from oneloop.files.engine import bounded, current, named, run_copy
from oneloop.files.opening import open as open_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Self

    from _typeshed import OpenBinaryMode, OpenTextMode, ReadableBuffer, StrPath

    from oneloop.files.binary import BinaryFile
    from oneloop.files.engine import Job
    from oneloop.files.opening import Opening
    from oneloop.files.text import TextFile
    from oneloop.files.unbuffered import UnbufferedFile

__all__ = ["Path", "PathInfo"]

# Before Python 3.14, `exists`, `is_dir` etc. return False on these errors only; since then on any OSError.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


class Path(pathlib.PurePosixPath):
    """Like `pathlib.Path`, but methods that do I/O are coroutines or async iterators.

    Pure operations (`/`, `name`, `with_suffix`…) are pathlib's and return a `Path`. A `Path` is equal to a pathlib path
    with the same parts; `pathlib.Path(path)` converts it. Subclassing is supported. The coroutines take `timeout` in
    seconds. They raise the exceptions of pathlib, TimeoutError, or RuntimeError if no oneloop loop is running.
    """

    __slots__ = ()

    def _made(self, *segments: StrPath) -> Self:
        """Return a path of this class; from Python 3.12 on, subclasses can override `with_segments`."""
        return self.with_segments(*segments) if sys.version_info >= (3, 12) else type(self)(*segments)

    # -- locations -------------------------------------------------------------------------------

    @classmethod
    async def cwd(cls) -> Self:
        """Return the current directory."""
        return cls(pathlib.Path.cwd())

    @classmethod
    @bounded
    async def home(cls, *, timeout: float | None = None) -> Self:
        """Return the user's home directory."""
        return cls(await current().call(pathlib.Path.home))

    if hasattr(pathlib.Path, "from_uri"):

        @classmethod
        def from_uri(cls, uri: str) -> Self:
            """Return the path of a `file:` URI (Python 3.13). Not a coroutine, because it does no I/O."""
            return cls(pathlib.Path.from_uri(uri))

    async def absolute(self) -> Self:
        """Return the absolute path, without resolving symbolic links."""
        return self._made(pathlib.Path(self).absolute())

    @bounded
    async def resolve(self, strict: bool = False, *, timeout: float | None = None) -> Self:
        """Return the absolute path with all symbolic links resolved; with `strict` it must exist."""
        return self._made(await current().call(pathlib.Path(self).resolve, strict))

    @bounded
    async def expanduser(self, *, timeout: float | None = None) -> Self:
        """Return the path with `~` and `~user` expanded."""
        return self._made(await current().call(pathlib.Path(self).expanduser))

    @bounded
    async def readlink(self, *, timeout: float | None = None) -> Self:
        """Return the target of the symbolic link."""
        return self._made(os.fsdecode(await current().call(os.readlink, str(self))))

    # -- status ----------------------------------------------------------------------------------

    @bounded
    async def stat(self, *, follow_symlinks: bool = True, timeout: float | None = None) -> os.stat_result:
        """Return the status of the file."""
        return await names.status(str(self), None, follow_symlinks)

    @bounded
    async def lstat(self, *, timeout: float | None = None) -> os.stat_result:
        """Return the status of the file, or of a symbolic link itself."""
        return await names.status(str(self), None, False)

    async def _mode(self, follow_symlinks: bool = True) -> int:
        """Return the mode of the file, 0 if it does not exist."""
        try:
            return (await names.status(str(self), None, follow_symlinks)).st_mode
        except OSError as error:
            if sys.version_info < (3, 14) and error.errno not in _ABSENT:
                raise
            return 0
        except ValueError:
            return 0

    @bounded
    async def exists(self, *, follow_symlinks: bool = True, timeout: float | None = None) -> bool:
        """Return True if the path exists."""
        return await self._mode(follow_symlinks) != 0

    @bounded
    async def is_dir(self, *, follow_symlinks: bool = True, timeout: float | None = None) -> bool:
        """Return True if it is a directory."""
        return modes.S_ISDIR(await self._mode(follow_symlinks))

    @bounded
    async def is_file(self, *, follow_symlinks: bool = True, timeout: float | None = None) -> bool:
        """Return True if it is a regular file."""
        return modes.S_ISREG(await self._mode(follow_symlinks))

    @bounded
    async def is_symlink(self, *, timeout: float | None = None) -> bool:
        """Return True if it is a symbolic link."""
        return modes.S_ISLNK(await self._mode(False))

    @bounded
    async def is_block_device(self, *, timeout: float | None = None) -> bool:
        """Return True if it is a block device."""
        return modes.S_ISBLK(await self._mode())

    @bounded
    async def is_char_device(self, *, timeout: float | None = None) -> bool:
        """Return True if it is a character device."""
        return modes.S_ISCHR(await self._mode())

    @bounded
    async def is_fifo(self, *, timeout: float | None = None) -> bool:
        """Return True if it is a FIFO."""
        return modes.S_ISFIFO(await self._mode())

    @bounded
    async def is_socket(self, *, timeout: float | None = None) -> bool:
        """Return True if it is a Unix socket."""
        return modes.S_ISSOCK(await self._mode())

    @bounded
    async def is_mount(self, *, timeout: float | None = None) -> bool:
        """Return True if it is a mount point."""
        return await current().call(pathlib.Path(self).is_mount)

    async def is_junction(self) -> bool:
        """Return False: Linux has no junctions."""
        return False

    @bounded
    async def samefile(self, other_path: StrPath, *, timeout: float | None = None) -> bool:
        """Return True if both paths refer to the same file."""
        return await names.samefile(str(self), other_path)

    @bounded
    async def owner(self, *, follow_symlinks: bool = True, timeout: float | None = None) -> str:
        """Return the login name of the owner. KeyError if the user database has no name."""
        return await current().call(pathlib.Path(self).owner, **_links(follow_symlinks))

    @bounded
    async def group(self, *, follow_symlinks: bool = True, timeout: float | None = None) -> str:
        """Return the name of the group. KeyError if the group database has no name."""
        return await current().call(pathlib.Path(self).group, **_links(follow_symlinks))

    @property
    def info(self) -> PathInfo:
        """A new `PathInfo`: the file's type, read on first use and then cached."""
        return PathInfo(str(self))

    # -- content ---------------------------------------------------------------------------------

    @overload
    def open(
        self,
        mode: OpenTextMode = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        timeout: float | None = None,
    ) -> Opening[TextFile]: ...
    @overload
    def open(  # type: ignore[overload-overlap]  # as for `oneloop.files.open`
        self,
        mode: OpenBinaryMode,
        buffering: Literal[0],
        encoding: None = None,
        errors: None = None,
        newline: None = None,
        *,
        timeout: float | None = None,
    ) -> Opening[UnbufferedFile]: ...
    @overload
    def open(
        self,
        mode: OpenBinaryMode,
        buffering: int = -1,
        encoding: None = None,
        errors: None = None,
        newline: None = None,
        *,
        timeout: float | None = None,
    ) -> Opening[BinaryFile]: ...
    @overload
    def open(
        self,
        mode: OpenTextMode | OpenBinaryMode,
        buffering: int = -1,
        encoding: None = None,
        errors: None = None,
        newline: None = None,
        *,
        timeout: float | None = None,
    ) -> Opening[TextFile | BinaryFile | UnbufferedFile]: ...
    def open(
        self,
        mode: OpenTextMode | OpenBinaryMode = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        timeout: float | None = None,
    ) -> Opening[Any]:
        """Open the file. Return an `Opening` to await or to use in `async with`, as `oneloop.files.open` does."""
        if "b" not in mode:
            encoding = io.text_encoding(encoding)
        checked: Any = mode
        return open_file(str(self), checked, buffering, encoding, errors, newline, timeout=timeout)

    @bounded
    async def read_bytes(self, *, timeout: float | None = None) -> bytes:
        """Return the whole content."""
        return await whole.read_file(self)

    @bounded
    async def read_text(
        self,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        timeout: float | None = None,
    ) -> str:
        """Return the whole content, decoded."""
        return await whole.read_text(self, encoding, errors, newline)

    @bounded
    async def write_bytes(self, data: ReadableBuffer, *, atomic: bool = False, timeout: float | None = None) -> int:
        """Replace the content with `data`. Return the number of bytes. For `atomic` see `write_file`."""
        return await whole.write_file(self, data, atomic=atomic)

    @bounded
    async def write_text(
        self,
        data: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        atomic: bool = False,
        timeout: float | None = None,
    ) -> int:
        """Replace the content with encoded text. Return the number of characters. For `atomic` see `write_file`."""
        return await whole.write_text(self, data, encoding, errors, newline, atomic=atomic)

    # -- directories -----------------------------------------------------------------------------

    async def iterdir(self, *, timeout: float | None = None) -> AsyncIterator[Self]:
        """Iterate over the paths in the directory, in arbitrary order."""
        for name in await trees.listdir(str(self), timeout=timeout):
            yield self._made(self, name)

    def glob(
        self,
        pattern: str | os.PathLike[str],
        *,
        case_sensitive: bool | None = None,
        recurse_symlinks: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[Self]:
        """Iterate over the paths below this one that match a pattern.

        Args:
            pattern: as for `pathlib.Path.glob`.
            case_sensitive: needs Python 3.12; None: as the system.
            recurse_symlinks: needs Python 3.13.
            timeout: in seconds, for each batch of up to a thousand paths, or None.
        """
        return self._found("glob", pattern, _glob_options(case_sensitive, recurse_symlinks), timeout)

    def rglob(
        self,
        pattern: str | os.PathLike[str],
        *,
        case_sensitive: bool | None = None,
        recurse_symlinks: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[Self]:
        """Like `glob` with `**/` before the pattern."""
        return self._found("rglob", pattern, _glob_options(case_sensitive, recurse_symlinks), timeout)

    async def _found(
        self, method: str, pattern: Any, options: dict[str, Any], timeout_s: float | None
    ) -> AsyncIterator[Self]:
        paths = getattr(pathlib.Path(self), method)(pattern, **options)
        async for path in trees.batches(iter(paths), self, timeout_s):
            yield self._made(path)

    async def walk(
        self,
        top_down: bool = True,
        on_error: Callable[[OSError], object] | None = None,
        follow_symlinks: bool = False,
        *,
        timeout: float | None = None,
    ) -> AsyncIterator[tuple[Self, list[str], list[str]]]:
        """Iterate over the tree's directories like `oneloop.files.walk`. Links that are not followed count as files."""
        async for folder, folders, files in trees.walk_path(str(self), top_down, on_error, follow_symlinks, timeout):
            yield self._made(folder), folders, files

    @bounded
    async def mkdir(
        self,
        mode: int = 0o777,
        parents: bool = False,
        exist_ok: bool = False,
        *,
        parent_mode: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Create the directory. `parent_mode` needs Python 3.15."""
        options = {} if parent_mode is None else {"parent_mode": parent_mode}
        await current().call(pathlib.Path(self).mkdir, mode, parents, exist_ok, **options)

    @bounded
    async def rmdir(self, *, timeout: float | None = None) -> None:
        """Remove the directory, which must be empty."""
        await names.rmdir(str(self))

    # -- names and metadata ----------------------------------------------------------------------

    @bounded
    async def touch(self, mode: int = 0o666, exist_ok: bool = True, *, timeout: float | None = None) -> None:
        """Create the file, or set its times to now."""
        await current().call(pathlib.Path(self).touch, mode, exist_ok)

    @bounded
    async def chmod(self, mode: int, *, follow_symlinks: bool = True, timeout: float | None = None) -> None:
        """Change the permissions."""
        await attributes.chmod(str(self), mode, follow_symlinks=follow_symlinks)

    @bounded
    async def lchmod(self, mode: int, *, timeout: float | None = None) -> None:
        """Change the permissions of a symbolic link itself. On Linux this raises an exception for a link."""
        await attributes.chmod(str(self), mode, follow_symlinks=False)

    @bounded
    async def unlink(self, missing_ok: bool = False, *, timeout: float | None = None) -> None:
        """Remove the file. With `missing_ok`, a missing file is not an error."""
        with contextlib.suppress(*([FileNotFoundError] if missing_ok else [])):
            await names.unlink(str(self))

    @bounded
    async def rename(self, target: StrPath, *, timeout: float | None = None) -> Self:
        """Rename to `target`. Return the new path."""
        await names.rename(str(self), target)
        return self._made(target)

    @bounded
    async def replace(self, target: StrPath, *, timeout: float | None = None) -> Self:
        """Rename to `target`, replacing an existing file. Return the new path."""
        await names.replace(str(self), target)
        return self._made(target)

    @bounded
    async def symlink_to(
        self, target: StrPath, target_is_directory: bool = False, *, timeout: float | None = None
    ) -> None:
        """Create this path as a symbolic link to `target`."""
        await names.symlink(target, str(self), target_is_directory)

    @bounded
    async def hardlink_to(self, target: StrPath, *, timeout: float | None = None) -> None:
        """Create this path as a hard link to the file `target`."""
        await names.link(target, str(self))

    if sys.version_info < (3, 12):

        @bounded
        async def link_to(self, target: StrPath, *, timeout: float | None = None) -> None:
            """Create `target` as a hard link to this file. pathlib has this method up to Python 3.11."""
            await names.link(str(self), target)

    # -- copies and moves (pathlib has them from Python 3.14 on) -----------------------------------

    @bounded
    async def copy(
        self,
        target: StrPath,
        *,
        follow_symlinks: bool = True,
        preserve_metadata: bool = False,
        timeout: float | None = None,
    ) -> Self:
        """Copy the file or the tree to `target`. Return the new path.

        Raises:
            OSError: with `filename`; EINVAL if the target is the source or is inside it.
        """
        path = self._made(target)
        await run_copy(copy_path, self, path, follow_symlinks, preserve_metadata)
        return path

    @bounded
    async def copy_into(
        self,
        target_dir: StrPath,
        *,
        follow_symlinks: bool = True,
        preserve_metadata: bool = False,
        timeout: float | None = None,
    ) -> Self:
        """Copy the file or the tree into an existing directory. Return the new path."""
        return await self.copy(
            self._inside(target_dir), follow_symlinks=follow_symlinks, preserve_metadata=preserve_metadata
        )

    @bounded
    async def move(self, target: StrPath, *, timeout: float | None = None) -> Self:
        """Move the file or the tree to `target`, also across filesystems. Return the new path."""
        path = self._made(target)
        await run_copy(move_path, self, path)
        return path

    @bounded
    async def move_into(self, target_dir: StrPath, *, timeout: float | None = None) -> Self:
        """Move the file or the tree into an existing directory. Return the new path."""
        return await self.move(self._inside(target_dir))

    def _inside(self, folder: StrPath) -> Self:
        if not self.name:
            raise ValueError(f"{self!r} has an empty name")
        return self._made(folder, self.name)


def _links(follow_symlinks: bool) -> dict[str, bool]:
    """Return the keyword only if it is not the default, because older versions of pathlib do not have it."""
    return {} if follow_symlinks else {"follow_symlinks": False}


def _glob_options(case_sensitive: bool | None, recurse_symlinks: bool) -> dict[str, bool]:
    options = {} if case_sensitive is None else {"case_sensitive": case_sensitive}
    if recurse_symlinks:
        options["recurse_symlinks"] = True
    return options


# -- `Path.info` -----------------------------------------------------------------------------------


@final
class PathInfo:
    """The type of a file, read once and then cached; like `pathlib.types.PathInfo`, with coroutines."""

    __slots__ = ("_modes", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        # By `follow_symlinks`; None if the path does not exist or cannot be looked up.
        self._modes: dict[bool, int | None] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._path!r}>"

    async def _mode(self, follow_symlinks: bool) -> int | None:
        if follow_symlinks not in self._modes:
            status: os.stat_result | None
            try:
                status = await names.status(self._path, None, follow_symlinks)
            except (OSError, ValueError):
                status = None
            self._modes[follow_symlinks] = None if status is None else status.st_mode
        return self._modes[follow_symlinks]

    async def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if the path exists."""
        return await self._mode(follow_symlinks) is not None

    async def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if it is a directory."""
        mode = await self._mode(follow_symlinks)
        return mode is not None and modes.S_ISDIR(mode)

    async def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if it is a regular file."""
        mode = await self._mode(follow_symlinks)
        return mode is not None and modes.S_ISREG(mode)

    async def is_symlink(self) -> bool:
        """Return True if it is a symbolic link."""
        mode = await self._mode(False)
        return mode is not None and modes.S_ISLNK(mode)


# -- copies and moves, on the pool -----------------------------------------------------------------


def copy_path(
    job: Job, source: pathlib.PurePath, target: pathlib.PurePath, follow_symlinks: bool, preserve_metadata: bool
) -> None:
    """Copy a file, a symbolic link or a tree. Runs on the pool.

    Raises:
        OSError: with `filename`; EINVAL if the target is the source or is inside it.
        AbandonedError: the job was abandoned; what was copied before is not removed.
    """
    if source == target:
        raise _invalid("Source and target are the same path", source, target)
    if source in target.parents:
        raise _invalid("Source path is a parent of target path", source, target)
    _copy_any(job, str(source), str(target), follow_symlinks, preserve_metadata)


def _invalid(text: str, source: pathlib.PurePath, target: pathlib.PurePath) -> OSError:
    return named(OSError(errno.EINVAL, text), str(source), str(target))


def _copy_any(job: Job, source: str, target: str, follow_symlinks: bool, preserve_metadata: bool) -> None:
    job.check()
    is_link = not follow_symlinks and os.path.islink(source)
    if is_link:
        os.symlink(os.readlink(source), target)
    elif os.path.isdir(source):
        below = os.listdir(source)
        os.mkdir(target)
        for name in below:
            _copy_any(job, os.path.join(source, name), os.path.join(target, name), follow_symlinks, preserve_metadata)
    else:
        try:
            copy_content(job, source, target)
        except shutil.SameFileError:
            raise _invalid(
                "Source and target are the same file", pathlib.PurePath(source), pathlib.PurePath(target)
            ) from None
    if preserve_metadata:
        shutil.copystat(source, target, follow_symlinks=not is_link)


def _is_same(source: pathlib.PurePath, target: pathlib.PurePath) -> bool:
    try:
        return os.path.samefile(source, target)
    except OSError:
        # One of them does not exist. If that is an error, the next operation raises it.
        return False


def move_path(job: Job, source: pathlib.PurePath, target: pathlib.PurePath) -> None:
    """Rename, or copy and then remove across filesystems. Runs on the pool.

    Raises:
        OSError: with `filename`; EINVAL if both are the same file.
        AbandonedError: the job was abandoned; the source still exists.
    """
    job.check()
    if _is_same(source, target):
        raise _invalid("Source and target are the same file", source, target)
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    else:
        return
    copy_path(job, source, target, False, True)
    job.check()
    if os.path.isdir(source) and not os.path.islink(source):
        shutil.rmtree(source)
    else:
        os.unlink(source)
