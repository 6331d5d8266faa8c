"""Removing trees.

A removal is one job. It uses directory descriptors, so a symbolic link that is inserted meanwhile cannot lead it out of
the tree.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from oneloop.files.engine import bounded, run_removal

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.files.engine import AnyPath, Job

    Report = Callable[[Callable[..., Any], str, OSError], object]

__all__ = ["remove_tree", "reporter", "rmtree"]

# O_NONBLOCK: if a directory was replaced by a FIFO meanwhile, open(2) must not block.
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@bounded
async def rmtree(
    path: AnyPath,
    ignore_errors: bool = False,
    onerror: Callable[[Callable[..., Any], str, Any], object] | None = None,
    *,
    onexc: Callable[[Callable[..., Any], str, BaseException], object] | None = None,
    dir_fd: int | None = None,
    timeout: float | None = None,
) -> None:
    """Like `shutil.rmtree`: remove a directory and everything in it, in one job on the pool.

    Args:
        path: str, bytes or PathLike; not a symbolic link.
        ignore_errors: True: ignore errors and continue.
        onerror: called on the pool's thread with (function, path, exc_info) for each error.
        onexc: called with (function, path, exception) instead; available on every Python version.
        dir_fd: the directory that a relative path starts from.
        timeout: in seconds, or None. If it expires, a part of the tree has been removed.

    Raises:
        OSError: the first error, with `filename`.
        TimeoutError: the timeout has expired.
    """
    await run_removal(remove_tree, path, dir_fd, reporter(ignore_errors, onerror, onexc))


def reporter(
    ignore_errors: bool,
    onerror: Callable[[Callable[..., Any], str, Any], object] | None,
    onexc: Callable[[Callable[..., Any], str, BaseException], object] | None,
) -> Report:
    """Return the function that handles an error, from the three arguments of `shutil.rmtree`."""

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
    """Remove a directory and everything in it. Runs on the pool.

    Raises:
        AbandonedError: the job was abandoned; a part of the tree has been removed.
        OSError: raised by `report`.
    """
    top = os.fsdecode(path)
    fd = _open(top, top, dir_fd, report)
    if fd is None:
        return
    # The open directories from the top to the current one: descriptor, path, and subdirectories still to remove.
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
            refusal = OSError("Cannot call rmtree on a symbolic link")
            refusal.filename = path
            report(os.path.islink, path, refusal)
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


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        # As in shutil: removing it tells what is wrong.
        return False


def _remove_files(job: Job, fd: int, path: str, report: Report) -> list[str]:
    """Remove everything except directories. Return the names of the directories."""
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
        if _is_folder(entry):
            folders.append(entry.name)
        else:
            _remove(os.unlink, entry.name, os.path.join(path, entry.name), fd, report)
    return folders


def _remove(function: Callable[..., None], name: str, path: str, dir_fd: int | None, report: Report) -> None:
    try:
        function(name, dir_fd=dir_fd)
    except FileNotFoundError as error:
        # Another process has removed it. As in shutil, this is an error only for the top directory.
        if dir_fd is None or name == path:
            error.filename = path
            report(function, path, error)
    except OSError as error:
        error.filename = path
        report(function, path, error)
