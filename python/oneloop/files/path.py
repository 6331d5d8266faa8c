"""`Path`: pathlib's paths, whose I/O methods are coroutines.

Everything that `pathlib.PurePath` has is inherited as it is. Every method that `pathlib.Path` adds
is here, with its arguments, and with `timeout` beside them. What newer Pythons have added is here on
older ones too, where it needs nothing of them.
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
from typing import TYPE_CHECKING, Any, final

from oneloop.files import names, trees, whole
from oneloop.files.copying import copy_content
from oneloop.files.engine import bounded, current, named, run_job
from oneloop.files.opening import open as open_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Self

    from _typeshed import ReadableBuffer, StrPath

    from oneloop.files.engine import Job
    from oneloop.files.opening import Opening

__all__ = ["Path", "PathInfo"]

# What the questions (`exists`, `is_dir`…) take for "no" before Python 3.14; since then it is anything.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


class Path(pathlib.PurePosixPath):
    """A path whose methods that ask the kernel are coroutines, and iterators async iterators.

    Pure operations (`/`, `name`, `with_suffix`…) are pathlib's and give a `Path` again. Equal to a
    pathlib path with the same parts; `pathlib.Path(path)` converts. May be subclassed, as pathlib's
    paths may. Methods take `timeout`, in seconds, and raise what pathlib's raise, or TimeoutError.
    """

    __slots__ = ()

    def _made(self, *segments: StrPath) -> Self:
        """A path of this kind; subclasses say how in `with_segments` (Python 3.12)."""
        if sys.version_info < (3, 12):
            return type(self)(*segments)
        return self.with_segments(*segments)

    # -- where it is -----------------------------------------------------------------------------

    @classmethod
    async def cwd(cls) -> Self:
        """The current directory."""
        return cls(pathlib.Path.cwd())

    @classmethod
    @bounded
    async def home(cls, *, timeout: float | None = None) -> Self:
        """The user's home directory."""
        return cls(await current().call(pathlib.Path.home))

    if hasattr(pathlib.Path, "from_uri"):

        @classmethod
        def from_uri(cls, uri: str) -> Self:
            """The path that a `file:` URI means (Python 3.13). Not a coroutine: nothing is asked."""
            return cls(pathlib.Path.from_uri(uri))

    async def absolute(self) -> Self:
        """An absolute path, without following symbolic links."""
        return self._made(pathlib.Path(self).absolute())

    @bounded
    async def resolve(self, strict: bool = False, *, timeout: float | None = None) -> Self:
        """The absolute path without symbolic links; with `strict` it must exist."""
        return self._made(await current().call(pathlib.Path(self).resolve, strict))

    @bounded
    async def expanduser(self, *, timeout: float | None = None) -> Self:
        """With `~` and `~user` replaced."""
        return self._made(await current().call(pathlib.Path(self).expanduser))

    @bounded
    async def readlink(self, *, timeout: float | None = None) -> Self:
        """Where the symbolic link leads."""
        return self._made(await current().call(os.readlink, str(self)))

    # -- what it is ------------------------------------------------------------------------------

    @bounded
    async def stat(self, *, follow_symlinks: bool = True, timeout: float | None = None) -> os.stat_result:
        """The status of the file."""
        return await names.status(str(self), None, follow_symlinks)

    @bounded
    async def lstat(self, *, timeout: float | None = None) -> os.stat_result:
        """The status of a symbolic link itself."""
        return await names.status(str(self), None, False)

    async def _mode(self, follow_symlinks: bool = True) -> int:
        """The mode of the file, 0 if there is none."""
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
        """Whether the path leads to a file."""
        return await self._mode(follow_symlinks) != 0

    @bounded
    async def is_dir(self, *, follow_symlinks: bool = True, timeout: float | None = None) -> bool:
        """Whether it is a directory."""
        return modes.S_ISDIR(await self._mode(follow_symlinks))

    @bounded
    async def is_file(self, *, follow_symlinks: bool = True, timeout: float | None = None) -> bool:
        """Whether it is a regular file."""
        return modes.S_ISREG(await self._mode(follow_symlinks))

    @bounded
    async def is_symlink(self, *, timeout: float | None = None) -> bool:
        """Whether it is a symbolic link."""
        return modes.S_ISLNK(await self._mode(False))

    @bounded
    async def is_block_device(self, *, timeout: float | None = None) -> bool:
        """Whether it is a block device."""
        return modes.S_ISBLK(await self._mode())

    @bounded
    async def is_char_device(self, *, timeout: float | None = None) -> bool:
        """Whether it is a character device."""
        return modes.S_ISCHR(await self._mode())

    @bounded
    async def is_fifo(self, *, timeout: float | None = None) -> bool:
        """Whether it is a FIFO."""
        return modes.S_ISFIFO(await self._mode())

    @bounded
    async def is_socket(self, *, timeout: float | None = None) -> bool:
        """Whether it is a Unix socket."""
        return modes.S_ISSOCK(await self._mode())

    @bounded
    async def is_mount(self, *, timeout: float | None = None) -> bool:
        """Whether a filesystem is mounted there."""
        return await current().call(pathlib.Path(self).is_mount)

    async def is_junction(self) -> bool:
        """False: Linux has none."""
        return False

    @bounded
    async def samefile(self, other_path: StrPath, *, timeout: float | None = None) -> bool:
        """Whether both paths lead to one file."""
        return await names.samefile(str(self), other_path)

    @bounded
    async def owner(self, *, follow_symlinks: bool = True, timeout: float | None = None) -> str:
        """The login name of the owner; KeyError if the user database has none."""
        return await current().call(pathlib.Path(self).owner, **_links(follow_symlinks))

    @bounded
    async def group(self, *, follow_symlinks: bool = True, timeout: float | None = None) -> str:
        """The name of the group; KeyError if the group database has none."""
        return await current().call(pathlib.Path(self).group, **_links(follow_symlinks))

    @property
    def info(self) -> PathInfo:
        """What kind of file it is, asked once and then remembered."""
        return PathInfo(str(self))

    # -- content ---------------------------------------------------------------------------------

    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        timeout: float | None = None,
    ) -> Opening[Any]:
        """Open the file: an awaitable and async context manager, as `oneloop.files.open` gives it."""
        if "b" not in mode:
            encoding = io.text_encoding(encoding)
        return open_file(str(self), mode, buffering, encoding, errors, newline, timeout=timeout)

    @bounded
    async def read_bytes(self, *, timeout: float | None = None) -> bytes:
        """The whole content."""
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
        """The whole content, decoded."""
        return await whole.read_text(self, encoding, errors, newline)

    @bounded
    async def write_bytes(self, data: ReadableBuffer, *, atomic: bool = False, timeout: float | None = None) -> int:
        """Make `data` the content; returns its length. `atomic` is explained at `write_file`."""
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
        """Make `data` the content, encoded; returns its characters. `atomic` is explained at `write_file`."""
        return await whole.write_text(self, data, encoding, errors, newline, atomic=atomic)

    # -- directories -----------------------------------------------------------------------------

    async def iterdir(self, *, timeout: float | None = None) -> AsyncIterator[Self]:
        """The paths of what is in the directory, in no order."""
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
        """The paths below this one that match a pattern, as far as the Python version knows its arguments.

        `timeout` is that of a trip to the pool for the next thousand.
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
        """`glob` with `**/` before the pattern."""
        return self._found("rglob", pattern, _glob_options(case_sensitive, recurse_symlinks), timeout)

    async def _found(
        self, method: str, pattern: Any, options: dict[str, Any], timeout_s: float | None
    ) -> AsyncIterator[Self]:
        paths = getattr(pathlib.Path(self), method)(pattern, **options)
        async for path in trees.batches(iter(paths), timeout_s):
            yield self._made(path)

    async def walk(
        self,
        top_down: bool = True,
        on_error: Callable[[OSError], object] | None = None,
        follow_symlinks: bool = False,
        *,
        timeout: float | None = None,
    ) -> AsyncIterator[tuple[Self, list[str], list[str]]]:
        """The directories of the tree, as `oneloop.files.walk`; links that are not followed are files."""
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
        """Make the directory; `parent_mode` from Python 3.15 on."""
        options = {} if parent_mode is None else {"parent_mode": parent_mode}
        await current().call(pathlib.Path(self).mkdir, mode, parents, exist_ok, **options)

    @bounded
    async def rmdir(self, *, timeout: float | None = None) -> None:
        """Remove the directory, which is empty."""
        await names.rmdir(str(self))

    # -- names and metadata ----------------------------------------------------------------------

    @bounded
    async def touch(self, mode: int = 0o666, exist_ok: bool = True, *, timeout: float | None = None) -> None:
        """Make the file, or set its times to now."""
        await current().call(pathlib.Path(self).touch, mode, exist_ok)

    @bounded
    async def chmod(self, mode: int, *, follow_symlinks: bool = True, timeout: float | None = None) -> None:
        """Change the permissions."""
        await names.chmod(str(self), mode, follow_symlinks=follow_symlinks)

    @bounded
    async def lchmod(self, mode: int, *, timeout: float | None = None) -> None:
        """Change the permissions of a symbolic link itself (which Linux does not have)."""
        await names.chmod(str(self), mode, follow_symlinks=False)

    @bounded
    async def unlink(self, missing_ok: bool = False, *, timeout: float | None = None) -> None:
        """Remove the file; `missing_ok` if there need not be one."""
        with contextlib.suppress(*([FileNotFoundError] if missing_ok else [])):
            await names.unlink(str(self))

    @bounded
    async def rename(self, target: StrPath, *, timeout: float | None = None) -> Self:
        """Rename to `target`, which it returns as a path."""
        await names.rename(str(self), target)
        return self._made(target)

    @bounded
    async def replace(self, target: StrPath, *, timeout: float | None = None) -> Self:
        """Rename to `target`, which may exist, and which it returns as a path."""
        await names.replace(str(self), target)
        return self._made(target)

    @bounded
    async def symlink_to(
        self, target: StrPath, target_is_directory: bool = False, *, timeout: float | None = None
    ) -> None:
        """Make this path a symbolic link to `target`."""
        await names.symlink(target, str(self), target_is_directory)

    @bounded
    async def hardlink_to(self, target: StrPath, *, timeout: float | None = None) -> None:
        """Make this path a second name of the file `target`."""
        await names.link(target, str(self))

    if sys.version_info < (3, 12):

        @bounded
        async def link_to(self, target: StrPath, *, timeout: float | None = None) -> None:
            """Make `target` a second name of this file; pathlib has it up to Python 3.11."""
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
        """Copy the file or the tree to `target`, which it returns as a path."""
        path = self._made(target)
        await run_job(copy_path, self, path, follow_symlinks, preserve_metadata)
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
        """Copy the file or the tree into an existing directory; returns the new path."""
        return await self.copy(
            self._inside(target_dir), follow_symlinks=follow_symlinks, preserve_metadata=preserve_metadata
        )

    @bounded
    async def move(self, target: StrPath, *, timeout: float | None = None) -> Self:
        """Move the file or the tree to `target`, also to another filesystem; returns the new path."""
        path = self._made(target)
        await run_job(move_path, self, path)
        return path

    @bounded
    async def move_into(self, target_dir: StrPath, *, timeout: float | None = None) -> Self:
        """Move the file or the tree into an existing directory; returns the new path."""
        return await self.move(self._inside(target_dir))

    def _inside(self, folder: StrPath) -> Self:
        if not self.name:
            raise ValueError(f"{self!r} has an empty name")
        return self._made(folder, self.name)


def _links(follow_symlinks: bool) -> dict[str, bool]:
    """The argument for versions of pathlib that have it, if it is not the default."""
    return {} if follow_symlinks else {"follow_symlinks": False}


def _glob_options(case_sensitive: bool | None, recurse_symlinks: bool) -> dict[str, bool]:
    options = {} if case_sensitive is None else {"case_sensitive": case_sensitive}
    if recurse_symlinks:
        options["recurse_symlinks"] = True
    return options


# -- what `Path.info` gives ------------------------------------------------------------------------


@final
class PathInfo:
    """The type of a file, asked once and then remembered; as `pathlib.types.PathInfo`, with coroutines."""

    __slots__ = ("_modes", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        # By `follow_symlinks`; None for what does not exist or cannot be looked up.
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
        """Whether the path leads to a file."""
        return await self._mode(follow_symlinks) is not None

    async def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory."""
        mode = await self._mode(follow_symlinks)
        return mode is not None and modes.S_ISDIR(mode)

    async def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file."""
        mode = await self._mode(follow_symlinks)
        return mode is not None and modes.S_ISREG(mode)

    async def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        mode = await self._mode(False)
        return mode is not None and modes.S_ISLNK(mode)


# -- copies and moves, on the pool -----------------------------------------------------------------


def copy_path(
    job: Job, source: pathlib.PurePath, target: pathlib.PurePath, follow_symlinks: bool, preserve_metadata: bool
) -> None:
    """Copy a file, a symbolic link or a tree; on the pool.

    Raises:
        OSError: with `filename`; EINVAL if the target is the source or in it.
        AbandonedError: what was copied by then stays.
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
        # One of them leads nowhere: what is done with them next says so, if it matters.
        return False


def move_path(job: Job, source: pathlib.PurePath, target: pathlib.PurePath) -> None:
    """Rename, or across filesystems copy and then remove; on the pool.

    Raises:
        OSError: with `filename`; EINVAL if both are the same file.
        AbandonedError: the source is still there.
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
