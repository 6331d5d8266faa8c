"""`ChildWatcher`: a child process has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oneloop.green.watchers.watcher import Watcher

if TYPE_CHECKING:
    from oneloop.green.loop import GreenLoop

__all__ = ["ChildWatcher"]


class ChildWatcher(Watcher):
    """Calls when a child process has ended, which it waits for; with `trace`, when it stops or goes on, too.

    `pid` 0 means any child of this process; it takes the ends of all of them. One that somebody else has waited for
    ends with status 255, since nobody can tell any more.

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
        """Which process it was."""
        self.rstatus = 0
        """How it has ended, as `os.waitpid` tells it."""

    def _arm(self) -> None:
        self.loop._children.add(self)

    def _disarm(self) -> None:
        self.loop._children.discard(self)

    def _described(self) -> str:
        return f" pid={self.pid} rpid={self.rpid} rstatus={self.rstatus}"
