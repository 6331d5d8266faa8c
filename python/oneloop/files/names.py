"""What is done with paths: names made, changed and removed; status, permissions, times, extended attributes.

As os does it and with its arguments. `stat` and what stands on it looks the file up without a thread (an O_PATH
descriptor, at once if the kernel has the path cached, then `fstat`). What has no such way is one trip to the pool.
"""

from __future__ import annotations

import errno
import os
import stat as modes
import sys
from typing import TYPE_CHECKING

from oneloop._native import learn_filesystem
from oneloop.files.engine import at, bounded, current, encoded, named, opened, undisturbed

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from oneloop.files.engine import AnyPath, FdOrPath

__all__ = [
    "access",
    "chmod",
    "chown",
    "exists",
    "fallocate",
    "getatime",
    "getctime",
    "getmtime",
    "getsize",
    "getxattr",
    "isdir",
    "isfile",
    "islink",
    "ismount",
    "lchown",
    "lexists",
    "link",
    "listxattr",
    "lstat",
    "makedirs",
    "mkdir",
    "readlink",
    "realpath",
    "remove",
    "removedirs",
    "removexattr",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "samefile",
    "setxattr",
    "stat",
    "statvfs",
    "symlink",
    "truncate",
    "unlink",
    "utime",
]

# -- names -----------------------------------------------------------------------------------------

# Before 3.14 os.link() followed symbolic links only when it was given a directory's descriptor.
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
    """`os.rename`: a file at `dst` is replaced.

    Args:
        src: str, bytes or PathLike.
        dst: the same, on the same filesystem.
        src_dir_fd: the directory that a relative `src` starts from.
        dst_dir_fd: the directory that a relative `dst` starts from.
        timeout: seconds, or None. A rename that has begun may still happen.

    Raises:
        OSError: with `filename` and `filename2`; EXDEV across filesystems (see `move`).
        TimeoutError: the time is up.
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
    """`os.replace`: on Linux the same as `rename`."""
    await _rename("replace", src, dst, src_dir_fd, dst_dir_fd)


@bounded
async def renames(old: AnyPath, new: AnyPath, *, timeout: float | None = None) -> None:
    """`os.renames`: makes the folders of `new`, then removes those of `old` that became empty."""
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
    """`os.unlink`: removes a file's name.

    Raises:
        OSError: with `filename`; EISDIR for a directory (see `rmdir`, `rmtree`).
        TimeoutError: the time is up.
    """
    await _unlink("unlink", path, dir_fd, is_dir=False)


@bounded
async def remove(path: AnyPath, *, dir_fd: int | None = None, timeout: float | None = None) -> None:
    """`os.remove`: the same as `unlink`."""
    await _unlink("remove", path, dir_fd, is_dir=False)


@bounded
async def rmdir(path: AnyPath, *, dir_fd: int | None = None, timeout: float | None = None) -> None:
    """`os.rmdir`.

    Raises:
        OSError: with `filename`; ENOTEMPTY, ENOTDIR.
        TimeoutError: the time is up.
    """
    await _unlink("rmdir", path, dir_fd, is_dir=True)


@bounded
async def removedirs(name: AnyPath, *, timeout: float | None = None) -> None:
    """`os.removedirs`: removes a folder, then those above it that became empty."""
    await current().call(os.removedirs, name)


@bounded
async def mkdir(path: AnyPath, mode: int = 0o777, *, dir_fd: int | None = None, timeout: float | None = None) -> None:
    """`os.mkdir`.

    Raises:
        OSError: with `filename`; EEXIST, ENOENT when a folder above is missing (see `makedirs`).
        TimeoutError: the time is up.
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
    """`os.makedirs`: makes a folder and those above it that are missing, in one trip.

    Args:
        name: str, bytes or PathLike.
        mode: permissions of the folder itself, before the umask.
        exist_ok: a folder that is there already is no error.
        timeout: seconds, or None; what was made by then stays.
        keywords: `parent_mode`, where `os.makedirs` has it (Python 3.15).
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
    """`os.link`: a second name, `dst`, for the file `src`.

    Whether a `src` that is a symbolic link is followed depends on the Python version, as in os:
    before 3.14 only with `src_dir_fd` or `dst_dir_fd`.

    Raises:
        OSError: with `filename` and `filename2`.
        TimeoutError: the time is up.
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
    """`os.symlink`: a symbolic link `dst` that says `src`.

    Args:
        src: what the link says; it need not exist.
        dst: the link's own path.
        target_is_directory: means nothing on Linux, as in os.
        dir_fd: the directory that a relative `dst` starts from.
        timeout: seconds, or None.

    Raises:
        OSError: with `filename` and `filename2`.
        TimeoutError: the time is up.
    """
    target, name = encoded(src, "symlink", "src"), encoded(dst, "symlink", "dst")
    try:
        linking = current().symlink(target, name, at(dir_fd))
        if linking is not None:
            await linking
    except OSError as error:
        named(error, src, dst)
        raise


# -- what the kernel knows about a file ------------------------------------------------------------

# os.stat needs no descriptor, so it must not fail for want of one.
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


async def status(path: FdOrPath, dir_fd: int | None, follow_symlinks: bool) -> os.stat_result:
    """`stat` without its timeout."""
    if isinstance(path, int):
        # No path to look up; os refuses the other arguments where they make no sense.
        return os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    files = current()
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
    """`os.stat`, on a thread; the next time it may be known how to do without one."""
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


@bounded
async def stat(
    path: FdOrPath,
    *,
    dir_fd: int | None = None,
    follow_symlinks: bool = True,
    timeout: float | None = None,
) -> os.stat_result:
    """`os.stat`.

    Args:
        path: str, bytes, PathLike, or an open descriptor.
        dir_fd: the directory that a relative path starts from.
        follow_symlinks: False asks of a symbolic link itself.
        timeout: seconds, or None.

    Raises:
        OSError: with `filename`.
        TimeoutError: the time is up.
    """
    if not isinstance(path, int):
        files = current()
        name = encoded(path, "stat")
        if files.is_spent():
            await files.later()
        try:
            found = files.stat(name, follow_symlinks, at(dir_fd))
        except OSError as error:
            named(error, path)
            raise
        if found is not None:
            return found
    return await status(path, dir_fd, follow_symlinks)


@bounded
async def lstat(path: AnyPath, *, dir_fd: int | None = None, timeout: float | None = None) -> os.stat_result:
    """`os.lstat`: the status of a symbolic link itself."""
    return await status(path, dir_fd, False)


async def _mode(path: FdOrPath, *, follow_symlinks: bool = True) -> int | None:
    """The type and permissions, None if there is no such file: as os.path's questions take it."""
    try:
        return (await status(path, None, follow_symlinks)).st_mode
    except (OSError, ValueError):
        return None


@bounded
async def exists(path: FdOrPath, *, timeout: float | None = None) -> bool:
    """`os.path.exists`: False also for broken symbolic links and for what cannot be looked up."""
    return await _mode(path) is not None


@bounded
async def lexists(path: AnyPath, *, timeout: float | None = None) -> bool:
    """`os.path.lexists`: True also for broken symbolic links."""
    return await _mode(path, follow_symlinks=False) is not None


@bounded
async def isfile(path: FdOrPath, *, timeout: float | None = None) -> bool:
    """`os.path.isfile`."""
    mode = await _mode(path)
    return mode is not None and modes.S_ISREG(mode)


@bounded
async def isdir(path: FdOrPath, *, timeout: float | None = None) -> bool:
    """`os.path.isdir`."""
    mode = await _mode(path)
    return mode is not None and modes.S_ISDIR(mode)


@bounded
async def islink(path: AnyPath, *, timeout: float | None = None) -> bool:
    """`os.path.islink`."""
    mode = await _mode(path, follow_symlinks=False)
    return mode is not None and modes.S_ISLNK(mode)


@bounded
async def ismount(path: FdOrPath, *, timeout: float | None = None) -> bool:
    """`os.path.ismount`."""
    return await current().call(os.path.ismount, path)


@bounded
async def getsize(path: FdOrPath, *, timeout: float | None = None) -> int:
    """`os.path.getsize`, in bytes."""
    return (await status(path, None, True)).st_size


@bounded
async def getatime(path: FdOrPath, *, timeout: float | None = None) -> float:
    """`os.path.getatime`: the last access, in seconds since the epoch."""
    return (await status(path, None, True)).st_atime


@bounded
async def getmtime(path: FdOrPath, *, timeout: float | None = None) -> float:
    """`os.path.getmtime`: the last change of the content, in seconds since the epoch."""
    return (await status(path, None, True)).st_mtime


@bounded
async def getctime(path: FdOrPath, *, timeout: float | None = None) -> float:
    """`os.path.getctime`: the last change of the status, in seconds since the epoch."""
    return (await status(path, None, True)).st_ctime


@bounded
async def samefile(path1: FdOrPath, path2: FdOrPath, *, timeout: float | None = None) -> bool:
    """`os.path.samefile`: whether two paths lead to one file."""
    return os.path.samestat(await status(path1, None, True), await status(path2, None, True))


@bounded
async def access(
    path: FdOrPath,
    mode: int,
    *,
    dir_fd: int | None = None,
    effective_ids: bool = False,
    follow_symlinks: bool = True,
    timeout: float | None = None,
) -> bool:
    """`os.access`: whether `os.F_OK`, or `R_OK | W_OK | X_OK`, holds."""
    return await current().call(
        os.access, path, mode, dir_fd=dir_fd, effective_ids=effective_ids, follow_symlinks=follow_symlinks
    )


@bounded
async def chmod(
    path: FdOrPath,
    mode: int,
    *,
    dir_fd: int | None = None,
    follow_symlinks: bool = True,
    timeout: float | None = None,
) -> None:
    """`os.chmod`."""
    await current().call(os.chmod, path, mode, dir_fd=dir_fd, follow_symlinks=follow_symlinks)


@bounded
async def chown(
    path: FdOrPath,
    uid: int,
    gid: int,
    *,
    dir_fd: int | None = None,
    follow_symlinks: bool = True,
    timeout: float | None = None,
) -> None:
    """`os.chown`; -1 leaves the user or the group as it is."""
    await current().call(os.chown, path, uid, gid, dir_fd=dir_fd, follow_symlinks=follow_symlinks)


@bounded
async def lchown(path: AnyPath, uid: int, gid: int, *, timeout: float | None = None) -> None:
    """`os.lchown`: of a symbolic link itself."""
    await current().call(os.lchown, path, uid, gid)


@bounded
async def utime(
    path: FdOrPath,
    times: tuple[float, float] | None = None,
    *,
    ns: tuple[int, int] | None = None,
    dir_fd: int | None = None,
    follow_symlinks: bool = True,
    timeout: float | None = None,
) -> None:
    """`os.utime`: sets the times of the last access and change, to now if none are given."""
    if ns is None:
        await current().call(os.utime, path, times, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    elif times is None:
        await current().call(os.utime, path, ns=ns, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    else:
        raise ValueError("utime: you may specify either 'times' or 'ns' but not both")


@bounded
async def statvfs(path: FdOrPath, *, timeout: float | None = None) -> os.statvfs_result:
    """`os.statvfs`: the filesystem that a file is on."""
    return await current().call(os.statvfs, path)


@bounded
async def truncate(path: FdOrPath, length: int, *, timeout: float | None = None) -> None:
    """`os.truncate`: cut a file, or extend it by zeros, to `length` bytes."""
    await current().call(os.truncate, path, length)


@bounded
async def fallocate(path: FdOrPath, offset: int, length: int, *, mode: int = 0, timeout: float | None = None) -> None:
    """Reserve the blocks of `length` bytes from `offset` on, so that writing there cannot fill the disk.

    Args:
        path: a file that exists, or a descriptor open for writing.
        offset: in bytes.
        length: in bytes.
        mode: flags of fallocate(2); 0 also makes the file at least that long.
        timeout: seconds, or None.

    Raises:
        OSError: ENOSPC; EOPNOTSUPP where the filesystem cannot do it (nothing is emulated).
    """
    files = current()
    fd = path if isinstance(path, int) else await opened(files, path, os.O_WRONLY)
    try:
        waiting = files.fallocate(fd, mode, offset, length)
        if waiting is not None:
            await waiting
    except OSError as error:
        if not isinstance(path, int):
            named(error, path)
        raise
    finally:
        if not isinstance(path, int):
            # Nothing was written through it that a close could have to flush; but if this was cancelled, the
            # kernel may not be done with it.
            closing = files.close(fd, True)
            if closing is not None:
                await undisturbed(closing)


@bounded
async def readlink(path: AnyPath, *, dir_fd: int | None = None, timeout: float | None = None) -> str | bytes:
    """`os.readlink`: bytes for a path in bytes, else str."""
    target: str | bytes = await current().call(os.readlink, path, dir_fd=dir_fd)
    return target


@bounded
async def realpath(filename: AnyPath, *, strict: bool = False, timeout: float | None = None) -> str | bytes:
    """`os.path.realpath`: the path without symbolic links; bytes for a path in bytes, else str."""
    path: str | bytes = await current().call(os.path.realpath, filename, strict=strict)
    return path


@bounded
async def getxattr(
    path: FdOrPath,
    attribute: AnyPath,
    *,
    follow_symlinks: bool = True,
    timeout: float | None = None,
) -> bytes:
    """`os.getxattr`."""
    return await current().call(os.getxattr, path, attribute, follow_symlinks=follow_symlinks)


@bounded
async def setxattr(
    path: FdOrPath,
    attribute: AnyPath,
    value: ReadableBuffer,
    flags: int = 0,
    *,
    follow_symlinks: bool = True,
    timeout: float | None = None,
) -> None:
    """`os.setxattr`."""
    await current().call(os.setxattr, path, attribute, value, flags, follow_symlinks=follow_symlinks)


@bounded
async def removexattr(
    path: FdOrPath,
    attribute: AnyPath,
    *,
    follow_symlinks: bool = True,
    timeout: float | None = None,
) -> None:
    """`os.removexattr`."""
    await current().call(os.removexattr, path, attribute, follow_symlinks=follow_symlinks)


@bounded
async def listxattr(
    path: FdOrPath | None = None, *, follow_symlinks: bool = True, timeout: float | None = None
) -> list[str]:
    """`os.listxattr`."""
    return await current().call(os.listxattr, path, follow_symlinks=follow_symlinks)
