"""Removing a tree: one job on the pool, through descriptors, so that no symbolic link leads out of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.files.jobs import Job
    from oneloop.files.kernel_path import AnyPath

    Report = Callable[[Callable[..., Any], str, OSError], object]

__all__ = ["remove_tree", "reporter"]

# A FIFO that somebody put in a directory's place must not block the opening.
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def reporter(
    ignore_errors: bool,
    onerror: Callable[[Callable[..., Any], str, Any], object] | None,
    onexc: Callable[[Callable[..., Any], str, BaseException], object] | None,
) -> Report:
    """What is to be done about an error, from `shutil.rmtree`'s three arguments."""

    def report(function: Callable[..., Any], path: str, error: OSError) -> object:
        if ignore_errors:
            return None
        if onexc is not None:
            return onexc(function, path, error)
        if onerror is not None:
            return onerror(function, path, (type(error), error, error.__traceback__))
        raise error

    return report


def remove_tree(job: Job, path: AnyPath, dir_fd: int | None, report: Report) -> None:
    """Remove a directory and all below it; on the pool.

    Raises:
        AbandonedError: what was removed by then is gone.
        OSError: what `report` raises.
    """
    top = os.fsdecode(path)
    fd = _open(top, top, dir_fd, report)
    if fd is None:
        return
    # From the top down to where the work is: an open directory, its path, and its folders still to do.
    levels: list[tuple[int, str, list[str]]] = [(fd, top, [])]
    try:
        levels[0] = (fd, top, _remove_files(job, fd, top, report))
        while levels:
            job.check()
            fd, folder, left = levels[-1]
            if left:
                name = left.pop()
                below = os.path.join(folder, name)
                child = _open(name, below, fd, report)
                if child is not None:
                    levels.append((child, below, []))
                    levels[-1] = (child, below, _remove_files(job, child, below, report))
                continue
            levels.pop()
            os.close(fd)
            if levels:
                _remove(os.rmdir, os.path.basename(folder), folder, levels[-1][0], report)
            else:
                _remove(os.rmdir, top, top, dir_fd, report)
    finally:
        for fd, _, _ in levels:
            os.close(fd)


def _open(name: str, path: str, dir_fd: int | None, report: Report) -> int | None:
    try:
        return os.open(name, _DIRECTORY, dir_fd=dir_fd)
    except NotADirectoryError as error:
        if _is_link(name, dir_fd):
            report(os.path.islink, path, OSError("Cannot call rmtree on a symbolic link"))
            return None
        error.filename = path
        report(os.open, path, error)
    except OSError as error:
        error.filename = path
        report(os.open, path, error)
    return None


def _is_link(name: str, dir_fd: int | None) -> bool:
    try:
        os.readlink(name, dir_fd=dir_fd)
    except OSError:
        return False
    return True


def _remove_files(job: Job, fd: int, path: str, report: Report) -> list[str]:
    """Remove what is no directory; returns the names of the directories."""
    try:
        with os.scandir(fd) as reading:
            entries = list(reading)
    except OSError as error:
        error.filename = path
        report(os.scandir, path, error)
        return []
    folders = []
    for entry in entries:
        job.check()
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
        else:
            _remove(os.unlink, entry.name, os.path.join(path, entry.name), fd, report)
    return folders


def _remove(function: Callable[..., None], name: str, path: str, dir_fd: int | None, report: Report) -> None:
    try:
        function(name, dir_fd=dir_fd)
    except FileNotFoundError as error:
        # Somebody else has removed it; shutil says so of the top only.
        if dir_fd is None or name == path:
            error.filename = path
            report(function, path, error)
    except OSError as error:
        error.filename = path
        report(function, path, error)
