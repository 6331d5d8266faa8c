"""`WatchedTree`: which directories are watched, under which numbers, and what was reported of them.

The pool surveys: it watches a directory, then reads it, then those in it. The loop applies what a
survey has found, so that one that was cut short changes nothing and may be repeated.

What is made in a directory between its watch and its reading is found by the survey and queued by
the kernel too. The survey's report counts; the queued one is dropped when it comes. Once the queue
has been empty, none can come any more.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from oneloop.files import inotify

if TYPE_CHECKING:
    from oneloop.files.inotify import Queue
    from oneloop.files.jobs import Job

__all__ = ["Survey", "WatchedTree"]

_BELOW = inotify.EVERYTHING | inotify.ONLYDIR | inotify.DONT_FOLLOW | inotify.EXCL_UNLINK


class _Folder(NamedTuple):
    """A directory that is watched now: its number, and what was in it (name, whether a directory)."""

    watch: int
    path: bytes
    entries: list[tuple[bytes, bool]]


Survey = list[_Folder]
"""Directories that a survey has watched and read, each before those in it."""


class WatchedTree:
    """The watched directories of one queue, by number."""

    __slots__ = ("_announced", "_is_recursive", "_paths", "_queue", "root", "root_watch")

    def __init__(self, queue: Queue, root: bytes, is_recursive: bool) -> None:
        self._queue = queue
        self._is_recursive = is_recursive
        self._paths: dict[int, bytes] = {}
        # Names whose creation a survey has reported, by the number of their directory.
        self._announced: set[tuple[int, bytes]] = set()
        self.root = root
        self.root_watch = -1

    def survey(self, job: Job, top: bytes) -> Survey:
        """Watch a directory and, in a recursive tree, all below; on the pool.

        Directories that are gone already, or may not be read, are left out; but not the root.

        Raises:
            OSError: with `filename`; ENOSPC when there are no more watches to be had.
        """
        found: Survey = []
        pending = [top]
        while pending:
            job.check()
            path = pending.pop()
            is_root = path == self.root
            try:
                watch = self._queue.add(path, inotify.EVERYTHING if is_root else _BELOW)
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

    def begin(self, survey: Survey) -> None:
        """Apply the first survey, of the root."""
        self.root_watch = survey[0].watch
        self.adopt(survey)

    def adopt(self, survey: Survey) -> None:
        """Apply a survey without a report of what it has found."""
        for folder in survey:
            self._paths[folder.watch] = folder.path

    def announce(self, survey: Survey, *, only_new: bool) -> list[tuple[bytes, bool]]:
        """Apply a survey; returns what is to be reported as created: path, and whether a directory.

        Args:
            survey: of a directory that appeared.
            only_new: what is in directories that were watched already was reported before.
        """
        created = []
        for folder in survey:
            is_known = folder.watch in self._paths
            self._paths[folder.watch] = folder.path
            if is_known and only_new:
                continue
            for name, is_directory in folder.entries:
                if (folder.watch, name) not in self._announced:
                    self._announced.add((folder.watch, name))
                    created.append((os.path.join(folder.path, name), is_directory))
        return created

    def is_announced(self, watch: int, name: bytes) -> bool:
        """True, once, for a name that a survey has reported before the kernel did."""
        if (watch, name) in self._announced:
            self._announced.discard((watch, name))
            return True
        return False

    def forget_announced_below(self, path: bytes) -> None:
        """A directory is gone. If one of the same name stands there already, what it holds is still to be reported."""
        below = set(self._below(path))
        self._announced = {(watch, name) for watch, name in self._announced if watch not in below}

    def forget_announced(self) -> None:
        """The kernel's queue is empty: what it says from now on is new."""
        self._announced.clear()

    def path_of(self, watch: int) -> bytes | None:
        """The directory (or the root) with this number; None for one that is watched no more."""
        return self._paths.get(watch)

    def forget(self, watch: int) -> None:
        """The kernel has ended this watch."""
        self._paths.pop(watch, None)

    def rename(self, old: bytes, new: bytes) -> None:
        """A directory and all below it have another path now."""
        for watch in self._below(old):
            self._paths[watch] = new + self._paths[watch][len(old) :]

    def remove(self, path: bytes) -> None:
        """End the watches of a directory that was moved away, and of all below it."""
        for watch in self._below(path):
            del self._paths[watch]
            try:
                self._queue.remove(watch)
            except OSError as error:
                # Gone meanwhile: the kernel has ended it itself, and IGNORED is on its way.
                if error.errno != errno.EINVAL:
                    raise

    def _below(self, top: bytes) -> list[int]:
        inside = os.path.join(top, b"")
        return [watch for watch, path in self._paths.items() if path == top or path.startswith(inside)]
