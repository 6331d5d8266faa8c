"""Copies and moves with the rules of `pathlib.Path.copy` and `move` (Python 3.14), as jobs on the pool.

Unlike shutil's they make a target directory that must not exist, copy no metadata unless told, and
stop at the first error.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import PurePath
from typing import TYPE_CHECKING

from oneloop.files.copying import copy_content
from oneloop.files.kernel_path import named

if TYPE_CHECKING:
    from oneloop.files.jobs import Job

__all__ = ["copy_path", "move_path"]


def copy_path(job: Job, source: PurePath, target: PurePath, follow_symlinks: bool, preserve_metadata: bool) -> None:
    """Copy a file, a symbolic link or a tree; on the pool.

    Raises:
        OSError: with `filename`; EINVAL if the target is the source or in it.
        AbandonedError: what was copied by then stays.
    """
    if source == target:
        raise _invalid("Source and target are the same path", source, target)
    if source in target.parents:
        raise _invalid("Source path is a parent of target path", source, target)
    _copy(job, str(source), str(target), follow_symlinks, preserve_metadata)


def _invalid(text: str, source: PurePath, target: PurePath) -> OSError:
    return named(OSError(errno.EINVAL, text), str(source), str(target))


def _copy(job: Job, source: str, target: str, follow_symlinks: bool, preserve_metadata: bool) -> None:
    job.check()
    is_link = not follow_symlinks and os.path.islink(source)
    if is_link:
        os.symlink(os.readlink(source), target)
    elif os.path.isdir(source):
        names = os.listdir(source)
        os.mkdir(target)
        for name in names:
            _copy(job, os.path.join(source, name), os.path.join(target, name), follow_symlinks, preserve_metadata)
    else:
        try:
            copy_content(job, source, target)
        except shutil.SameFileError:
            raise _invalid("Source and target are the same file", PurePath(source), PurePath(target)) from None
    if preserve_metadata:
        shutil.copystat(source, target, follow_symlinks=not is_link)


def _is_same(source: PurePath, target: PurePath) -> bool:
    try:
        return os.path.samefile(source, target)
    except OSError:
        # One of them leads nowhere: what is done with them next says so, if it matters.
        return False


def move_path(job: Job, source: PurePath, target: PurePath) -> None:
    """Rename, or across filesystems copy and then remove; on the pool.

    Raises:
        OSError: with `filename`; EINVAL if both are the same file.
        AbandonedError: the source is still there.
    """
    job.check()
    if _is_same(source, target):
        raise _invalid("Source and target are the same file", source, target)
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    else:
        return
    copy_path(job, source, target, False, True)
    job.check()
    if os.path.isdir(source) and not os.path.islink(source):
        shutil.rmtree(source)
    else:
        os.unlink(source)
