"""`walk`: the directories of a tree, one after the other.

The pool reads ahead, in the order of the walk, until it has a batch of entries: a walk costs a trip
per batch. So a directory is shown as it was when its batch was read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, AnyStr, NamedTuple

from oneloop.files import jobs
from oneloop.files.deadline import within
from oneloop.files.metadata import islink

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from oneloop.files.jobs import Job

__all__ = ["walk", "walk_path"]

BATCH = 1000
"""How many entries a trip to the pool brings, or one directory if that has more."""


class _Scan(NamedTuple):
    """One directory: its folders, its other names, and which of the folders are symbolic links."""

    folders: list[Any]
    others: list[Any]
    links: set[Any]

    def below(self, path: Any, followlinks: bool) -> list[Any]:
        """The paths of the folders to walk into, the last one first."""
        return [os.path.join(path, name) for name in reversed(self.folders) if followlinks or name not in self.links]


async def walk(
    top: AnyStr | os.PathLike[AnyStr],
    topdown: bool = True,
    onerror: Callable[[OSError], object] | None = None,
    followlinks: bool = False,
    *,
    timeout: float | None = None,
) -> AsyncIterator[tuple[AnyStr, list[AnyStr], list[AnyStr]]]:
    """`os.walk` as an async iterator of (folder, names of folders in it, other names in it).

    With `topdown` the first list may be changed in place, which prunes and orders the walk. Unlike
    os.walk, the walk reads up to a thousand entries ahead, and shows later changes of those folders
    only when they are among what was added to the list.

    Args:
        top: str, bytes or PathLike.
        topdown: folders before what is in them.
        onerror: called with the OSError of a folder that cannot be read, which is then left out.
        followlinks: walk into symbolic links to directories too.
        timeout: seconds that a trip for the next folders may take, or None.

    Raises:
        TimeoutError: the time is up.
    """
    top = os.fspath(top)
    steps = (_walk_down if topdown else _walk_up)(top, followlinks, False, timeout)
    async for step in _told(steps, onerror):
        yield step


def walk_path(
    top: str, topdown: bool, onerror: Callable[[OSError], object] | None, followlinks: bool, timeout_s: float | None
) -> AsyncIterator[tuple[str, list[str], list[str]]]:
    """`walk` as `pathlib.Path.walk` means it: links to directories that are not followed are no folders."""
    steps = (_walk_down if topdown else _walk_up)(top, followlinks, not followlinks, timeout_s)
    return _told(steps, onerror)


async def _told(steps: AsyncIterator[Any], onerror: Callable[[OSError], object] | None) -> AsyncIterator[Any]:
    async for step in steps:
        if not isinstance(step, OSError):
            yield step
        elif onerror is not None:
            onerror(step)


async def _walk_down(top: Any, followlinks: bool, links_are_files: bool, timeout_s: float | None) -> AsyncIterator[Any]:
    pending = [top]
    ahead: dict[Any, _Scan | OSError] = {}
    while pending:
        path = pending.pop()
        if path not in ahead:
            reading = jobs.run(_scan_ahead, [*pending[-BATCH:], path], followlinks, links_are_files)
            ahead = await (reading if timeout_s is None else within(timeout_s, reading))
        scan = ahead.pop(path)
        if isinstance(scan, OSError):
            yield scan
            continue
        known = frozenset(scan.folders)
        yield path, scan.folders, scan.others
        for name in reversed(scan.folders):
            below = os.path.join(path, name)
            if followlinks or not (name in scan.links if name in known else await islink(below)):
                pending.append(below)


def _scan_ahead(job: Job, pending: list[Any], followlinks: bool, links_are_files: bool) -> dict[Any, _Scan | OSError]:
    """What the next directories hold, from the end of `pending` on; on the pool."""
    found: dict[Any, _Scan | OSError] = {}
    count = 0
    while pending and count < BATCH:
        job.check()
        path = pending.pop()
        try:
            scan = found[path] = _scan(path, links_are_files)
        except OSError as error:
            found[path] = error
            count += 1
            continue
        count += 1 + len(scan.folders) + len(scan.others)
        pending.extend(scan.below(path, followlinks))
    return found


def _scan(path: Any, links_are_files: bool) -> _Scan:
    scan = _Scan([], [], set())
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                is_folder = entry.is_dir(follow_symlinks=not links_are_files)
            except OSError:
                # As in os.walk: what cannot be asked is no folder.
                is_folder = False
            if not is_folder:
                scan.others.append(entry.name)
                continue
            scan.folders.append(entry.name)
            if entry.is_symlink():
                scan.links.add(entry.name)
    return scan


async def _walk_up(top: Any, followlinks: bool, links_are_files: bool, timeout_s: float | None) -> AsyncIterator[Any]:
    walking = _bottom_up(top, followlinks, links_are_files)
    is_ended = False
    while not is_ended:
        reading = jobs.run(_next_steps, walking)
        steps, is_ended = await (reading if timeout_s is None else within(timeout_s, reading))
        for step in steps:
            yield step


def _next_steps(job: Job, walking: Iterator[Any]) -> tuple[list[Any], bool]:
    """The next steps, and whether these were all; on the pool."""
    steps: list[Any] = []
    count = 0
    for step in walking:
        job.check()
        steps.append(step)
        count += 1 if isinstance(step, OSError) else 1 + len(step[1]) + len(step[2])
        if count >= BATCH:
            return steps, False
    return steps, True


def _bottom_up(top: Any, followlinks: bool, links_are_files: bool) -> Iterator[Any]:
    """Nothing that the program does to the lists changes this order, so it can go ahead."""
    pending: list[Any] = [top]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            yield item
            continue
        try:
            scan = _scan(item, links_are_files)
        except OSError as error:
            yield error
            continue
        pending.append((item, scan.folders, scan.others))
        pending.extend(scan.below(item, followlinks))
