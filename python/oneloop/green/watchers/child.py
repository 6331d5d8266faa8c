"""`ChildWatcher`: reports the end of a child process; and `Children`, those of a loop, by process.

A watched process has a pidfd (pidfd_open(2)), so that no other children are waited for. If there is no pidfd, if all
children are watched, or if stops are watched too, SIGCHLD is used.
"""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import TYPE_CHECKING

from oneloop.green.watchers.events import CHILD
from oneloop.green.watchers.notify import SignalWatcher
from oneloop.green.watchers.watcher import Watcher

if TYPE_CHECKING:
    from oneloop.green.loop import GreenLoop

__all__ = ["ChildWatcher", "Children"]

# The status of a child whose status was collected by other code.
_UNKNOWN_STATUS = 255 << 8
# The original functions, even if patching replaces them later.
_waitpid = os.waitpid
_close = os.close


class ChildWatcher(Watcher):
    """Called when a child process has ended; with `trace`, also when it stops or continues. Collects its status.

    `pid` 0 means any child of this process: the watcher collects the statuses of all children. If other code has
    collected the status of a watched child, `rstatus` reports exit status 255.

    Raises:
        TypeError: the loop is not the default one, that of the main thread.
    """

    __slots__ = ("pid", "rpid", "rstatus", "trace")

    def __init__(self, loop: GreenLoop, pid: int, trace: int = 0, ref: bool = True) -> None:
        super().__init__(loop, ref)
        if not loop.default:
            raise TypeError("child watchers are only available on the default loop")
        self.pid = int(pid)
        self.trace = int(trace)
        self.rpid = 0
        """The process id of the child that has changed."""
        self.rstatus = 0
        """The status in the form of `os.waitpid`."""

    def _arm(self) -> None:
        self.loop._children.add(self)

    def _disarm(self) -> None:
        self.loop._children.discard(self)

    def _described(self) -> str:
        return f" pid={self.pid} rpid={self.rpid} rstatus={self.rstatus}"


class Children:
    """The child watchers of a loop."""

    def __init__(self, loop: GreenLoop) -> None:
        self._loop = loop
        self._watchers: dict[int, list[ChildWatcher]] = {}
        self._pidfds: dict[int, int] = {}
        # The process ids that are watched through SIGCHLD.
        self._signalled: set[int] = set()
        self._signal: SignalWatcher | None = None

    def add(self, watcher: ChildWatcher) -> None:
        """Start watching a process."""
        pid = watcher.pid
        others = self._watchers.setdefault(pid, [])
        others.append(watcher)
        if pid in self._signalled or (pid in self._pidfds and not watcher.trace):
            return
        if not pid or watcher.trace or not self._open(pid):
            self._signalled.add(pid)
            self.listen()
            # The child may have ended already.
            self._loop.run_callback(self._look, pid)

    def discard(self, watcher: ChildWatcher) -> None:
        """Stop watching a process."""
        pid = watcher.pid
        others = self._watchers.get(pid, [])
        if watcher in others:
            others.remove(watcher)
        if not others:
            self._watchers.pop(pid, None)
            self._signalled.discard(pid)
            self._forget(pid)
            if not self._signalled:
                self.reset()

    def listen(self) -> None:
        """Listen to SIGCHLD."""
        if self._signal is None:
            self._signal = SignalWatcher(self._loop, signal.SIGCHLD, ref=False)
            self._signal.start(self._look_at_all)

    def reset(self) -> None:
        """Stop listening to SIGCHLD."""
        if self._signal is not None:
            self._signal.stop()
            self._signal = None

    def _open(self, pid: int) -> bool:
        try:
            pidfd = os.pidfd_open(pid)
        except (OSError, AttributeError):
            # The process has ended, or pidfd_open is not available: use SIGCHLD and waitpid.
            return False
        self._pidfds[pid] = pidfd
        self._loop._add_fd(pidfd, False, partial(self._look, pid))
        return True

    def _forget(self, pid: int) -> None:
        pidfd = self._pidfds.pop(pid, None)
        if pidfd is not None:
            self._loop._remove_fd(pidfd, False)
            _close(pidfd)

    def _look_at_all(self) -> None:
        for pid in sorted(self._signalled, reverse=True):
            self._look(pid)

    def _look(self, pid: int) -> None:
        while pid in self._watchers:
            flags = os.WNOHANG
            if any(watcher.trace for watcher in self._watchers[pid]):
                flags |= os.WUNTRACED | os.WCONTINUED
            try:
                found, status = _waitpid(pid or -1, flags)
            except ChildProcessError:
                if pid:
                    self._ended(pid, pid, _UNKNOWN_STATUS)
                return
            if not found:
                return
            self._ended(pid, found, status)
            if pid:
                return

    def _ended(self, key: int, pid: int, status: int) -> None:
        self._forget(key)
        for watcher in [*self._watchers.get(pid, ()), *self._watchers.get(0, ())]:
            watcher.rpid, watcher.rstatus = pid, status
            self._loop._feed(watcher, CHILD)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            self._signalled.discard(pid)

    def descriptors(self) -> list[int]:
        """The pidfds of the watched processes."""
        return list(self._pidfds.values())
