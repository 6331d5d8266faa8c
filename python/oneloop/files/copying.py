"""Copies and moves, as shutil makes them and with its arguments: each one job on the pool.

The content goes in pieces, between which a cancelled copy ends, by the shortest way that the kernel offers: a clone
shares the blocks (FICLONE); `copy_file_range` copies inside the kernel, or on the server of a network filesystem;
`sendfile` copies inside the kernel across filesystems; reading and writing always works. What a way did is kept when
the next one takes over. What a copy that fails or is cancelled has written stays, as shutil leaves it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from typing import TYPE_CHECKING, Any

from oneloop.files.engine import bounded, current, named, run_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from oneloop.files.engine import AnyPath, Job

__all__ = ["copy", "copy2", "copyfile", "copymode", "copystat", "copytree", "move", "transfer"]


@bounded
async def copyfile(
    src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True, timeout: float | None = None
) -> AnyPath:
    """`shutil.copyfile`: copies the content only; returns `dst`.

    Args:
        src: str, bytes or PathLike.
        dst: the file to write; not a directory.
        follow_symlinks: False copies a symbolic link as one.
        timeout: seconds, or None.

    Raises:
        OSError: with `filename`; `shutil.SameFileError`, `shutil.SpecialFileError` (a FIFO).
        TimeoutError: the time is up.
    """
    return await run_job(copy_content, src, dst, follow_symlinks=follow_symlinks)


@bounded
async def copy(src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True, timeout: float | None = None) -> AnyPath:
    """`shutil.copy`: copies content and permissions, to a file or into a folder; returns the new path.

    Raises:
        OSError: as `copyfile`.
        TimeoutError: the time is up.
    """
    return await run_job(_copy, src, dst, follow_symlinks=follow_symlinks)


@bounded
async def copy2(src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True, timeout: float | None = None) -> AnyPath:
    """`shutil.copy2`: as `copy`, and the times and extended attributes too.

    Raises:
        OSError: as `copyfile`.
        TimeoutError: the time is up.
    """
    return await run_job(_copy2, src, dst, follow_symlinks=follow_symlinks)


@bounded
async def copymode(src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True, timeout: float | None = None) -> None:
    """`shutil.copymode`: the permissions only."""
    await current().call(shutil.copymode, src, dst, follow_symlinks=follow_symlinks)


@bounded
async def copystat(src: AnyPath, dst: AnyPath, *, follow_symlinks: bool = True, timeout: float | None = None) -> None:
    """`shutil.copystat`: permissions, times, flags and extended attributes."""
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
    """`shutil.copytree`: copies a directory with all that is in it; returns `dst`.

    Args:
        src: str, bytes or PathLike.
        dst: the directory to make.
        symlinks: copy symbolic links as such, not what they lead to.
        ignore: called with a folder and its names, returns those to leave out; on the pool's thread.
        copy_function: `copy2` or `copy` or `copyfile` of this module or of shutil, or any function of
            a source and a target; on the pool's thread. Only ours end between two pieces of a file.
        ignore_dangling_symlinks: pass over links that lead nowhere.
        dirs_exist_ok: `dst` may exist, and so may folders in it.
        timeout: seconds, or None.

    Raises:
        shutil.Error: with a list of what could not be copied.
        OSError: the top directory cannot be read or made.
        TimeoutError: the time is up; what was copied by then stays.
    """
    return await run_job(
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
    """`shutil.move`: renames, or across filesystems copies and then removes; returns the new path.

    Args:
        src: a file or a directory.
        dst: the new path, or a folder to move into.
        copy_function: as for `copytree`.
        timeout: seconds, or None.

    Raises:
        shutil.Error: the target is in the source, or exists.
        OSError: with `filename`.
        TimeoutError: the time is up. The source is removed only after all of it was copied.
    """
    return await run_job(_move, src, dst, copy_function)


def _copy_tree(job: Job, /, src: Any, dst: Any, *, copy_function: Callable[..., Any], **options: Any) -> Any:
    return shutil.copytree(src, dst, copy_function=_bound(job, copy_function), **options)


def _move(job: Job, src: Any, dst: Any, copy_function: Callable[..., Any]) -> Any:
    job.check()
    return shutil.move(src, dst, copy_function=_bound(job, copy_function))


def _bound(job: Job, function: Callable[..., Any]) -> Callable[..., Any]:
    """What shutil is to call for each file: our own function of that name, where there is one."""
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
    """`shutil.copyfile`, in a job."""
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
        # open() says it of a path that ends in a slash; shutil says what is missing.
        raise FileNotFoundError(f"Directory does not exist: {dst!s}") from error
    try:
        transfer(job, source, target)
    except OSError as error:
        named(error, src, dst)
        raise
    finally:
        os.close(target)


def _status(path: AnyPath) -> os.stat_result | None:
    """None if there is no such file, or it cannot be told: opening it says why."""
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
# Between two pieces a job looks whether it was abandoned: some milliseconds of copying.
PIECE_BYTES = 16 * 1024 * 1024
BUFFER_BYTES = 256 * 1024

# How a way says that these two descriptors cannot go it (ioctl_ficlonerange(2), copy_file_range(2),
# sendfile(2)); EBADF is what copy_file_range says of descriptors open for appending.
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
    """Copy from `source`'s position to its end, to `target`'s position; returns the bytes. On the pool.

    Raises:
        OSError: of the last way.
        AbandonedError: part of it was copied.
    """
    status = os.fstat(source)
    job.check()
    if stat.S_ISREG(status.st_mode) and status.st_size and _is_cloned(source, target):
        return status.st_size
    done = 0
    for way in (_copy_range, _send):
        count, is_whole = _go(job, way, source, target)
        done += count
        # Nothing at all is also what files say that have content and no size (/proc).
        if is_whole and done:
            return done
    return done + _read_and_write(job, source, target)


def _is_cloned(source: int, target: int) -> bool:
    """True if the target, which is empty, now has the source's blocks."""
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
    """How many bytes went this way, and whether it led to the end."""
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
