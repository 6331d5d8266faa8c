"""Replacing the content of a file atomically: one job, which undoes what it began when it fails.

The new content goes into an unnamed file (O_TMPFILE), which the kernel frees whatever happens, also
to this process; where the filesystem has none, into a named one beside the target. It gets the
target's owner, rights and attributes (`resembling`), reaches the disk, gets a name, and takes the target's place in one
rename.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from typing import TYPE_CHECKING

from oneloop.files.kernel_path import named
from oneloop.files.resembling import resemble

if TYPE_CHECKING:
    from oneloop.files.jobs import Job
    from oneloop.files.kernel_path import AnyPath

__all__ = ["replace_content"]

# Between two pieces a job looks whether it was abandoned.
PIECE_BYTES = 4 * 1024 * 1024
# How filesystems and old kernels say that they have no unnamed files (open(2)).
_NO_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


def replace_content(job: Job, path: AnyPath, data: memoryview, mode: int) -> int:
    """Make `data` the content of `path`, entirely or not at all; returns its length in bytes.

    Runs on a thread of the pool.

    Raises:
        OSError: with `filename`; EINVAL if the target is no regular file.
        AbandonedError: before the rename; nothing has changed.
    """
    try:
        if not os.fspath(path):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        folder, name = os.path.split(os.path.realpath(os.fsencode(path)))
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _replace(job, folder, folder_fd, name, data, mode)
        finally:
            os.close(folder_fd)
    except OSError as error:
        named(error, path)
        raise
    return len(data)


def _replace(job: Job, folder: bytes, folder_fd: int, name: bytes, data: memoryview, mode: int) -> None:
    old = _status(folder_fd, name)
    # Nobody may read the new content whom the old file would keep out.
    fd, temporary = _new_file(folder_fd, mode if old is None else 0o600)
    try:
        try:
            _write(job, fd, data)
            if old is not None:
                resemble(fd, os.path.join(folder, name), old)
            os.fsync(fd)
            job.check()
            if temporary is None:
                temporary = _give_name(folder_fd, fd)
        finally:
            os.close(fd)
        job.check()
        os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder_fd)
        raise
    os.fsync(folder_fd)


def _status(folder_fd: int, name: bytes) -> os.stat_result | None:
    """The target's status, or None if there is none yet."""
    if not name:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    try:
        status = os.stat(name, dir_fd=folder_fd)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "only regular files can be replaced atomically")
    return status


def _new_file(folder_fd: int, mode: int) -> tuple[int, bytes | None]:
    """An empty file in the folder: its descriptor, and its name if it has to have one."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    # Without /proc an unnamed file could not get its name later.
    if os.path.exists("/proc/self/fd"):
        try:
            return os.open(".", flags | os.O_TMPFILE, mode, dir_fd=folder_fd), None
        except OSError as error:
            if error.errno not in _NO_TMPFILE:
                raise
    while True:
        name = _fresh_name()
        with contextlib.suppress(FileExistsError):
            return os.open(name, flags | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder_fd), name


def _fresh_name() -> bytes:
    return b".oneloop-" + secrets.token_hex(8).encode()


def _write(job: Job, fd: int, data: memoryview) -> None:
    written = 0
    while written < len(data):
        job.check()
        written += os.write(fd, data[written : written + PIECE_BYTES])


def _give_name(folder_fd: int, fd: int) -> bytes:
    """Link an unnamed file into its folder under a name of its own (open(2), O_TMPFILE)."""
    while True:
        name = _fresh_name()
        with contextlib.suppress(FileExistsError):
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder_fd, follow_symlinks=True)
            return name
