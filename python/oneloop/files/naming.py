"""Names of files: making, changing and removing them, as os does it and with its arguments."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from oneloop.files.deadline import bounded
from oneloop.files.engine import current
from oneloop.files.kernel_path import at, encoded, named

if TYPE_CHECKING:
    from oneloop.files.kernel_path import AnyPath

__all__ = [
    "link",
    "makedirs",
    "mkdir",
    "remove",
    "removedirs",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "symlink",
    "unlink",
]

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
