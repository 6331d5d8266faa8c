"""`GreenLoop`: `get_hub().loop`, gevent's interface of an event loop, on one of oneloop's.

It knows watchers and callbacks; who runs the loop below, and how its turns are taken, is said by its subclasses.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections import deque
from select import POLLIN, poll  # the interpreter's own, whatever is patched later
from typing import TYPE_CHECKING, Any, Protocol

from oneloop.green.callback import Callback
from oneloop.green.watchers import (
    AsyncWatcher,
    CheckWatcher,
    ChildWatcher,
    ForkWatcher,
    IdleWatcher,
    IoWatcher,
    PrepareWatcher,
    SignalWatcher,
    StatWatcher,
    TimerWatcher,
    Watcher,
)
from oneloop.green.watchers.children import Children
from oneloop.green.watchers.events import CHECK, CUSTOM, IDLE, MAXPRI, MINPRI, PREPARE
from oneloop.green.watchers.ports import Ports
from oneloop.green.watchers.signals import Signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.loop import Loop

__all__ = ["GreenLoop"]

# So many callbacks run between two looks at the clock.
_CALLBACKS_PER_LOOK = 50
# The function of this moment: patching replaces it.
_time = time.time
_monotonic = time.monotonic
_EVENTS: dict[type[Watcher], int] = {IdleWatcher: IDLE, PrepareWatcher: PREPARE, CheckWatcher: CHECK}


class Alarm(Protocol):
    """A call at a time."""

    def cancel(self) -> None:
        """Do not call."""


class GreenLoop:
    """Watchers and callbacks on an event loop. For the loop's thread, unless a method says otherwise.

    Every method raises ValueError when the loop is destroyed.
    """

    approx_timer_resolution = 0.00001
    """About the shortest time that a timer can take, in seconds."""
    MAXPRI = MAXPRI
    MINPRI = MINPRI
    WatcherType = Watcher
    """The class of all watchers."""

    error_handler: Any = None
    """What gets exceptions of callbacks: a function `(context, type, value, traceback)`, or what has such a method
    `handle_error`."""

    def __init__(self, asyncio_loop: Loop, default: bool) -> None:
        self.asyncio_loop = asyncio_loop
        """The loop below, for coroutines."""
        self._default = default
        self._actives: set[Watcher] = set()
        # Reasons to go on: watchers that are active and count.
        self._refs = 0
        self._pending: deque[Watcher] = deque()
        # Any thread appends.
        self._callbacks: deque[Callback] = deque()
        self._sent: deque[AsyncWatcher] = deque()
        self._turned: dict[type[Watcher], dict[Watcher, None]] = {
            kind: {} for kind in (IdleWatcher, PrepareWatcher, CheckWatcher, ForkWatcher)
        }
        self._ports = Ports(self)
        self._signals = Signals(self)
        self._children = Children(self)
        self._now_s = _time()
        self._iterations = 0
        self._depth = 0

    # -- what the subclasses define --------------------------------------------------------------------

    def _wake(self) -> None:
        """Something is to be done."""
        raise NotImplementedError

    def _wake_from_anywhere(self) -> None:
        """The same, said by any thread."""
        raise NotImplementedError

    def _add_fd(self, fd: int, is_write: bool, callback: Callable[[], object]) -> None:
        self.asyncio_loop._add_callback_for(fd, is_write, callback, ())

    def _remove_fd(self, fd: int, is_write: bool) -> None:
        self.asyncio_loop._remove_callback_for(fd, is_write)

    def _alarm_at(self, when_s: float, callback: Callable[[], object], ref: bool) -> Alarm:
        return self.asyncio_loop.call_at(when_s, callback)

    def _call(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        callback(*args)

    def run(self, nowait: bool = False, once: bool = False) -> None:
        """Run until nothing is left to wait for; with `nowait`, what is ready now; with `once`, one turn."""
        raise NotImplementedError

    def break_(self, how: int = 1) -> None:
        """Have `run` return at the end of this turn."""
        raise NotImplementedError

    def destroy(self) -> bool | None:
        """Close the loop; nothing if it is closed. True if it was closed now."""
        raise NotImplementedError

    def reinit(self) -> None:
        """In the child of a fork: have descriptors of its own."""
        raise NotImplementedError

    # -- watchers --------------------------------------------------------------------------------------

    def io(self, fd: int, events: int, ref: bool = True, priority: int | None = None) -> IoWatcher:
        """Watch a descriptor: events 1 is readable, 2 is writable. OSError if it is none."""
        return IoWatcher(self, fd, events, ref, priority)

    def timer(self, after: float, repeat: float = 0.0, ref: bool = True, priority: int | None = None) -> TimerWatcher:
        """Watch the time: after so many seconds, and then every `repeat` seconds."""
        return TimerWatcher(self, after, repeat, ref, priority)

    def signal(self, signum: int, ref: bool = True, priority: int | None = None) -> SignalWatcher:
        """Watch a signal; main thread only."""
        return SignalWatcher(self, signum, ref, priority)

    def idle(self, ref: bool = True, priority: int | None = None) -> IdleWatcher:
        """Watch for turns in which nothing else happens."""
        return IdleWatcher(self, ref, priority)

    def prepare(self, ref: bool = True, priority: int | None = None) -> PrepareWatcher:
        """Watch the moment before the loop waits."""
        return PrepareWatcher(self, ref, priority)

    def check(self, ref: bool = True, priority: int | None = None) -> CheckWatcher:
        """Watch the moment after it has waited."""
        return CheckWatcher(self, ref, priority)

    def fork(self, ref: bool = True, priority: int | None = None) -> ForkWatcher:
        """Watch forks, in the child."""
        return ForkWatcher(self, ref, priority)

    def async_(self, ref: bool = True, priority: int | None = None) -> AsyncWatcher:
        """Watch for signs of other threads: its `send`."""
        return AsyncWatcher(self, ref, priority)

    locals()["async"] = async_

    def child(self, pid: int, trace: int = 0, ref: bool = True) -> ChildWatcher:
        """Watch a child process; 0: all."""
        return ChildWatcher(self, pid, trace, ref)

    def stat(self, path: str, interval: float = 0.0, ref: bool = True, priority: int | None = None) -> StatWatcher:
        """Watch a path."""
        return StatWatcher(self, path, interval, ref, priority)

    def install_sigchld(self) -> None:
        """Nothing to be done: children are watched by their descriptors."""

    def reset_sigchld(self) -> None:
        """Listen to SIGCHLD no more, if watchers did."""
        self._children.reset()

    def closing_fd(self, fd: int) -> bool:
        """Call the watchers of a descriptor that is about to be closed, in a later turn. False if there are none."""
        return self._ports.closing(fd)

    def ref(self) -> None:
        """One more reason to go on."""
        self._change_refs(1)

    def unref(self) -> None:
        """One less."""
        self._change_refs(-1)

    # -- callbacks -------------------------------------------------------------------------------------

    def run_callback(self, function: Callable[..., object], *args: Any) -> Callback:
        """Call a function on the hub soon; it may not block."""
        self._check_live()
        callback = Callback(function, args)
        self._callbacks.append(callback)
        self._wake()
        return callback

    def run_callback_threadsafe(self, function: Callable[..., object], *args: Any) -> Callback:
        """The same from any thread."""
        self._check_live()
        callback = Callback(function, args)
        self._callbacks.append(callback)
        self._wake_from_anywhere()
        return callback

    # -- errors ----------------------------------------------------------------------------------------

    def handle_error(self, context: object, kind: Any, value: Any, trace: Any) -> None:
        """What becomes of an exception in a callback: `error_handler`, or else a report, and the loop's end."""
        handler = self.error_handler
        if handler is None:
            traceback.print_exception(kind, value, trace)
            self.break_()
        else:
            getattr(handler, "handle_error", handler)(context, kind, value, trace)

    def _report(self, context: object, error: BaseException) -> None:
        self.handle_error(context, type(error), error, error.__traceback__)

    # -- what it is ------------------------------------------------------------------------------------

    @property
    def _is_destroyed(self) -> bool:
        return self.asyncio_loop.is_closed()

    def _check_live(self) -> None:
        if self._is_destroyed:
            raise ValueError("operation on destroyed loop")

    @property
    def ptr(self) -> int:
        """0 when the loop is destroyed."""
        return 0 if self._is_destroyed else id(self)

    @property
    def default(self) -> bool:
        """Whether it is the main thread's."""
        return self._default and not self._is_destroyed

    @property
    def iteration(self) -> int:
        """How many turns it has taken."""
        self._check_live()
        return self._iterations

    @property
    def depth(self) -> int:
        """How many `run` are in progress."""
        self._check_live()
        return self._depth

    @property
    def pendingcnt(self) -> int:
        """How many watchers have something to tell."""
        self._check_live()
        return sum(1 for watcher in tuple(self._pending) if watcher._events)

    @property
    def activecnt(self) -> int:
        """How many reasons there are to go on, callbacks included."""
        self._check_live()
        return self._refs + len(self._callbacks)

    @property
    def backend(self) -> str:
        """`"epoll"`."""
        self._check_live()
        return "epoll"

    @property
    def backend_int(self) -> int:
        """Libev's number of it."""
        self._check_live()
        return 4

    @property
    def origflags(self) -> list[str | int]:
        """None were given that would change anything."""
        return []

    @property
    def origflags_int(self) -> int:
        """The same as a number."""
        return 0

    @property
    def sig_pending(self) -> bool:
        """Whether a signal has arrived, or a child that is watched has ended, and the watchers were not told yet."""
        waited = poll()
        for fd in self._children.descriptors():
            waited.register(fd, POLLIN)
        signals = self.asyncio_loop._ssock
        if signals is not None:
            waited.register(signals, POLLIN)
        return self._signals.is_pending or bool(waited.poll(0))

    def fileno(self) -> int | None:
        """None: the loop's descriptor is nobody else's."""
        return None

    def verify(self) -> None:
        """ValueError if the loop is destroyed."""
        self._check_live()

    def now(self) -> float:
        """The time of this turn, in seconds since the epoch."""
        self._check_live()
        return self._now_s

    def update_now(self) -> None:
        """Look at the clock."""
        self._check_live()
        self._now_s = _time()

    def update(self) -> None:
        """Deprecated name of `update_now`."""
        warnings.warn("'update' is deprecated; use 'update_now'", DeprecationWarning, stacklevel=2)
        self.update_now()

    def _format(self) -> str:
        if self._is_destroyed:
            return "destroyed"
        default = " default" if self.default else ""
        return f"{self.backend}{default} pending={self.pendingcnt} ref={self.activecnt}"

    def debug(self) -> list[str]:
        """The watchers that are active, in words."""
        return [repr(watcher) for watcher in self._actives]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {hex(id(self))} {self._format()}>"

    # -- for watchers ----------------------------------------------------------------------------------

    def _activated(self, watcher: Watcher) -> None:
        self._actives.add(watcher)
        if watcher._ref:
            self._change_refs(1)

    def _deactivated(self, watcher: Watcher) -> None:
        self._actives.discard(watcher)
        if watcher._ref:
            self._change_refs(-1)

    def _change_refs(self, by: int) -> None:
        self._refs += by

    def _watch(self, watcher: IoWatcher) -> None:
        self._ports.add(watcher)

    def _unwatch(self, watcher: IoWatcher) -> None:
        self._ports.discard(watcher)

    def _feed(self, watcher: Watcher, events: int) -> None:
        """Something has happened: the watcher is pending."""
        if not watcher._events:
            self._pending.append(watcher)
        watcher._events |= events or CUSTOM
        self._wake()

    def _send(self, watcher: AsyncWatcher) -> None:
        """Any thread."""
        self._sent.append(watcher)
        self._wake_from_anywhere()

    # -- parts of a turn, for subclasses -----------------------------------------------------------------

    def _receive(self) -> None:
        while self._sent:
            self._sent.popleft()._received()

    def _feed_turned(self, kind: type[Watcher]) -> None:
        for watcher in tuple(self._turned[kind]):
            self._feed(watcher, _EVENTS[kind])

    def _call_pending(self) -> None:
        pending = self._pending
        if len(pending) > 1 and any(watcher._priority for watcher in pending):
            ordered = sorted(pending, key=_urgency)
            pending.clear()
            pending.extend(ordered)
        while pending:
            pending.popleft()._call()

    def _run_callbacks(self) -> None:
        """Those that there are, and those that come meanwhile, unless others would have to wait for too long."""
        callbacks = self._callbacks
        end_s = _monotonic() + sys.getswitchinterval()
        left = _CALLBACKS_PER_LOOK
        while callbacks:
            self._run_callback(callbacks.popleft())
            left -= 1
            if not left:
                if _monotonic() >= end_s:
                    return
                left = _CALLBACKS_PER_LOOK

    def _run_callback(self, one: Callback) -> None:
        function, args = one.callback, one.args
        one.callback = None
        if function is None or args is None:
            return
        try:
            self._call(function, args)
        except BaseException as error:  # noqa: BLE001 - it is the error handler's
            self._report(one, error)
        finally:
            one.args = None


def _urgency(watcher: Watcher) -> int:
    return -watcher._priority
