"""Directories and trees: list, walk, find by pattern.

Directories are read on the thread pool, in batches of many entries. A walk reads ahead, in the order of the walk, until
it has a batch; it therefore returns a directory as it was when its batch was read.
"""

from __future__ import annotations

import glob as patterns
import os
import stat as modes
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, AnyStr, Generic, NamedTuple, TypeVar, final, overload

from oneloop.files.engine import bounded, current, run_job
from oneloop.files.names import islink, status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import TracebackType

    from oneloop.files.engine import AnyPath, FdOrPath, Job

    Report = Callable[[Callable[..., Any], str, OSError], object]

__all__ = ["DirEntry", "ScandirIterator", "batches", "glob", "listdir", "scandir", "walk", "walk_path"]

T = TypeVar("T")

BATCH = 1000
"""The most entries per call on the pool. In a walk, a directory with more entries is read in one call."""


@bounded
async def _trip(place: Any, function: Callable[..., T], *args: Any, timeout: float | None = None) -> T:
    """Await `function(job, ...)` on the pool. `place` is a path: its filesystem selects the threads."""
    return await run_job(_at_place, place, function, *args)


def _at_place(job: Job, _place: Any, function: Callable[..., T], *args: Any) -> T:
    return function(job, *args)


@overload
async def listdir(path: int | str | os.PathLike[str] | None = None, *, timeout: float | None = None) -> list[str]: ...
@overload
async def listdir(path: bytes | os.PathLike[bytes], *, timeout: float | None = None) -> list[bytes]: ...
@bounded
async def listdir(path: FdOrPath | None = None, *, timeout: float | None = None) -> Any:
    """Like `os.listdir`: return the names in a directory; bytes if the path is bytes.

    Raises:
        OSError: with `filename`.
        TimeoutError: the timeout has expired.
    """
    return await current().call(os.listdir, path)


@overload
def scandir(
    path: int | str | os.PathLike[str] | None = None, *, timeout: float | None = None
) -> ScandirIterator[str]: ...
@overload
def scandir(path: bytes | os.PathLike[bytes], *, timeout: float | None = None) -> ScandirIterator[bytes]: ...
def scandir(path: Any = None, *, timeout: float | None = None) -> ScandirIterator[Any]:
    """Like `os.scandir`, but return an async iterator and async context manager of `DirEntry`.

    Errors are raised when it is first iterated or entered, not by this call.

    Args:
        path: str, bytes, PathLike, or a directory's descriptor. None: the current directory.
        timeout: in seconds, for each batch of entries, or None.

    Raises:
        OSError: with `filename`.
        TimeoutError: the timeout has expired.
    """
    return ScandirIterator(path, timeout)


@final
class ScandirIterator(Generic[AnyStr]):
    """The entries of one directory, read in batches.

    A directory of less than a thousand entries is read and closed before the first entry is returned. For
    larger ones use `async with` or `close()` if the iteration can end early; otherwise a ResourceWarning
    is raised.
    """

    __slots__ = ("_batch", "_is_busy", "_is_ended", "_path", "_reading", "_source", "_timeout_s")

    def __init__(self, path: FdOrPath | None, timeout_s: float | None) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._batch: Iterator[os.DirEntry[Any]] = iter(())
        # Created and read by a thread of the pool, which holds `_reading`, also when nobody waits for it any more.
        self._source: Any = None
        self._reading = Lock()
        self._is_busy = False
        self._is_ended = False

    async def __aenter__(self) -> ScandirIterator[AnyStr]:
        if self._source is None and not self._is_ended:
            await self._fill()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> ScandirIterator[AnyStr]:
        return self

    async def __anext__(self) -> DirEntry[AnyStr]:
        entry = next(self._batch, None)
        while entry is None:
            if self._is_ended:
                raise StopAsyncIteration
            await self._fill()
            entry = next(self._batch, None)
        return DirEntry(entry, self._path if isinstance(self._path, int) else None)

    async def close(self) -> None:
        """End the iteration and close the directory. Further calls do nothing."""
        self._end()
        self._batch = iter(())

    async def _fill(self) -> None:
        if self._is_busy:
            raise RuntimeError("another task is iterating over this directory: use one scandir() per task")
        self._is_busy = True
        try:
            batch = await _trip(self._path, self._read, timeout=self._timeout_s)
        except BaseException:
            self._end()
            raise
        finally:
            self._is_busy = False
        if self._is_ended:
            # Closed meanwhile.
            return
        self._batch = iter(batch)
        if len(batch) < BATCH:
            self._end()

    def _read(self, job: Job) -> list[os.DirEntry[Any]]:
        """Return the next batch. Runs on the pool."""
        try:
            with self._reading:
                job.check()
                if self._source is None:
                    self._source = os.scandir(self._path)
                batch = list(islice(self._source, BATCH))
                for entry in batch:
                    # If the directory does not contain the type, this calls lstat(2) here, not in the loop's thread.
                    entry.is_symlink()
                return batch
        finally:
            if self._is_ended:
                self._close_source()

    def _end(self) -> None:
        self._is_ended = True
        self._close_source()

    def _close_source(self) -> None:
        """Close the directory, unless a thread reads it, which does that when it has read."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            if self._source is not None:
                self._source.close()
        finally:
            self._reading.release()


async def glob(
    pathname: AnyStr,
    *,
    root_dir: AnyPath | None = None,
    dir_fd: int | None = None,
    recursive: bool = False,
    include_hidden: bool = False,
    timeout: float | None = None,
) -> AsyncIterator[AnyStr]:
    """Like `glob.iglob`, but an async iterator: the paths that match a pattern.

    As in glob, directories that cannot be read are skipped.

    Args:
        pathname: a pattern with `*`, `?`, `[…]`, and with `recursive` also `**`.
        root_dir: the directory where relative patterns start; the results are relative to it.
        dir_fd: a descriptor of the directory where relative patterns start.
        recursive: `**` matches any number of directories.
        include_hidden: wildcards also match names that begin with a dot.
        timeout: in seconds, for each batch of paths, or None. A cancelled wait ends immediately; the
            thread of the pool still finishes its batch.

    Raises:
        TimeoutError: the timeout has expired.
    """
    found = patterns.iglob(
        pathname, root_dir=root_dir, dir_fd=dir_fd, recursive=recursive, include_hidden=include_hidden
    )
    async for path in batches(found, pathname if root_dir is None else root_dir, timeout):
        yield path


async def batches(paths: Iterator[T], place: Any, timeout_s: float | None) -> AsyncIterator[T]:
    """Iterate over the items of a blocking iterator, which is advanced on the pool. `place` as in `_trip`."""
    while True:
        batch = await _taken(paths, place, timeout=timeout_s)
        for path in batch:
            yield path
        if len(batch) < BATCH:
            return


@bounded
async def _taken(paths: Iterator[T], place: Any, *, timeout: float | None = None) -> list[T]:
    return await current().call(_take, paths, place)


def _take(paths: Iterator[T], _place: Any) -> list[T]:
    return list(islice(paths, BATCH))


# -- entries ---------------------------------------------------------------------------------------


@final
class DirEntry(Generic[AnyStr]):
    """An entry of a directory, with the information from reading the directory.

    Like `os.DirEntry`. `is_symlink` and `inode` make no system call. `is_dir`, `is_file` and `stat` are
    coroutines. The first two wait only for symbolic links. Results of `stat` are cached.
    """

    __slots__ = ("_dir_fd", "_entry", "_lstat", "_stat", "name", "path")

    def __init__(self, entry: os.DirEntry[AnyStr], dir_fd: int | None = None) -> None:
        self._entry: os.DirEntry[AnyStr] = entry
        self._dir_fd = dir_fd
        self._stat: os.stat_result | None = None
        self._lstat: os.stat_result | None = None
        self.name: AnyStr = entry.name
        self.path: AnyStr = entry.path

    def __fspath__(self) -> AnyStr:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def inode(self) -> int:
        """Return the inode number from the directory."""
        return self._entry.inode()

    def is_symlink(self) -> bool:
        """Return True for a symbolic link, also a broken one."""
        return self._entry.is_symlink()

    def is_junction(self) -> bool:
        """Return False: Linux has no junctions."""
        return False

    async def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return True for a directory, and if `follow_symlinks` for a symbolic link to one."""
        if not self._entry.is_symlink():
            return self._entry.is_dir(follow_symlinks=False)
        return follow_symlinks and await self._leads_to(modes.S_IFDIR)

    async def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return True for a regular file, and if `follow_symlinks` for a symbolic link to one."""
        if not self._entry.is_symlink():
            return self._entry.is_file(follow_symlinks=False)
        return follow_symlinks and await self._leads_to(modes.S_IFREG)

    async def _leads_to(self, kind: int) -> bool:
        try:
            return modes.S_IFMT((await self.stat()).st_mode) == kind
        except FileNotFoundError:
            return False

    async def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status of the file; if not `follow_symlinks`, of the symbolic link itself.

        Raises:
            OSError: with `filename`; ENOENT if the file no longer exists.
        """
        if follow_symlinks and self._entry.is_symlink():
            if self._stat is None:
                self._stat = await status(self.path, self._dir_fd, True)
            return self._stat
        if self._lstat is None:
            self._lstat = await status(self.path, self._dir_fd, False)
        return self._lstat


# -- walks -----------------------------------------------------------------------------------------


class _Scan(NamedTuple):
    """The content of one directory: subdirectories, other names, and which subdirectories are symbolic links."""

    folders: list[Any]
    others: list[Any]
    links: set[Any]

    def below(self, path: Any, followlinks: bool) -> list[Any]:
        """Return the paths of the subdirectories to walk into, the last one first."""
        return [os.path.join(path, name) for name in reversed(self.folders) if followlinks or name not in self.links]


async def walk(
    top: AnyStr | os.PathLike[AnyStr],
    topdown: bool = True,
    onerror: Callable[[OSError], object] | None = None,
    followlinks: bool = False,
    *,
    timeout: float | None = None,
) -> AsyncIterator[tuple[AnyStr, list[AnyStr], list[AnyStr]]]:
    """Like `os.walk`, but an async iterator of (directory, names of subdirectories, other names).

    With `topdown`, the program can change the list of subdirectories in place to prune or order the walk.
    Difference from os.walk: the walk reads up to a thousand entries ahead. Changes that are made later in
    these directories are not seen, except in names that the program adds to the list.

    Args:
        top: str, bytes or PathLike.
        topdown: True: a directory comes before its subdirectories.
        onerror: called with the OSError if a directory cannot be read; the directory is skipped.
        followlinks: True: also walk into symbolic links to directories.
        timeout: in seconds, for each batch, or None.

    Raises:
        TimeoutError: the timeout has expired.
    """
    top = os.fspath(top)
    steps = (_walk_down if topdown else _walk_up)(top, followlinks, False, timeout)
    async for step in _told(steps, onerror):
        yield step


def walk_path(
    top: str, topdown: bool, onerror: Callable[[OSError], object] | None, followlinks: bool, timeout_s: float | None
) -> AsyncIterator[tuple[str, list[str], list[str]]]:
    """Like `walk`, but as in `pathlib.Path.walk`: links to directories that are not followed count as files."""
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
            ahead = await _trip(
                path, _scan_ahead, [*pending[-BATCH:], path], followlinks, links_are_files, timeout=timeout_s
            )
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
    """Read the next directories, from the end of `pending` on. Runs on the pool."""
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
                # As in os.walk: on an error it counts as a file.
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
        steps, is_ended = await _trip(top, _next_steps, walking, timeout=timeout_s)
        for step in steps:
            yield step


def _next_steps(job: Job, walking: Iterator[Any]) -> tuple[list[Any], bool]:
    """Return the next steps of the walk, and True if these were the last. Runs on the pool."""
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
    """Walk bottom-up. Changes of the lists do not affect this order, so it can be read ahead."""
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
