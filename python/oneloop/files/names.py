"""The path functions of os and os.path: create, rename and remove names; status.

They have the arguments of os, plus `timeout` in seconds or None. They raise OSError with `filename` as in os,
TimeoutError if the timeout has expired, and RuntimeError if no oneloop loop is running. `stat` and the functions based
on it open an O_PATH descriptor, without a thread if the kernel has the path cached, and call `fstat`. Functions for
which this is not possible are one call on the thread pool. `attributes` has what changes the status.
"""

from __future__ import annotations

import errno
import os
import stat as modes
import sys
from typing import TYPE_CHECKING

from oneloop._native import learn_filesystem
from oneloop.files.engine import AT_FDCWD, at, bounded, check_timeout, current, encoded, named, within

if TYPE_CHECKING:
    from oneloop.files.engine import AnyPath, FdOrPath

__all__ = [
    "exists",
    "getatime",
    "getctime",
    "getmtime",
    "getsize",
    "isdir",
    "isfile",
    "islink",
    "ismount",
    "lexists",
    "link",
    "lstat",
    "makedirs",
    "mkdir",
    "readlink",
    "realpath",
    "remove",
    "removedirs",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "samefile",
    "stat",
    "symlink",
    "unlink",
]

# -- names -----------------------------------------------------------------------------------------

# Before Python 3.14, os.link() follows symbolic links only if it is passed a directory's descriptor.
_LINK_FOLLOWS = sys.version_info >= (3, 14)


async def _rename(function: str, src: AnyPath, dst: AnyPath, src_dir_fd: int | None, dst_dir_fd: int | None) -> None:
    old, new = encoded(src, function, "src"), encoded(dst, function, "dst")
    try:
        renaming = current().rename(old, new, at(src_dir_fd), at(dst_dir_fd), 0)
        if renaming is not None:
            await renaming
    except OSError as error:
        named(error, src, dst)
        raise


@bounded
async def rename(
    src: AnyPath,
    dst: AnyPath,
    *,
    src_dir_fd: int | None = None,
    dst_dir_fd: int | None = None,
    timeout: float | None = None,
) -> None:
    """Like `os.rename`: rename `src` to `dst`. A file at `dst` is replaced.

    Args:
        src: str, bytes or PathLike.
        dst: the new path, on the same filesystem.
        src_dir_fd: the directory that a relative `src` starts from.
        dst_dir_fd: the directory that a relative `dst` starts from.
        timeout: in seconds, or None. If it expires, the rename may still take place.

    Raises:
        OSError: with `filename` and `filename2`; EXDEV across filesystems (see `move`).
        TimeoutError: the timeout has expired.
    """
    await _rename("rename", src, dst, src_dir_fd, dst_dir_fd)


@bounded
async def replace(
    src: AnyPath,
    dst: AnyPath,
    *,
    src_dir_fd: int | None = None,
    dst_dir_fd: int | None = None,
    timeout: float | None = None,
) -> None:
    """Like `os.replace`; on Linux the same as `rename`."""
    await _rename("replace", src, dst, src_dir_fd, dst_dir_fd)


@bounded
async def renames(old: AnyPath, new: AnyPath, *, timeout: float | None = None) -> None:
    """Like `os.renames`: create the parents of `new`, rename, then remove the parents of `old` that became empty."""
    await current().call(os.renames, old, new)


async def _unlink(function: str, path: AnyPath, dir_fd: int | None, *, is_dir: bool) -> None:
    name = encoded(path, function)
    try:
        removing = current().unlink(name, is_dir, at(dir_fd))
        if removing is not None:
            await removing
    except OSError as error:
        named(error, path)
        raise


@bounded
async def unlink(path: AnyPath, *, dir_fd: int | None = None, timeout: float | None = None) -> None:
    """Like `os.unlink`: remove a file.

    Raises:
        OSError: with `filename`; EISDIR for a directory (see `rmdir`, `rmtree`).
        TimeoutError: the timeout has expired.
    """
    await _unlink("unlink", path, dir_fd, is_dir=False)


@bounded
async def remove(path: AnyPath, *, dir_fd: int | None = None, timeout: float | None = None) -> None:
    """Like `os.remove`: the same as `unlink`."""
    await _unlink("remove", path, dir_fd, is_dir=False)


@bounded
async def rmdir(path: AnyPath, *, dir_fd: int | None = None, timeout: float | None = None) -> None:
    """Like `os.rmdir`: remove an empty directory.

    Raises:
        OSError: with `filename`; ENOTEMPTY, ENOTDIR.
        TimeoutError: the timeout has expired.
    """
    await _unlink("rmdir", path, dir_fd, is_dir=True)


@bounded
async def removedirs(name: AnyPath, *, timeout: float | None = None) -> None:
    """Like `os.removedirs`: remove a directory, then the parents that became empty."""
    await current().call(os.removedirs, name)


@bounded
async def mkdir(path: AnyPath, mode: int = 0o777, *, dir_fd: int | None = None, timeout: float | None = None) -> None:
    """Like `os.mkdir`: create a directory.

    Raises:
        OSError: with `filename`; EEXIST; ENOENT if a parent directory is missing (see `makedirs`).
        TimeoutError: the timeout has expired.
    """
    name = encoded(path, "mkdir")
    try:
        making = current().mkdir(name, mode, at(dir_fd))
        if making is not None:
            await making
    except OSError as error:
        named(error, path)
        raise


@bounded
async def makedirs(
    name: AnyPath, mode: int = 0o777, exist_ok: bool = False, *, timeout: float | None = None, **keywords: int | None
) -> None:
    """Like `os.makedirs`: create a directory and its missing parents, in one call on the pool.

    Args:
        name: str, bytes or PathLike.
        mode: permissions of the directory itself, before the umask.
        exist_ok: True: an existing directory is not an error.
        timeout: in seconds, or None. If it expires, directories that were created are not removed.
        keywords: `parent_mode`, from Python 3.15 on.
    """
    await current().call(os.makedirs, name, mode, exist_ok, **keywords)


@bounded
async def link(
    src: AnyPath,
    dst: AnyPath,
    *,
    src_dir_fd: int | None = None,
    dst_dir_fd: int | None = None,
    follow_symlinks: bool = True,
    timeout: float | None = None,
) -> None:
    """Like `os.link`: create a hard link `dst` to the file `src`.

    If `src` is a symbolic link, following it depends on the Python version, as in os: before 3.14 it is
    followed only with `src_dir_fd` or `dst_dir_fd`.

    Raises:
        OSError: with `filename` and `filename2`.
        TimeoutError: the timeout has expired.
    """
    old, new = encoded(src, "link", "src"), encoded(dst, "link", "dst")
    follow = follow_symlinks and (_LINK_FOLLOWS or src_dir_fd is not None or dst_dir_fd is not None)
    try:
        linking = current().link(old, new, at(src_dir_fd), at(dst_dir_fd), follow)
        if linking is not None:
            await linking
    except OSError as error:
        named(error, src, dst)
        raise


@bounded
async def symlink(
    src: AnyPath,
    dst: AnyPath,
    target_is_directory: bool = False,
    *,
    dir_fd: int | None = None,
    timeout: float | None = None,
) -> None:
    """Like `os.symlink`: create a symbolic link `dst` with the target `src`.

    Args:
        src: the link's target; it need not exist.
        dst: the path of the link.
        target_is_directory: ignored on Linux, as in os.
        dir_fd: the directory that a relative `dst` starts from.
        timeout: in seconds, or None.

    Raises:
        OSError: with `filename` and `filename2`.
        TimeoutError: the timeout has expired.
    """
    target, name = encoded(src, "symlink", "src"), encoded(dst, "symlink", "dst")
    try:
        linking = current().symlink(target, name, at(dir_fd))
        if linking is not None:
            await linking
    except OSError as error:
        named(error, src, dst)
        raise


# -- status ----------------------------------------------------------------------------------------

# stat(2) needs no descriptor, so on these errors use it instead of failing.
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


async def status(path: FdOrPath, dir_fd: int | None, follow_symlinks: bool) -> os.stat_result:
    """Like `stat`, without `timeout`."""
    files = current()
    if isinstance(path, int):
        # There is no path to look up. os raises an error if the other arguments are not allowed.
        if files.is_local(path):
            return os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        return await files.call(os.stat, path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    name = encoded(path, "stat")
    if files.is_spent():
        await files.later()
    try:
        found = files.stat(name, follow_symlinks, at(dir_fd))
    except OSError as error:
        named(error, path)
        raise
    return await files.call(_asked, path, dir_fd, follow_symlinks) if found is None else found


def _asked(path: AnyPath, dir_fd: int | None, follow_symlinks: bool) -> os.stat_result:
    """`os.stat` on a thread. It records the filesystem, so the next call may not need a thread."""
    flags = os.O_PATH | os.O_CLOEXEC | (0 if follow_symlinks else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in _NO_DESCRIPTORS:
            return os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        raise
    try:
        learn_filesystem(fd)
        return os.fstat(fd)
    except OSError as error:
        raise named(error, path) from None
    finally:
        os.close(fd)


async def stat(
    path: FdOrPath,
    *,
    dir_fd: int | None = None,
    follow_symlinks: bool = True,
    timeout: float | None = None,
) -> os.stat_result:
    """Like `os.stat`: return the status of a file.

    Args:
        path: str, bytes, PathLike, or an open descriptor.
        dir_fd: the directory that a relative path starts from.
        follow_symlinks: False: return the status of a symbolic link itself.
        timeout: in seconds, or None.

    Raises:
        OSError: with `filename`.
        TimeoutError: the timeout has expired.
        TypeError: `timeout` is not a number.
    """
    if timeout is not None:
        check_timeout(timeout)
        return await within(timeout, stat, path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    if not isinstance(path, int):
        files = current()
        name = encoded(path, "stat")
        if files.is_spent():
            await files.later()
        try:
            found = files.stat(name, follow_symlinks, AT_FDCWD if dir_fd is None else dir_fd)
        except OSError as error:
            named(error, path)
            raise
        if found is not None:
            return found
    return await status(path, dir_fd, follow_symlinks)


@bounded
async def lstat(path: AnyPath, *, dir_fd: int | None = None, timeout: float | None = None) -> os.stat_result:
    """Like `os.lstat`: return the status of a file, or of a symbolic link itself."""
    return await status(path, dir_fd, False)


async def _mode(path: FdOrPath, *, follow_symlinks: bool = True) -> int | None:
    """Return the mode; None on any error, as `os.path.exists` etc. treat it."""
    try:
        return (await status(path, None, follow_symlinks)).st_mode
    except (OSError, ValueError):
        return None


@bounded
async def exists(path: FdOrPath, *, timeout: float | None = None) -> bool:
    """Like `os.path.exists`: also False for broken symbolic links and for paths that cannot be looked up."""
    return await _mode(path) is not None


@bounded
async def lexists(path: AnyPath, *, timeout: float | None = None) -> bool:
    """Like `os.path.lexists`: also True for broken symbolic links."""
    return await _mode(path, follow_symlinks=False) is not None


@bounded
async def isfile(path: FdOrPath, *, timeout: float | None = None) -> bool:
    """Like `os.path.isfile`: return True for a regular file, or a symbolic link to one."""
    mode = await _mode(path)
    return mode is not None and modes.S_ISREG(mode)


@bounded
async def isdir(path: FdOrPath, *, timeout: float | None = None) -> bool:
    """Like `os.path.isdir`: return True for a directory, or a symbolic link to one."""
    mode = await _mode(path)
    return mode is not None and modes.S_ISDIR(mode)


@bounded
async def islink(path: AnyPath, *, timeout: float | None = None) -> bool:
    """Like `os.path.islink`: return True for a symbolic link."""
    mode = await _mode(path, follow_symlinks=False)
    return mode is not None and modes.S_ISLNK(mode)


@bounded
async def ismount(path: FdOrPath, *, timeout: float | None = None) -> bool:
    """Like `os.path.ismount`: return True for a mount point."""
    return await current().call(os.path.ismount, path)


@bounded
async def getsize(path: FdOrPath, *, timeout: float | None = None) -> int:
    """Like `os.path.getsize`: return the size in bytes."""
    return (await status(path, None, True)).st_size


@bounded
async def getatime(path: FdOrPath, *, timeout: float | None = None) -> float:
    """Like `os.path.getatime`: return the time of the last access, in seconds since the epoch."""
    return (await status(path, None, True)).st_atime


@bounded
async def getmtime(path: FdOrPath, *, timeout: float | None = None) -> float:
    """Like `os.path.getmtime`: return the time of the last change of the content, in seconds since the epoch."""
    return (await status(path, None, True)).st_mtime


@bounded
async def getctime(path: FdOrPath, *, timeout: float | None = None) -> float:
    """Like `os.path.getctime`: return the time of the last change of the status, in seconds since the epoch."""
    return (await status(path, None, True)).st_ctime


@bounded
async def samefile(path1: FdOrPath, path2: FdOrPath, *, timeout: float | None = None) -> bool:
    """Like `os.path.samefile`: return True if two paths refer to the same file."""
    return os.path.samestat(await status(path1, None, True), await status(path2, None, True))


@bounded
async def readlink(path: AnyPath, *, dir_fd: int | None = None, timeout: float | None = None) -> str | bytes:
    """Like `os.readlink`: return a symbolic link's target; bytes if the path is bytes, else str."""
    target: str | bytes = await current().call(os.readlink, path, dir_fd=dir_fd)
    return target


@bounded
async def realpath(filename: AnyPath, *, strict: bool = False, timeout: float | None = None) -> str | bytes:
    """Like `os.path.realpath`: return the path with symbolic links resolved; bytes if it is bytes, else str."""
    path: str | bytes = await current().call(os.path.realpath, filename, strict=strict)
    return path
