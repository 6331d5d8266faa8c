"""`ChildWatcher`: reports the end of a child process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oneloop.green.watchers.watcher import Watcher

if TYPE_CHECKING:
    from oneloop.green.loop import GreenLoop

__all__ = ["ChildWatcher"]


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
