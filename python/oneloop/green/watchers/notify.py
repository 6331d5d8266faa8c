"""`AsyncWatcher` and `SignalWatcher`: report a call in another thread, and a signal."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from oneloop.green.watchers.events import ASYNC
from oneloop.green.watchers.watcher import Watcher

if TYPE_CHECKING:
    from oneloop.green.loop import GreenLoop

__all__ = ["AsyncWatcher", "SignalWatcher"]


class AsyncWatcher(Watcher):
    """Called after `send`."""

    __slots__ = ("_is_sent",)

    def __init__(self, loop: GreenLoop, ref: bool = True, priority: int | None = None) -> None:
        super().__init__(loop, ref, priority)
        # Set by any thread, cleared by the loop's thread.
        self._is_sent = False

    def send(self) -> None:
        """Schedule the callback. If it is scheduled already, it still runs only once.

        Callable from any thread and from signal handlers.

        Raises:
            ValueError: the loop is destroyed.
        """
        self.loop._check_live()
        if self._is_active and not self._is_sent:
            self._is_sent = True
            self.loop._send(self)

    def send_ignoring_arg(self, _ignored: object) -> None:
        """Like `send`, for callers that pass an argument."""
        self.send()

    def _received(self) -> None:
        self._is_sent = False
        if self._is_active:
            self.loop._feed(self, ASYNC)

    def _rearm(self) -> None:
        self._is_sent = False

    @property
    def pending(self) -> bool:
        """Whether `send` was called and the callback has not run yet."""
        return self._is_sent or self._events != 0


class SignalWatcher(Watcher):
    """Called when a signal has arrived. While active, it replaces Python's handler of the signal. Main thread only.

    Raises:
        ValueError: there is no such signal.
        RuntimeError: it was started in another thread.
    """

    __slots__ = ("_signum",)

    def __init__(self, loop: GreenLoop, signum: int, ref: bool = True, priority: int | None = None) -> None:
        super().__init__(loop, ref, priority)
        if not 1 <= signum < signal.NSIG:
            raise ValueError(f"illegal signal number: {signum!r}")
        self._signum = int(signum)

    def _arm(self) -> None:
        self.loop._signals.add(self._signum, self)

    def _disarm(self) -> None:
        self.loop._signals.discard(self._signum, self)

    def _rearm(self) -> None:
        """Do nothing: the loop moves all signal watchers together."""

    def _described(self) -> str:
        return f" signum={self._signum}"
