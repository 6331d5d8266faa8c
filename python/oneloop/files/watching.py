"""`watch`: the changes at a path, as an async iterator.

inotify reports the entries of one directory, not of its subdirectories. With `recursive`, every directory
therefore has its own watch. A new directory is first watched and then read: entries created before the
watch are found by reading, later ones are reported by the kernel.

A survey runs on the pool: it adds a watch for a directory, reads it, and repeats this for the directories
in it. The loop applies the result of a complete survey. A survey that is cancelled changes nothing and
can be repeated.

An entry that is created between the watch and the reading is found by the survey and also queued by the
kernel. It is reported from the survey, and the kernel's event is dropped. Once the queue has been empty,
no such event can follow.
"""

from __future__ import annotations

import asyncio
import enum
import errno
import os
import struct
import warnings
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, AnyStr, Generic, NamedTuple, final

from oneloop import _native
from oneloop.files.engine import current, encoded, run_job

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Self

    from oneloop.files.engine import Job

__all__ = ["Change", "Event", "Watch", "watch"]

# inotify(7), linux/inotify.h
IN_MODIFY = 0x2
IN_ATTRIB = 0x4
IN_CLOSE_WRITE = 0x8
IN_MOVED_FROM = 0x40
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_DELETE = 0x200
IN_DELETE_SELF = 0x400
IN_MOVE_SELF = 0x800
IN_UNMOUNT = 0x2000
IN_OVERFLOW = 0x4000
IN_IGNORED = 0x8000
IN_ONLYDIR = 0x0100_0000
IN_DONT_FOLLOW = 0x0200_0000
IN_EXCL_UNLINK = 0x0400_0000
IN_ISDIR = 0x4000_0000

IN_EVERYTHING = (
    IN_MODIFY
    | IN_ATTRIB
    | IN_CLOSE_WRITE
    | IN_MOVED_FROM
    | IN_MOVED_TO
    | IN_CREATE
    | IN_DELETE
    | IN_DELETE_SELF
    | IN_MOVE_SELF
)

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
        self._raw: deque[RawEvent] = deque()

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
        tree.begin(await run_job(tree.survey, tree.root))
        self._tree = tree

    async def _fill(self) -> None:
        """Process the events that the kernel has queued, or wait until there are some."""
        assert self._queue is not None
        assert self._tree is not None
        if not self._raw:
            self._raw.extend(self._queue.read_nowait())
        if not self._raw:
            self._tree.forget_announced()
            await self._queue.wait_readable()
            return
        while self._raw and not self._is_ended:
            await self._take(self._raw[0], self._tree, self._queue)
            self._raw.popleft()

    async def _take(self, raw: RawEvent, tree: WatchedTree, queue: Queue) -> None:
        """Process one event of the kernel. Changes nothing before its last await, so it can be repeated."""
        mask = raw.mask
        if mask & IN_OVERFLOW:
            if self._is_recursive:
                # The events of new directories may be among the lost ones.
                tree.adopt(await run_job(tree.survey, tree.root))
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
            await self._take_created(raw, path, is_directory, tree)
        elif mask & IN_DELETE:
            tree.is_announced(raw.watch, raw.name)
            if is_directory:
                tree.forget_announced_below(path)
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

    async def _take_created(self, raw: RawEvent, path: bytes, is_directory: bool, tree: WatchedTree) -> None:
        if is_directory and self._is_recursive:
            survey = await run_job(tree.survey, path)
        else:
            survey = []
        if not tree.is_announced(raw.watch, raw.name):
            self._tell(Change.CREATED, path, is_directory)
        for found, is_folder in tree.announce(survey, only_new=False):
            self._tell(Change.CREATED, found, is_folder)

    async def _take_rename(
        self, raw: RawEvent, path: bytes, is_directory: bool, tree: WatchedTree, queue: Queue
    ) -> None:
        second = await self._second_half(raw, queue)
        target = None if second is None else tree.path_of(second.watch)
        if second is None or target is None:
            tree.is_announced(raw.watch, raw.name)
            if is_directory:
                tree.remove(path)
            self._tell(Change.DELETED, path, is_directory)
            return
        target = os.path.join(target, second.name)
        survey = await run_job(tree.survey, target) if is_directory and self._is_recursive else []
        self._raw.remove(second)
        tree.is_announced(raw.watch, raw.name)
        if tree.is_announced(second.watch, second.name):
            # The target was reported as created when its directory was read.
            self._tell(Change.DELETED, path, is_directory)
        else:
            self._tell(Change.MOVED, target, is_directory, source=path)
        if is_directory:
            tree.rename(path, target)
        for found, is_folder in tree.announce(survey, only_new=True):
            self._tell(Change.CREATED, found, is_folder)

    async def _second_half(self, first: RawEvent, queue: Queue) -> RawEvent | None:
        """Return the second event of a rename, or None if the target is outside. The event stays in `_raw`."""
        try:
            async with asyncio.timeout(HALF_RENAME_S):
                while True:
                    for raw in self._raw:
                        if raw.cookie == first.cookie and raw.mask & IN_MOVED_TO:
                            return raw
                    await queue.wait_readable()
                    if self._is_ended:
                        return None
                    self._raw.extend(queue.read_nowait())
        except TimeoutError:
            return None

    def _tell(self, change: Change, path: bytes, is_directory: bool = False, *, source: bytes | None = None) -> None:
        told: Event[Any] = Event(
            change,
            path if self._is_bytes else os.fsdecode(path),
            is_directory,
            source if source is None or self._is_bytes else os.fsdecode(source),
        )
        self._events.append(told)


_WRITTEN = {
    IN_MODIFY: Change.MODIFIED,
    IN_ATTRIB: Change.ATTRIBUTES,
    IN_CLOSE_WRITE: Change.CLOSED,
}


# -- the watched directories -----------------------------------------------------------------------

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

    __slots__ = ("_announced", "_is_recursive", "_paths", "_queue", "root", "root_watch")

    def __init__(self, queue: Queue, root: bytes, is_recursive: bool) -> None:
        self._queue = queue
        self._is_recursive = is_recursive
        self._paths: dict[int, bytes] = {}
        # Entries whose creation was reported from a survey: (directory's watch, name).
        self._announced: set[tuple[int, bytes]] = set()
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

    def begin(self, survey: Survey) -> None:
        """Apply the first survey, of the root."""
        self.root_watch = survey[0].watch
        self.adopt(survey)

    def adopt(self, survey: Survey) -> None:
        """Apply a survey without reporting its entries."""
        for folder in survey:
            self._paths[folder.watch] = folder.path

    def announce(self, survey: Survey, *, only_new: bool) -> list[tuple[bytes, bool]]:
        """Apply a survey. Return the entries to report as created: (path, whether it is a directory).

        Args:
            survey: of a new directory.
            only_new: skip the entries of directories that were watched before; they were reported already.
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
        """Return True, once, for an entry that was reported from a survey before the kernel's event."""
        if (watch, name) in self._announced:
            self._announced.discard((watch, name))
            return True
        return False

    def forget_announced_below(self, path: bytes) -> None:
        """Call this when a directory was deleted. If it exists again, its entries must be reported again."""
        below = set(self._below(path))
        self._announced = {(watch, name) for watch, name in self._announced if watch not in below}

    def forget_announced(self) -> None:
        """Call this when the kernel's queue is empty: later events cannot repeat a survey's entries."""
        self._announced.clear()

    def path_of(self, watch: int) -> bytes | None:
        """Return the path of a watch, or None if it no longer exists."""
        return self._paths.get(watch)

    def forget(self, watch: int) -> None:
        """Remove a watch that the kernel has ended."""
        self._paths.pop(watch, None)

    def rename(self, old: bytes, new: bytes) -> None:
        """Update the paths of a renamed directory and of all directories below it."""
        for watch in self._below(old):
            self._paths[watch] = new + self._paths[watch][len(old) :]

    def remove(self, path: bytes) -> None:
        """End the watches of a directory that was moved outside, and of all directories below it."""
        for watch in self._below(path):
            del self._paths[watch]
            try:
                self._queue.remove(watch)
            except OSError as error:
                # The kernel has ended this watch already; its IN_IGNORED event follows.
                if error.errno != errno.EINVAL:
                    raise

    def _below(self, top: bytes) -> list[int]:
        inside = os.path.join(top, b"")
        return [watch for watch, path in self._paths.items() if path == top or path.startswith(inside)]


# -- inotify(7) ------------------------------------------------------------------------------------


READ_BYTES = 64 * 1024
_HEAD = struct.Struct("iIII")


class RawEvent(NamedTuple):
    """One `struct inotify_event`. The two events of a rename have the same `cookie`."""

    watch: int
    mask: int
    cookie: int
    name: bytes


class Queue:
    """An inotify descriptor. This object owns it."""

    __slots__ = ("_fd", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: asyncio.Future[None] | None = None
        self._fd = _native.inotify_init()

    @property
    def is_closed(self) -> bool:
        """True after `close()`."""
        return self._fd < 0

    def add(self, path: bytes, mask: int) -> int:
        """Watch a path. Return the watch's number, which its events contain. May block: call it on the pool."""
        return _native.inotify_add_watch(self._fd, path, mask)

    def remove(self, watch: int) -> None:
        """End a watch."""
        _native.inotify_rm_watch(self._fd, watch)

    def read_nowait(self) -> list[RawEvent]:
        """Return the queued events of at most one read(2); an empty list if there are none."""
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return []
        events = []
        start = 0
        while start < len(data):
            watch, mask, cookie, length = _HEAD.unpack_from(data, start)
            start += _HEAD.size
            events.append(RawEvent(watch, mask, cookie, data[start : start + length].rstrip(b"\0")))
            start += length
        return events

    async def wait_readable(self) -> None:
        """Wait until something is queued, or the queue is closed."""
        if self._waiting is not None:
            raise RuntimeError("another task is iterating over this watch: use one watch per task")
        waiting = self._waiting = self._loop.create_future()
        self._loop.add_reader(self._fd, self.wake)
        try:
            await waiting
        finally:
            self._waiting = None
            self._loop.remove_reader(self._fd)

    def wake(self) -> None:
        """End `wait_readable`."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def close(self) -> None:
        """Close the descriptor. No task may be waiting for it. Further calls do nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
