"""Transfers: the content of one descriptor into another, by the shortest way that the kernel offers.

A clone shares the blocks (FICLONE); `copy_file_range` copies inside the kernel, or on the server of a
network filesystem; `sendfile` copies inside the kernel across filesystems; reading and writing always
works. What a way did is kept when the next one takes over.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.files.jobs import Job

__all__ = ["transfer"]

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
