"""`IdleWatcher`, `PrepareWatcher`, `CheckWatcher`, `ForkWatcher`: report steps of the loop, and forks."""

from __future__ import annotations

from oneloop.green.watchers.watcher import Watcher

__all__ = ["CheckWatcher", "ForkWatcher", "IdleWatcher", "PrepareWatcher"]


class _TurnWatcher(Watcher):
    __slots__ = ()

    def _arm(self) -> None:
        self.loop._turned[type(self)][self] = None
        self.loop._wake_later()

    def _disarm(self) -> None:
        self.loop._turned[type(self)].pop(self, None)


class IdleWatcher(_TurnWatcher):
    """Called whenever the loop has nothing else to do. While it is active, the loop does not sleep."""

    __slots__ = ()


class PrepareWatcher(_TurnWatcher):
    """Called before the loop waits for descriptors and timers."""

    __slots__ = ()


class CheckWatcher(_TurnWatcher):
    """Called after the loop has waited for descriptors and timers."""

    __slots__ = ()


class ForkWatcher(_TurnWatcher):
    """Called once in the child after a fork."""

    __slots__ = ()
