"""Watchers of `get_hub().loop`: each calls a function on the hub when an event occurs; gevent's interface."""

from __future__ import annotations

from oneloop.green.watchers.child import ChildWatcher
from oneloop.green.watchers.io import IoWatcher
from oneloop.green.watchers.notify import AsyncWatcher, SignalWatcher
from oneloop.green.watchers.stat import StatWatcher
from oneloop.green.watchers.timer import TimerWatcher
from oneloop.green.watchers.turns import CheckWatcher, ForkWatcher, IdleWatcher, PrepareWatcher
from oneloop.green.watchers.watcher import Watcher

__all__ = [
    "AsyncWatcher",
    "CheckWatcher",
    "ChildWatcher",
    "ForkWatcher",
    "IdleWatcher",
    "IoWatcher",
    "PrepareWatcher",
    "SignalWatcher",
    "StatWatcher",
    "TimerWatcher",
    "Watcher",
]
