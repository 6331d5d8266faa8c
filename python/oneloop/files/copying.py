"""Copying and moving with the interface of shutil. Each call is one job on the thread pool.

The content is copied by the first of these methods that works: FICLONE shares the blocks; `copy_file_range` copies
inside the kernel, or on the server of a network filesystem; `sendfile` copies inside the kernel across filesystems;
read and write always work. If a method fails after a part of the file, the next one continues there. The content is
copied in pieces, and a cancelled copy ends between two pieces. As with shutil, a copy that fails or is cancelled leaves
a partly written file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from typing import TYPE_CHECKING, Any

from oneloop.files.engine import bounded, current, named, run_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from oneloop.files.engine import AnyPath, Job

__all__ = ["copy", "copy2", "copyfile", "copymode", "copystat", "copytree", "move", "transfer"]


@bounded
async def copyfile(
    src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True, timeout: float | None = None
) -> AnyPath:
    """Like `shutil.copyfile`: copy the content of a file, without its permissions. Return `dst`.

    Args:
        src: str, bytes or PathLike.
        dst: the file to write; not a directory.
        follow_symlinks: False: if `src` is a symbolic link, create a link instead of copying the content.
        timeout: in seconds, or None.

    Raises:
        OSError: with `filename`; `shutil.SameFileError`; `shutil.SpecialFileError` for a FIFO.
        TimeoutError: the timeout has expired.
    """
    return await run_copy(copy_content, src, dst, follow_symlinks=follow_symlinks)


@bounded
async def copy(src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True, timeout: float | None = None) -> AnyPath:
    """Like `shutil.copy`: copy content and permissions, to a file or into a directory. Return the new path.

    Arguments and errors are those of `copyfile`, but `dst` can be a directory.
    """
    return await run_copy(_copy, src, dst, follow_symlinks=follow_symlinks)


@bounded
async def copy2(src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True, timeout: float | None = None) -> AnyPath:
    """Like `shutil.copy2`: copy content, permissions, times and extended attributes. Return the new path.

    Arguments and errors are those of `copy`.
    """
    return await run_copy(_copy2, src, dst, follow_symlinks=follow_symlinks)


@bounded
async def copymode(src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True, timeout: float | None = None) -> None:
    """Like `shutil.copymode`: copy the permissions only.

    Raises:
        OSError: with `filename`.
        TimeoutError: the timeout has expired.
    """
    await current().call(shutil.copymode, src, dst, follow_symlinks=follow_symlinks)


@bounded
async def copystat(src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True, timeout: float | None = None) -> None:
    """Like `shutil.copystat`: copy permissions, times, flags and extended attributes.

    Raises:
        OSError: with `filename`.
        TimeoutError: the timeout has expired.
    """
    await current().call(shutil.copystat, src, dst, follow_symlinks=follow_symlinks)


@bounded
async def copytree(
    src: AnyPath,
    dst: AnyPath,
    symlinks: bool = False,
    ignore: Callable[[Any, list[str]], Iterable[str]] | None = None,
    copy_function: Callable[..., Any] = copy2,
    ignore_dangling_symlinks: bool = False,
    dirs_exist_ok: bool = False,
    *,
    timeout: float | None = None,
) -> AnyPath:
    """Like `shutil.copytree`: copy a directory recursively. Return `dst`.

    Args:
        src: str, bytes or PathLike.
        dst: the directory to create.
        symlinks: True: copy symbolic links as links, not the files that they point to.
        ignore: called on the pool's thread with a directory and the names in it; returns the names to skip.
        copy_function: called on the pool's thread with a source and a target path. With `copy2`, `copy` and
            `copyfile` of this module or of shutil, a cancelled call ends between two pieces of a file; with
            another function, between two files.
        ignore_dangling_symlinks: skip links whose target does not exist.
        dirs_exist_ok: `dst` and directories in it may exist already.
        timeout: in seconds, or None.

    Raises:
        shutil.Error: some files could not be copied; it has the list.
        OSError: the top directory cannot be read or created.
        TimeoutError: the timeout has expired. Files that were copied before are not removed.
    """
    return await run_copy(
        _copy_tree,
        src,
        dst,
        symlinks=symlinks,
        ignore=ignore,
        copy_function=copy_function,
        ignore_dangling_symlinks=ignore_dangling_symlinks,
        dirs_exist_ok=dirs_exist_ok,
    )


@bounded
async def move(
    src: AnyPath, dst: AnyPath, copy_function: Callable[..., Any] = copy2, *, timeout: float | None = None
) -> Any:
    """Like `shutil.move`: rename, or copy and then remove if that is across filesystems. Return the new path.

    Args:
        src: a file or a directory.
        dst: the new path, or a directory to move into.
        copy_function: as for `copytree`.
        timeout: in seconds, or None.

    Raises:
        shutil.Error: the target is inside the source, or exists already in the directory `dst`.
        OSError: with `filename`.
        TimeoutError: the timeout has expired. The source is removed only after all of it was copied.
    """
    return await run_copy(_move, src, dst, copy_function)


def _copy_tree(job: Job, /, src: Any, dst: Any, *, copy_function: Callable[..., Any], **options: Any) -> Any:
    return shutil.copytree(src, dst, copy_function=_bound(job, copy_function), **options)


def _move(job: Job, src: Any, dst: Any, copy_function: Callable[..., Any]) -> Any:
    job.check()
    return shutil.move(src, dst, copy_function=_bound(job, copy_function))


def _bound(job: Job, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that shutil calls for each file: our replacement, if `function` has one."""
    ours = _ON_THE_POOL.get(function)

    def copy_one(src: Any, dst: Any, *, follow_symlinks: bool = True) -> Any:
        job.check()
        if ours is not None:
            return ours(job, os.fspath(src), dst, follow_symlinks=follow_symlinks)
        if follow_symlinks:
            return function(src, dst)
        return function(src, dst, follow_symlinks=False)

    return copy_one


def _copy(job: Job, src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True) -> AnyPath:
    dst = _target(src, dst)
    copy_content(job, src, dst, follow_symlinks=follow_symlinks)
    shutil.copymode(src, dst, follow_symlinks=follow_symlinks)
    return dst


def _copy2(job: Job, src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True) -> AnyPath:
    dst = _target(src, dst)
    copy_content(job, src, dst, follow_symlinks=follow_symlinks)
    shutil.copystat(src, dst, follow_symlinks=follow_symlinks)
    return dst


def _target(src: AnyPath, dst: AnyPath) -> AnyPath:
    if os.path.isdir(dst):
        return os.path.join(dst, os.path.basename(src))  # type: ignore[arg-type]  # both str or both bytes
    return dst


def copy_content(job: Job, src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True) -> AnyPath:
    """`shutil.copyfile` as a step of a job."""
    job.check()
    source_status, target_status = _status(src), _status(dst)
    if source_status is not None and target_status is not None and os.path.samestat(source_status, target_status):
        raise shutil.SameFileError(f"{src!r} and {dst!r} are the same file")
    for path, status in ((src, source_status), (dst, target_status)):
        if status is not None and stat.S_ISFIFO(status.st_mode):
            raise shutil.SpecialFileError(f"`{path!s}` is a named pipe")
    if not follow_symlinks and os.path.islink(src):
        link: Any = os.readlink(src)  # type: ignore[type-var]  # bytes for bytes, else str
        os.symlink(link, dst)
        return dst
    source = os.open(src, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if stat.S_ISDIR(os.fstat(source).st_mode):
            raise named(IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)), src)
        _copy_open(job, source, src, dst)
    finally:
        os.close(source)
    return dst


def _copy_open(job: Job, source: int, src: AnyPath, dst: AnyPath) -> None:
    try:
        target = os.open(dst, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    except IsADirectoryError as error:
        if os.path.exists(dst):
            raise
        # open(2) reports EISDIR for a missing path that ends in a slash; shutil raises this error instead.
        raise FileNotFoundError(f"Directory does not exist: {dst!s}") from error
    try:
        transfer(job, source, target)
    except OSError as error:
        named(error, src, dst)
        raise
    finally:
        os.close(target)


def _status(path: AnyPath) -> os.stat_result | None:
    """Return the file's status; None on an error, which opening the file will raise."""
    try:
        return os.stat(path)
    except OSError:
        return None


_ON_THE_POOL: dict[Callable[..., Any], Callable[..., Any]] = {
    copyfile: copy_content,
    shutil.copyfile: copy_content,
    copy: _copy,
    shutil.copy: _copy,
    copy2: _copy2,
    shutil.copy2: _copy2,
}


# -- from one descriptor into another --------------------------------------------------------------

FICLONE = 0x40049409  # linux/fs.h
# A job checks after each piece whether it was abandoned: a few milliseconds of copying.
PIECE_BYTES = 16 * 1024 * 1024
BUFFER_BYTES = 256 * 1024

# The errors that mean "not possible with these two descriptors" (ioctl_ficlonerange(2), copy_file_range(2),
# sendfile(2)). copy_file_range(2) reports EBADF for a descriptor that is open for appending.
_NO_WAY = (
    errno.EOPNOTSUPP,
    errno.EXDEV,
    errno.EINVAL,
    errno.ENOSYS,
    errno.ENOTTY,
    errno.EPERM,
    errno.EBADF,
    errno.EISDIR,
    errno.ETXTBSY,
    errno.ESPIPE,
)


def transfer(job: Job, source: int, target: int) -> int:
    """Copy from `source`'s position up to its end, to `target`'s position. Runs on the pool.

    Returns the number of bytes.

    Raises:
        OSError: the error of the last method.
        AbandonedError: the job was abandoned; a part was copied.
    """
    status = os.fstat(source)
    job.check()
    if stat.S_ISREG(status.st_mode) and status.st_size and _is_cloned(source, target):
        return status.st_size
    done = 0
    for way in (_copy_range, _send):
        count, is_whole = _go(job, way, source, target)
        done += count
        # 0 bytes is also the result for files that have content and no size (/proc): try the next method.
        if is_whole and done:
            return done
    return done + _read_and_write(job, source, target)


def _is_cloned(source: int, target: int) -> bool:
    """Try to clone `source` into the empty file `target`. Return True if that worked."""
    if os.lseek(source, 0, os.SEEK_CUR) or os.fstat(target).st_size:
        return False
    try:
        fcntl.ioctl(target, FICLONE, source)
    except OSError as error:
        if error.errno in _NO_WAY:
            return False
        raise
    return True


def _copy_range(source: int, target: int) -> int:
    return os.copy_file_range(source, target, PIECE_BYTES)


def _send(source: int, target: int) -> int:
    return os.sendfile(target, source, None, PIECE_BYTES)


def _go(job: Job, way: Callable[[int, int], int], source: int, target: int) -> tuple[int, bool]:
    """Copy by one method. Return the number of bytes, and whether it reached the end."""
    done = 0
    while True:
        job.check()
        try:
            count = way(source, target)
        except OSError as error:
            if error.errno in _NO_WAY:
                return done, False
            raise
        if not count:
            return done, True
        done += count


def _read_and_write(job: Job, source: int, target: int) -> int:
    done = 0
    buffer = memoryview(bytearray(BUFFER_BYTES))
    while True:
        job.check()
        count = os.readv(source, [buffer])
        if not count:
            return done
        written = 0
        while written < count:
            written += os.write(target, buffer[written:count])
        done += count
