"""`StatWatcher`: reports changes of a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from oneloop import _native
from oneloop.green.watchers.events import STAT
from oneloop.green.watchers.watcher import Watcher

if TYPE_CHECKING:
    from oneloop.green.loop import Alarm, GreenLoop

__all__ = ["StatWatcher"]

DEFAULT_INTERVAL_S = 5.0074891
"""libev's default."""
SHORTEST_INTERVAL_S = 0.1074891
"""libev's minimum."""
# inotify(7): modified, attributes, moved, created or deleted, and the same for the watched file itself.
MASK = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800


class StatWatcher(Watcher):
    """Called when the result of `os.lstat` for a path has changed.

    inotify reports changes immediately where it works. In addition, the path is checked periodically.

    Args:
        interval: the time between two checks in seconds, at least 0.1; 0 or less means about 5.
    """

    __slots__ = ("_alarm", "_directory", "_found", "_inotify", "_interval_s", "_paths", "_previous", "path")

    def __init__(
        self, loop: GreenLoop, path: str, interval: float = 0.0, ref: bool = True, priority: int | None = None
    ) -> None:
        super().__init__(loop, ref, priority)
        given: object = path
        if not isinstance(given, (str, bytes)):
            raise TypeError(f"Argument 'path' has incorrect type (expected str, got {type(given).__name__})")
        self.path = path
        self._paths = os.fsencode(path)
        self._interval_s = float(interval)
        self._found: os.stat_result | None = None
        self._previous: os.stat_result | None = None
        self._alarm: Alarm | None = None
        # The inotify descriptor of this watcher; None without inotify.
        self._inotify: int | None = None

    @property
    def interval(self) -> float:
        """The time between two checks, in seconds. The adjusted value is set when the watcher starts."""
        return self._interval_s

    @property
    def attr(self) -> os.stat_result | None:
        """The latest result; None if the file does not exist."""
        return self._found

    @property
    def prev(self) -> os.stat_result | None:
        """The result before the last change; None if the file did not exist."""
        return self._previous

    def _arm(self) -> None:
        wanted_s = self._interval_s if self._interval_s > 0 else DEFAULT_INTERVAL_S
        self._interval_s = max(wanted_s, SHORTEST_INTERVAL_S)
        self._found = self._previous = self._look()
        try:
            self._inotify = _native.inotify_init()
        except OSError:
            # The user's limit is reached: rely on the periodic checks.
            self._inotify = None
        else:
            self._watch_paths()
            self.loop._add_fd(self._inotify, False, self._something_happened)
        self._set_alarm()

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._inotify is not None:
            self.loop._remove_fd(self._inotify, False)
            os.close(self._inotify)
            self._inotify = None

    def _ref_changed(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._set_alarm()

    def _set_alarm(self) -> None:
        deadline_s = self.loop.asyncio_loop.time() + self._interval_s
        self._alarm = self.loop._alarm_at(deadline_s, self._ask_again, self._ref)

    def _ask_again(self) -> None:
        self._set_alarm()
        self._compare()

    def _watch_paths(self) -> None:
        """Watch the file, if it exists, and its directory, in case it does not."""
        for path in (self._paths, os.fsencode(Path(os.fsdecode(self._paths)).parent)):
            try:
                _native.inotify_add_watch(self._inotify or 0, path, MASK)
            except OSError:
                # The path does not exist or cannot be watched: rely on the periodic checks.
                continue

    def _something_happened(self) -> None:
        try:
            os.read(self._inotify or 0, 65536)
        except BlockingIOError:
            return
        self._watch_paths()
        self._compare()

    def _look(self) -> os.stat_result | None:
        try:
            # libev also calls lstat on the loop's thread.
            return os.lstat(self._paths)
        except OSError:
            return None

    def _compare(self) -> None:
        found = self._look()
        if _told(found) != _told(self._found):
            self._previous, self._found = self._found, found
            self.loop._feed(self, STAT)

    def _described(self) -> str:
        return f" path={self.path!r} interval={self._interval_s}"


def _told(found: os.stat_result | None) -> object:
    """The fields that count as a change; the access time does not."""
    if found is None:
        return None
    return (*found[:7], found.st_mtime_ns, found.st_ctime_ns)
