"""`watch`: the changes at a path, as an async iterator.

inotify reports the entries of one directory, not of its subdirectories. With `recursive`, every directory
therefore has its own watch. A new directory is first watched and then read: entries created before the
watch are found by reading, later ones are reported by the kernel.

A survey runs on the pool: it adds a watch for a directory, reads it, and repeats this for the directories
in it. The loop applies the result of a complete survey. A survey that is cancelled changes nothing and
can be repeated.

A survey sees the present, the kernel's events tell the past. After each survey, everything that the kernel has
queued is therefore read. A directory whose name, or that of a directory above, is bound anew by one of these
events is not taken from the survey: it may be another one by now, and the event will lead to its own survey. Of the
other directories, the queued events say which entries were there at the time of the event that is being processed:
these are reported, and the later ones by their own events.
"""

from __future__ import annotations

import asyncio
import enum
import os
import warnings
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, AnyStr, Generic, final

from oneloop.files.engine import current, encoded, run_job
from oneloop.files.inotify import (
    IN_ATTRIB,
    IN_CLOSE_WRITE,
    IN_CREATE,
    IN_DELETE,
    IN_DELETE_SELF,
    IN_IGNORED,
    IN_ISDIR,
    IN_MODIFY,
    IN_MOVE_SELF,
    IN_MOVED_FROM,
    IN_MOVED_TO,
    IN_OVERFLOW,
    IN_UNMOUNT,
    Pending,
    Queue,
)
from oneloop.files.watched_tree import Survey, WatchedTree

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Self

    from oneloop.files.inotify import RawEvent

__all__ = ["Change", "Event", "Watch", "watch"]

# How long to wait for the second event of a rename. The same system call queues both.
HALF_RENAME_S = 0.01


class Change(enum.Enum):
    """The kind of an event."""

    CREATED = "created"
    """A new entry: created, linked, or moved here from outside."""
    MODIFIED = "modified"
    """The content was written or truncated."""
    CLOSED = "closed"
    """A process that had the file open for writing has closed it."""
    ATTRIBUTES = "attributes"
    """Permissions, owner, times, extended attributes or the number of links have changed."""
    MOVED = "moved"
    """Renamed within the watched tree, from `source` to `path`."""
    DELETED = "deleted"
    """An entry was removed, or moved outside. For the watched path itself, this is the last event."""
    OVERFLOW = "overflow"
    """The kernel's queue was full and events are lost: read everything again."""


@dataclass(frozen=True, slots=True)
class Event(Generic[AnyStr]):
    """One change.

    Attributes:
        change: the kind of the event.
        path: the watched path joined with the names below it; bytes if the watched path is bytes.
        is_directory: True if `path` is or was a directory.
        source: the old path if it was moved, else None.
    """

    change: Change
    path: AnyStr
    is_directory: bool = False
    source: AnyStr | None = None


def watch(path: AnyStr | os.PathLike[AnyStr], *, recursive: bool = False) -> Watch[AnyStr]:
    """Report the changes of a file, in a directory, or with `recursive` in a tree (inotify(7)).

    The watch begins when `async with` is entered, or when the first event is requested. It ends when the
    path itself is removed, renamed or unmounted; the last event is then DELETED for this path.

    Args:
        path: str, bytes or PathLike. Symbolic links below it are not followed.
        recursive: also watch the directories below, including new ones. New directories are read and
            watched while the program waits for the next event.

    Returns:
        An async context manager and async iterator of `Event`. Only one task may iterate at a time.

    Raises:
        TypeError, ValueError: `path` is not a valid path.
        OSError: when the watch is entered or iterated, with `filename`. ENOSPC: more directories than
            `fs.inotify.max_user_watches`. EMFILE: more watches than `fs.inotify.max_user_instances`.
    """
    return Watch(path, recursive)


@final
class Watch(Generic[AnyStr]):
    """An iterator over the changes at a path; the result of `watch`."""

    __slots__ = (
        "__weakref__",
        "_events",
        "_is_busy",
        "_is_bytes",
        "_is_ended",
        "_is_recursive",
        "_path",
        "_queue",
        "_raw",
        "_tree",
    )

    def __init__(self, path: AnyStr | os.PathLike[AnyStr], recursive: bool) -> None:
        # Assigned first: if the path is invalid, __del__ still reads it.
        self._queue: Queue | None = None
        self._path: AnyStr = os.fspath(path)
        self._is_bytes = isinstance(self._path, bytes)
        encoded(self._path, "watch")
        self._is_recursive = recursive
        self._is_ended = False
        self._is_busy = False
        self._tree: WatchedTree | None = None
        self._events: deque[Event[AnyStr]] = deque()
        # Events of the kernel that are not yet in `_events`. Each is removed only after it has been processed, so
        # that none is lost if the program's wait for the next event is cancelled.
        self._raw = Pending()

    async def __aenter__(self) -> Self:
        await self._once(self._start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event[AnyStr]:
        while not self._events:
            if self._is_ended:
                await self.close()
                raise StopAsyncIteration
            await self._once(self._fill if self._tree is not None else self._start)
        return self._events.popleft()

    def __del__(self) -> None:
        if self._queue is not None and not self._queue.is_closed:
            warnings.warn(f"unclosed watch of {self._path!r}", ResourceWarning, stacklevel=2, source=self)
            self._queue.close()

    async def close(self) -> None:
        """End the watch and its iteration. Further calls do nothing."""
        self._is_ended = True
        if self._queue is not None:
            # If the pool may be using the descriptor, the task that waits for the pool closes it.
            if self._is_busy:
                self._queue.wake()
            else:
                self._queue.close()

    async def _once(self, step: Callable[[], Awaitable[None]]) -> None:
        """Run one step. Close the queue afterwards if the first step failed or the watch has ended."""
        if self._is_busy:
            raise RuntimeError("another task is iterating over this watch: use one watch per task")
        self._is_busy = True
        try:
            await step()
        except OSError:
            self._is_ended = True
            raise
        finally:
            self._is_busy = False
            if self._queue is not None and (self._is_ended or self._tree is None):
                self._queue.close()

    async def _start(self) -> None:
        if self._tree is not None or self._is_ended:
            return
        current()  # raises if no oneloop loop is running
        self._queue = Queue(asyncio.get_running_loop())
        tree = WatchedTree(self._queue, os.fsencode(self._path), self._is_recursive)
        survey = await run_job(tree.survey, tree.root)
        self._raw.extend(self._queue.read_all())
        tree.begin(survey, self._raw)
        self._tree = tree

    async def _fill(self) -> None:
        """Process the events that the kernel has queued, or wait until there are some."""
        assert self._queue is not None
        assert self._tree is not None
        if not self._raw:
            self._raw.extend(self._queue.read_nowait())
        if not self._raw:
            await self._queue.wait_readable()
            return
        while self._raw and not self._is_ended:
            raw = self._raw.first
            await self._take(raw, self._tree, self._queue)
            self._raw.remove(raw)

    async def _take(self, raw: RawEvent, tree: WatchedTree, queue: Queue) -> None:
        """Process one event of the kernel. Changes nothing before its last await, so it can be repeated."""
        mask = raw.mask
        if mask & IN_OVERFLOW:
            if self._is_recursive:
                # The events of new directories may be among the lost ones.
                survey = await run_job(tree.survey, tree.root)
                self._raw.extend(queue.read_all())
                tree.begin_again(survey, self._raw, raw)
            self._tell(Change.OVERFLOW, tree.root)
            return
        folder = tree.path_of(raw.watch)
        if mask & IN_IGNORED:
            tree.forget(raw.watch)
        if folder is None:
            return
        if not raw.name:
            self._take_own(raw, folder, tree)
            return
        path = os.path.join(folder, raw.name)
        is_directory = bool(mask & IN_ISDIR)
        if mask & IN_MOVED_FROM:
            await self._take_rename(raw, path, is_directory, tree, queue)
        elif mask & (IN_CREATE | IN_MOVED_TO):
            await self._take_created(raw, path, is_directory, tree, queue)
        elif mask & IN_DELETE:
            if is_directory:
                tree.remove(path)
            self._tell(Change.DELETED, path, is_directory)
        else:
            self._tell_written(mask, path, is_directory)

    def _take_own(self, raw: RawEvent, path: bytes, tree: WatchedTree) -> None:
        """Process an event about a watched directory itself. For all but the root, the parent's watch reports it."""
        if raw.watch != tree.root_watch:
            return
        is_directory = bool(raw.mask & IN_ISDIR)
        if raw.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED):
            self._tell(Change.DELETED, path, is_directory)
            self._is_ended = True
        else:
            self._tell_written(raw.mask, path, is_directory)

    def _tell_written(self, mask: int, path: bytes, is_directory: bool) -> None:
        for bit, change in _WRITTEN.items():
            if mask & bit:
                self._tell(change, path, is_directory)

    async def _take_created(
        self, raw: RawEvent, path: bytes, is_directory: bool, tree: WatchedTree, queue: Queue
    ) -> None:
        survey = await self._surveyed(path, tree, queue, raw) if is_directory else []
        self._tell(Change.CREATED, path, is_directory)
        for found, is_folder in tree.apply(survey, self._raw, raw):
            self._tell(Change.CREATED, found, is_folder)

    async def _surveyed(self, path: bytes, tree: WatchedTree, queue: Queue, *now: RawEvent) -> Survey:
        """Survey a new directory, and read what the kernel has queued meanwhile."""
        if not self._is_recursive or not tree.is_settled(path, self._raw, *now):
            return []
        survey = await run_job(tree.survey, path)
        self._raw.extend(queue.read_all())
        return survey if tree.is_settled(path, self._raw, *now) else []

    async def _take_rename(
        self, raw: RawEvent, path: bytes, is_directory: bool, tree: WatchedTree, queue: Queue
    ) -> None:
        second = await self._second_half(raw, queue)
        target = None if second is None else tree.path_of(second.watch)
        if second is None or target is None:
            if is_directory:
                tree.remove(path)
            self._tell(Change.DELETED, path, is_directory)
            return
        target = os.path.join(target, second.name)
        survey = await self._surveyed(target, tree, queue, raw, second) if is_directory else []
        if is_directory:
            tree.rename(path, target)
        self._tell(Change.MOVED, target, is_directory, source=path)
        for found, is_folder in tree.apply(survey, self._raw, raw, second):
            self._tell(Change.CREATED, found, is_folder)
        self._raw.remove(second)

    async def _second_half(self, first: RawEvent, queue: Queue) -> RawEvent | None:
        """Return the second event of a rename, or None if the target is outside. The event stays in `_raw`."""
        # Counted from the reading of the event: many moves outside wait together, not one after the other.
        deadline_s = first.read_at_s + HALF_RENAME_S
        try:
            while True:
                second = self._raw.second_half(first)
                if second is not None:
                    return second
                more = queue.read_nowait()
                self._raw.extend(more)
                if more:
                    continue
                async with asyncio.timeout_at(deadline_s):
                    await queue.wait_readable()
                if self._is_ended:
                    return None
        except TimeoutError:
            return None

    def _tell(self, change: Change, path: bytes, is_directory: bool = False, *, source: bytes | None = None) -> None:
        event: Event[Any]
        if self._is_bytes:
            event = Event(change, path, is_directory, source)
        else:
            event = Event(change, os.fsdecode(path), is_directory, None if source is None else os.fsdecode(source))
        self._events.append(event)


_WRITTEN = {
    IN_MODIFY: Change.MODIFIED,
    IN_ATTRIB: Change.ATTRIBUTES,
    IN_CLOSE_WRITE: Change.CLOSED,
}
