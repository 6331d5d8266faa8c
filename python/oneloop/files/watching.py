"""`watch`: what changes at a path, as an async iterator; `watched_tree` knows which directories are watched.

inotify tells of names in a directory, not of what is below. With `recursive` every directory has a
watch of its own. One that appears is watched first and read afterwards, so that what was made in it
before the watch is reported from the reading, and what came later by the kernel; nothing twice.
"""

from __future__ import annotations

import asyncio
import enum
import os
import warnings
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, AnyStr, Generic, final

from oneloop.files import inotify, jobs
from oneloop.files.kernel_path import encoded
from oneloop.files.watched_tree import WatchedTree

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Self

    from oneloop.files.inotify import RawEvent

__all__ = ["Change", "Event", "Watch", "watch"]

# The other half of a rename is queued by the same system call: it can only be this late.
HALF_RENAME_S = 0.01


class Change(enum.Enum):
    """What happened."""

    CREATED = "created"
    """A name appeared: made, linked, or moved here from outside."""
    MODIFIED = "modified"
    """The content was written or cut."""
    CLOSED = "closed"
    """Somebody who had the file open for writing has closed it."""
    ATTRIBUTES = "attributes"
    """Permissions, owner, times, extended attributes or the number of links changed."""
    MOVED = "moved"
    """Renamed within what is watched, from `source` to `path`."""
    DELETED = "deleted"
    """A name is gone: removed, or moved outside. For the watched path itself, the last event."""
    OVERFLOW = "overflow"
    """The kernel's queue was full and events are lost: look at everything again."""


@dataclass(frozen=True, slots=True)
class Event(Generic[AnyStr]):
    """One change.

    Attributes:
        change: what happened.
        path: the watched path joined with the names below it; bytes if it was given as bytes.
        is_directory: whether it happened to a directory.
        source: where it was before, if it was moved.
    """

    change: Change
    path: AnyStr
    is_directory: bool = False
    source: AnyStr | None = None


def watch(path: AnyStr | os.PathLike[AnyStr], *, recursive: bool = False) -> Watch[AnyStr]:
    """Report what changes at a file, in a directory, or with `recursive` in a tree.

    An async context manager and async iterator of `Event`. The watch stands when `async with` is
    entered, or the first event is asked for. It ends when the path itself is removed, renamed or
    unmounted, with a DELETED event for it.

    Args:
        path: str, bytes or PathLike. Symbolic links below it are not followed.
        recursive: watch the directories below too, also those that appear later. Directories are
            read, and new ones watched, while the next event is waited for.

    Raises (when it is entered or iterated):
        OSError: with `filename`. ENOSPC: more directories than `fs.inotify.max_user_watches`;
            EMFILE: more watches than `fs.inotify.max_user_instances`.
    """
    return Watch(path, recursive)


@final
class Watch(Generic[AnyStr]):
    """The changes at a path; made by `watch`."""

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
        # First, for a path that is none leaves an object behind whose __del__ looks at it.
        self._queue: inotify.Queue | None = None
        self._path: AnyStr = os.fspath(path)
        self._is_bytes = isinstance(self._path, bytes)
        encoded(self._path, "watch")
        self._is_recursive = recursive
        self._is_ended = False
        self._is_busy = False
        self._tree: WatchedTree | None = None
        self._events: deque[Event[AnyStr]] = deque()
        # What the kernel has said and is not yet in `_events`: each is taken off when it is, so that
        # nothing is lost when waiting for the next event is cancelled.
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
        """End the watch, and the iteration of it; idempotent."""
        self._is_ended = True
        if self._queue is not None:
            # The pool may be using the descriptor: then who waits for it closes it.
            if self._is_busy:
                self._queue.wake()
            else:
                self._queue.close()

    async def _once(self, step: Callable[[], Awaitable[None]]) -> None:
        """One step at a time; the queue is closed behind it if it fails or the watch has ended."""
        if self._is_busy:
            raise RuntimeError("the watch is being iterated by another task")
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
        self._queue = inotify.Queue(asyncio.get_running_loop())
        tree = WatchedTree(self._queue, os.fsencode(self._path), self._is_recursive)
        tree.begin(await jobs.run(tree.survey, tree.root))
        self._tree = tree

    async def _fill(self) -> None:
        """Make events of what the kernel has queued, or wait until it has."""
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

    async def _take(self, raw: RawEvent, tree: WatchedTree, queue: inotify.Queue) -> None:
        """Make events of one of the kernel's; changes nothing before the last wait."""
        mask = raw.mask
        if mask & inotify.OVERFLOW:
            if self._is_recursive:
                # Directories may have appeared unseen.
                tree.adopt(await jobs.run(tree.survey, tree.root))
            self._tell(Change.OVERFLOW, tree.root)
            return
        folder = tree.path_of(raw.watch)
        if mask & inotify.IGNORED:
            tree.forget(raw.watch)
        if folder is None:
            return
        if not raw.name:
            self._take_own(raw, folder, tree)
            return
        path = os.path.join(folder, raw.name)
        is_directory = bool(mask & inotify.ISDIR)
        if mask & inotify.MOVED_FROM:
            await self._take_rename(raw, path, is_directory, tree, queue)
        elif mask & (inotify.CREATE | inotify.MOVED_TO):
            await self._take_created(raw, path, is_directory, tree)
        elif mask & inotify.DELETE:
            tree.is_announced(raw.watch, raw.name)
            if is_directory:
                tree.forget_announced_below(path)
            self._tell(Change.DELETED, path, is_directory)
        else:
            self._tell_written(mask, path, is_directory)

    def _take_own(self, raw: RawEvent, path: bytes, tree: WatchedTree) -> None:
        """What happened to a watched directory itself: its parent's watch tells, but for the root."""
        if raw.watch != tree.root_watch:
            return
        is_directory = bool(raw.mask & inotify.ISDIR)
        if raw.mask & (inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.UNMOUNT | inotify.IGNORED):
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
            survey = await jobs.run(tree.survey, path)
        else:
            survey = []
        if not tree.is_announced(raw.watch, raw.name):
            self._tell(Change.CREATED, path, is_directory)
        for found, is_folder in tree.announce(survey, only_new=False):
            self._tell(Change.CREATED, found, is_folder)

    async def _take_rename(
        self, raw: RawEvent, path: bytes, is_directory: bool, tree: WatchedTree, queue: inotify.Queue
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
        survey = await jobs.run(tree.survey, target) if is_directory and self._is_recursive else []
        self._raw.remove(second)
        tree.is_announced(raw.watch, raw.name)
        if tree.is_announced(second.watch, second.name):
            # The target has been reported as created, when its directory was read.
            self._tell(Change.DELETED, path, is_directory)
        else:
            self._tell(Change.MOVED, target, is_directory, source=path)
        if is_directory:
            tree.rename(path, target)
        for found, is_folder in tree.announce(survey, only_new=True):
            self._tell(Change.CREATED, found, is_folder)

    async def _second_half(self, first: RawEvent, queue: inotify.Queue) -> RawEvent | None:
        """The other end of a rename, None if it led outside; it stays in `_raw`."""
        try:
            async with asyncio.timeout(HALF_RENAME_S):
                while True:
                    for raw in self._raw:
                        if raw.cookie == first.cookie and raw.mask & inotify.MOVED_TO:
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
    inotify.MODIFY: Change.MODIFIED,
    inotify.ATTRIB: Change.ATTRIBUTES,
    inotify.CLOSE_WRITE: Change.CLOSED,
}
