"""The path functions of os that ask for or change permissions, owners, times, lengths and extended attributes.

They have the arguments of os, plus `timeout` in seconds or None, and the errors of `names`. Most are one call on the
thread pool.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from oneloop.files.engine import bounded, current, named, opened, undisturbed

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from oneloop.files.engine import AnyPath, FdOrPath

__all__ = [
    "access",
    "chmod",
    "chown",
    "fallocate",
    "getxattr",
    "lchown",
    "listxattr",
    "removexattr",
    "setxattr",
    "statvfs",
    "truncate",
    "utime",
]


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
    """Like `os.access`: return True if the access `mode` (`os.F_OK`, or a mask of R_OK, W_OK, X_OK) is permitted."""
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
    """Like `os.chmod`: change the permissions."""
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
    """Like `os.chown`: change owner and group; -1 leaves one unchanged."""
    await current().call(os.chown, path, uid, gid, dir_fd=dir_fd, follow_symlinks=follow_symlinks)


@bounded
async def lchown(path: AnyPath, uid: int, gid: int, *, timeout: float | None = None) -> None:
    """Like `os.lchown`: change owner and group, of a symbolic link itself."""
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
    """Like `os.utime`: set the times of the last access and change; without `times` and `ns`, to now."""
    if ns is None:
        await current().call(os.utime, path, times, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    elif times is None:
        await current().call(os.utime, path, ns=ns, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    else:
        raise ValueError("utime: you may specify either 'times' or 'ns' but not both")


@bounded
async def statvfs(path: FdOrPath, *, timeout: float | None = None) -> os.statvfs_result:
    """Like `os.statvfs`: return the status of the filesystem of a file."""
    return await current().call(os.statvfs, path)


@bounded
async def truncate(path: FdOrPath, length: int, *, timeout: float | None = None) -> None:
    """Like `os.truncate`: cut a file to `length` bytes, or extend it with zeros."""
    await current().call(os.truncate, path, length)


@bounded
async def fallocate(path: FdOrPath, offset: int, length: int, *, mode: int = 0, timeout: float | None = None) -> None:
    """Reserve disk blocks for `length` bytes from `offset` on, so that writing there cannot fail with ENOSPC.

    Args:
        path: an existing file, or a descriptor open for writing.
        offset: in bytes.
        length: in bytes.
        mode: flags of fallocate(2); 0: the file is extended to at least `offset + length` bytes.
        timeout: in seconds, or None.

    Raises:
        OSError: ENOSPC; EOPNOTSUPP if the filesystem does not support it (it is not emulated).
        TimeoutError: the timeout has expired.
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
            # Nothing was written through this descriptor, so closing it does not flush. But if this task was
            # cancelled, the kernel might still use it.
            closing = files.close(fd, True)
            if closing is not None:
                await undisturbed(closing)


@bounded
async def getxattr(
    path: FdOrPath,
    attribute: AnyPath,
    *,
    follow_symlinks: bool = True,
    timeout: float | None = None,
) -> bytes:
    """Like `os.getxattr`: return the value of an extended attribute."""
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
    """Like `os.setxattr`: set an extended attribute."""
    await current().call(os.setxattr, path, attribute, value, flags, follow_symlinks=follow_symlinks)


@bounded
async def removexattr(
    path: FdOrPath,
    attribute: AnyPath,
    *,
    follow_symlinks: bool = True,
    timeout: float | None = None,
) -> None:
    """Like `os.removexattr`: remove an extended attribute."""
    await current().call(os.removexattr, path, attribute, follow_symlinks=follow_symlinks)


@bounded
async def listxattr(
    path: FdOrPath | None = None, *, follow_symlinks: bool = True, timeout: float | None = None
) -> list[str]:
    """Like `os.listxattr`: return the names of the extended attributes."""
    return await current().call(os.listxattr, path, follow_symlinks=follow_symlinks)
