"""`Signals`: the signal watchers of a loop, by signal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oneloop.green.watchers.events import SIGNAL

if TYPE_CHECKING:
    from oneloop.green.loop import GreenLoop
    from oneloop.green.watchers.notify import SignalWatcher

__all__ = ["Signals"]


class Signals:
    """The signal watchers of a loop. Main thread only."""

    def __init__(self, loop: GreenLoop) -> None:
        self._loop = loop
        self._watchers: dict[int, dict[SignalWatcher, None]] = {}

    def add(self, signum: int, watcher: SignalWatcher) -> None:
        """Add a watcher. Raises RuntimeError outside of the main thread."""
        watchers = self._watchers.get(signum)
        if watchers is None:
            self._loop.asyncio_loop.add_signal_handler(signum, self._arrived, signum)
            watchers = self._watchers[signum] = {}
        watchers[watcher] = None

    def discard(self, signum: int, watcher: SignalWatcher) -> None:
        """Remove a watcher. With the last one, the signal's default action is restored, as in libev."""
        watchers = self._watchers.get(signum, {})
        watchers.pop(watcher, None)
        if not watchers and self._watchers.pop(signum, None) is not None and not self._loop.asyncio_loop.is_closed():
            self._loop.asyncio_loop.remove_signal_handler(signum)

    def move(self) -> None:
        """In a forked child: register the signals with the new loop below."""
        for signum in self._watchers:
            self._loop.asyncio_loop.add_signal_handler(signum, self._arrived, signum)

    def _arrived(self, signum: int) -> None:
        for watcher in tuple(self._watchers.get(signum, ())):
            self._loop._feed(watcher, SIGNAL)

    @property
    def is_pending(self) -> bool:
        """Whether a signal was not delivered to its watchers yet."""
        return any(watcher._events for watchers in self._watchers.values() for watcher in watchers)
