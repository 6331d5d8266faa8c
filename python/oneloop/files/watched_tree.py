"""`WatchedTree`: the directories that a `Watch` watches, by their watch descriptors."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from oneloop.files.inotify import (
    IN_DONT_FOLLOW,
    IN_EVERYTHING,
    IN_EXCL_UNLINK,
    IN_ISDIR,
    IN_ONLYDIR,
    UNBINDS,
    Pending,
    Queue,
)

if TYPE_CHECKING:
    from oneloop.files.engine import Job
    from oneloop.files.inotify import RawEvent

__all__ = ["Survey", "WatchedTree"]

_BELOW = IN_EVERYTHING | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK


class _Folder(NamedTuple):
    """A watched directory: the watch's number, and its entries (name, whether it is a directory)."""

    watch: int
    path: bytes
    entries: list[tuple[bytes, bool]]


Survey = list[_Folder]
"""The directories that a survey has watched and read, each before its subdirectories."""


class WatchedTree:
    """The watched directories of one queue, by the watch's number."""

    __slots__ = ("_is_recursive", "_paths", "_queue", "_watches", "root", "root_watch")

    def __init__(self, queue: Queue, root: bytes, is_recursive: bool) -> None:
        self._queue = queue
        self._is_recursive = is_recursive
        self._paths: dict[int, bytes] = {}
        self._watches: dict[bytes, int] = {}
        self.root = root
        self.root_watch = -1

    def survey(self, job: Job, top: bytes) -> Survey:
        """Watch a directory and, in a recursive tree, all directories below. Runs on the pool.

        Directories that no longer exist or cannot be read are skipped, except the root.

        Raises:
            OSError: with `filename`; ENOSPC if the limit of watches is reached.
        """
        found: Survey = []
        pending = [top]
        while pending:
            job.check()
            path = pending.pop()
            is_root = path == self.root
            try:
                watch = self._queue.add(path, IN_EVERYTHING if is_root else _BELOW)
                entries = self._entries(path)
            except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
                if is_root:
                    error.filename = os.fsdecode(path)
                    raise
                continue
            except OSError as error:
                error.filename = os.fsdecode(path)
                raise
            found.append(_Folder(watch, path, entries))
            pending.extend(os.path.join(path, name) for name, is_directory in reversed(entries) if is_directory)
        return found

    def _entries(self, path: bytes) -> list[tuple[bytes, bool]]:
        if not self._is_recursive:
            return []
        try:
            with os.scandir(path) as entries:
                return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except NotADirectoryError:
            if path == self.root:
                return []
            raise

    def begin(self, survey: Survey, pending: Pending) -> None:
        """Apply the first survey, of the root."""
        self.root_watch = survey[0].watch
        self.apply(survey, pending)

    def begin_again(self, survey: Survey, pending: Pending, *now: RawEvent) -> None:
        """Apply a survey of the root after events were lost: nothing that was known before is certain."""
        before = list(self._paths)
        self._paths.clear()
        self._watches.clear()
        self.apply(survey, pending, *now)
        for watch in before:
            if watch not in self._paths:
                self._end(watch)

    def is_settled(self, path: bytes, pending: Pending, *now: RawEvent) -> bool:
        """Return True if the path still is what it was at the event `now`: no later one binds a name in it anew."""
        root = _key(self.root)
        while _key(path) != root:
            path, name = os.path.split(path)
            watch = self._watches.get(_key(path))
            if watch is None or pending.next_binding(watch, name, now) is not None:
                return False
        return True

    def apply(self, survey: Survey, pending: Pending, *now: RawEvent) -> list[tuple[bytes, bool]]:
        """Apply a survey of a settled directory, without the directories in it that are not settled.

        Args:
            survey: as `survey` has made it.
            pending: everything that the kernel had queued when the survey ended.
            now: the events that are being processed.

        Returns:
            The entries that were there at `now` in directories that were not known: (path, whether it is a directory).
        """
        there: list[tuple[bytes, bool]] = []
        settled: dict[bytes, int] = {}
        for number, folder in enumerate(survey):
            if number > 0:
                above, name = os.path.split(folder.path)
                parent = settled.get(_key(above))
                if parent is None or pending.next_binding(parent, name, now) is not None:
                    continue
            settled[_key(folder.path)] = folder.watch
            if self._paths.get(folder.watch) != folder.path:
                self._place(folder.watch, folder.path)
                there.extend(self._there(folder, pending, now))
        return there

    def _there(self, folder: _Folder, pending: Pending, now: tuple[RawEvent, ...]) -> list[tuple[bytes, bool]]:
        """Return the entries at `now`: those that were read, corrected by the events that follow."""
        entries = dict(folder.entries)
        for name in pending.names(folder.watch):
            event = pending.next_binding(folder.watch, name, now)
            if event is None:
                continue
            if event.mask & UNBINDS:
                entries[name] = bool(event.mask & IN_ISDIR)
            else:
                entries.pop(name, None)
        return [(os.path.join(folder.path, name), is_directory) for name, is_directory in entries.items()]

    def _place(self, watch: int, path: bytes) -> None:
        """Note where a watched directory is."""
        self.forget(watch)
        other = self._watches.get(_key(path))
        if other is not None:
            self.forget(other)
        self._paths[watch] = path
        self._watches[_key(path)] = watch

    def _end(self, watch: int) -> None:
        try:
            self._queue.remove(watch)
        except OSError as error:
            # The kernel has ended this watch already; its IN_IGNORED event follows.
            if error.errno != errno.EINVAL:
                raise

    def path_of(self, watch: int) -> bytes | None:
        """Return the path of a watch, or None if it no longer exists."""
        return self._paths.get(watch)

    def forget(self, watch: int) -> None:
        """Remove a watch that the kernel has ended."""
        path = self._paths.pop(watch, None)
        if path is not None and self._watches.get(_key(path)) == watch:
            del self._watches[_key(path)]

    def rename(self, old: bytes, new: bytes) -> None:
        """Update the paths of a renamed directory and of all directories below it."""
        for watch in self._below(old):
            self._place(watch, new + self._paths[watch][len(old) :])

    def remove(self, path: bytes) -> None:
        """End the watches of a directory that was deleted or moved outside, and of all directories below it."""
        for watch in self._below(path):
            self.forget(watch)
            self._end(watch)

    def _below(self, top: bytes) -> list[int]:
        inside = os.path.join(top, b"")
        return [watch for watch, path in self._paths.items() if path == top or path.startswith(inside)]


def _key(path: bytes) -> bytes:
    """Return a path without slashes at its end."""
    return path.rstrip(b"/") or b"/"
