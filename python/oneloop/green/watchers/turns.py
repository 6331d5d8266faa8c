"""`IdleWatcher`, `PrepareWatcher`, `CheckWatcher`, `ForkWatcher`: what the loop itself does."""

from __future__ import annotations

from oneloop.green.watchers.watcher import Watcher

__all__ = ["CheckWatcher", "ForkWatcher", "IdleWatcher", "PrepareWatcher"]


class _TurnWatcher(Watcher):
    __slots__ = ()

    def _arm(self) -> None:
        self.loop._turned[type(self)][self] = None
        self.loop._wake()

    def _disarm(self) -> None:
        self.loop._turned[type(self)].pop(self, None)


class IdleWatcher(_TurnWatcher):
    """Calls whenever the loop has nothing else to do, which it then never waits for."""

    __slots__ = ()


class PrepareWatcher(_TurnWatcher):
    """Calls before the loop waits for descriptors and timers."""

    __slots__ = ()


class CheckWatcher(_TurnWatcher):
    """Calls after it has waited."""

    __slots__ = ()


class ForkWatcher(_TurnWatcher):
    """Calls in the child of a fork, once."""

    __slots__ = ()
