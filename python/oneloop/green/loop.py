"""`GreenLoop`: gevent's event loop interface (`get_hub().loop`), on top of a oneloop loop.

This class implements watchers and callbacks. Its subclasses define how the loop below is run and how turns are taken.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections import deque
from select import POLLIN, poll  # the original functions, even if patching replaces them later
from typing import TYPE_CHECKING, Any, Protocol

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
from oneloop.green.watchers.child import Children
from oneloop.green.watchers.events import CHECK, CUSTOM, IDLE, MAXPRI, MINPRI, PREPARE
from oneloop.green.watchers.ports import Ports
from oneloop.green.watchers.signals import Signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.loop import Loop

__all__ = ["Callback", "GreenLoop"]

# The number of callbacks that run between two checks of the clock.
_CALLBACKS_PER_CHECK = 50
# The original function, even if patching replaces it later.
_time = time.time
_monotonic = time.monotonic
_EVENTS: dict[type[Watcher], int] = {IdleWatcher: IDLE, PrepareWatcher: PREPARE, CheckWatcher: CHECK}


class Alarm(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""


class Callback:
    """The return value of `loop.run_callback`. True until it has run or was stopped. Use it in the loop's thread."""

    __slots__ = ("__weakref__", "args", "callback")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args: tuple[Any, ...] | None = args

    def stop(self) -> None:
        """Cancel the call. No effect if it was made."""
        self.callback = self.args = None

    close = stop

    def __bool__(self) -> bool:
        return self.args is not None

    @property
    def pending(self) -> bool:
        """Whether the call has not started and was not stopped."""
        return self.callback is not None

    def __repr__(self) -> str:
        if self.args is None:
            return f"<{type(self).__name__} at {hex(id(self))} stopped>"
        return f"<{type(self).__name__} at {hex(id(self))} callback={self.callback!r} args={self.args!r}>"


class GreenLoop:
    """Watchers and callbacks on an event loop. Use it only in the loop's thread, unless a method says otherwise.

    Most methods raise ValueError if the loop is destroyed.
    """

    approx_timer_resolution = 0.00001
    """The approximate resolution of timers, in seconds."""
    MAXPRI = MAXPRI
    MINPRI = MINPRI
    WatcherType = Watcher
    """The base class of all watchers."""

    error_handler: Any = None
    """Handles exceptions raised in callbacks.

    A function `(context, type, value, traceback)`, or an object with a method `handle_error` that takes these
    arguments.
    """

    def __init__(self, asyncio_loop: Loop, default: bool) -> None:
        self.asyncio_loop = asyncio_loop
        """The loop below, for coroutines."""
        self._default = default
        self._actives: set[Watcher] = set()
        # The number of active watchers that keep the loop alive, plus the balance of `ref()` and `unref()` calls.
        self._refs = 0
        self._pending: deque[Watcher] = deque()
        # Appended to by any thread.
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

    # -- hooks for subclasses --------------------------------------------------------------------------

    def _wake(self) -> None:
        """Schedule a turn; called when there is work."""
        raise NotImplementedError

    def _wake_later(self) -> None:
        """Schedule a turn, after the callbacks and green threads that are ready now or that these make ready."""
        self._wake()

    def _wake_from_anywhere(self) -> None:
        """Like `_wake`, but callable from any thread."""
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
        """Run until nothing is left to wait for.

        Args:
            nowait: run only what is ready now.
            once: run one turn.
        """
        raise NotImplementedError

    def break_(self, how: int = 1) -> None:
        """Make `run` return at the end of this turn."""
        raise NotImplementedError

    def destroy(self) -> bool | None:
        """Close the loop. True if this call closed it, None if it was closed before."""
        raise NotImplementedError

    def reinit(self) -> None:
        """In a forked child: replace the descriptors shared with the parent."""
        raise NotImplementedError

    # -- watchers --------------------------------------------------------------------------------------

    def io(self, fd: int, events: int, ref: bool = True, priority: int | None = None) -> IoWatcher:
        """A watcher for a file descriptor.

        Args:
            fd: the file descriptor.
            events: 1 for readable, 2 for writable, 3 for both.
            ref: whether the active watcher keeps the loop alive.
            priority: from `MINPRI` to `MAXPRI`; higher priorities are called first.

        Raises:
            OSError: `fd` is not a file descriptor.
        """
        return IoWatcher(self, fd, events, ref, priority)

    def timer(self, after: float, repeat: float = 0.0, ref: bool = True, priority: int | None = None) -> TimerWatcher:
        """A watcher that is called after `after` seconds, and then every `repeat` seconds unless that is 0."""
        return TimerWatcher(self, after, repeat, ref, priority)

    def signal(self, signum: int, ref: bool = True, priority: int | None = None) -> SignalWatcher:
        """A watcher for a signal; main thread only."""
        return SignalWatcher(self, signum, ref, priority)

    def idle(self, ref: bool = True, priority: int | None = None) -> IdleWatcher:
        """A watcher that is called in turns in which nothing else happens."""
        return IdleWatcher(self, ref, priority)

    def prepare(self, ref: bool = True, priority: int | None = None) -> PrepareWatcher:
        """A watcher that is called before the loop polls."""
        return PrepareWatcher(self, ref, priority)

    def check(self, ref: bool = True, priority: int | None = None) -> CheckWatcher:
        """A watcher that is called after the loop has polled."""
        return CheckWatcher(self, ref, priority)

    def fork(self, ref: bool = True, priority: int | None = None) -> ForkWatcher:
        """A watcher that is called in the child after a fork."""
        return ForkWatcher(self, ref, priority)

    def async_(self, ref: bool = True, priority: int | None = None) -> AsyncWatcher:
        """A watcher that any thread can trigger with its `send` method."""
        return AsyncWatcher(self, ref, priority)

    locals()["async"] = async_

    def child(self, pid: int, trace: int = 0, ref: bool = True) -> ChildWatcher:
        """A watcher for the end of a child process; pid 0 means any child."""
        return ChildWatcher(self, pid, trace, ref)

    def stat(self, path: str, interval: float = 0.0, ref: bool = True, priority: int | None = None) -> StatWatcher:
        """A watcher for changes of a path's `stat` result."""
        return StatWatcher(self, path, interval, ref, priority)

    def install_sigchld(self) -> None:
        """Do nothing: children are watched through their process descriptors."""

    def reset_sigchld(self) -> None:
        """Stop listening to SIGCHLD, if watchers did."""
        self._children.reset()

    def closing_fd(self, fd: int) -> bool:
        """Call the watchers of a descriptor that is about to be closed, in a later turn. False if there are none."""
        return self._ports.closing(fd)

    def ref(self) -> None:
        """Increment the count that keeps the loop alive."""
        self._change_refs(1)

    def unref(self) -> None:
        """Decrement the count that keeps the loop alive."""
        self._change_refs(-1)

    # -- callbacks -------------------------------------------------------------------------------------

    def run_callback(self, function: Callable[..., object], *args: Any) -> Callback:
        """Call a function on the hub soon. The function must not block."""
        self._check_live()
        callback = Callback(function, args)
        self._callbacks.append(callback)
        self._wake()
        return callback

    def run_callback_threadsafe(self, function: Callable[..., object], *args: Any) -> Callback:
        """Like `run_callback`, but callable from any thread."""
        self._check_live()
        callback = Callback(function, args)
        self._callbacks.append(callback)
        self._wake_from_anywhere()
        return callback

    # -- errors ----------------------------------------------------------------------------------------

    def handle_error(self, context: object, kind: Any, value: Any, trace: Any) -> None:
        """Handle an exception in a callback: call `error_handler`; without one, print a report and stop the loop."""
        handler = self.error_handler
        if handler is None:
            traceback.print_exception(kind, value, trace)
            self.break_()
        else:
            getattr(handler, "handle_error", handler)(context, kind, value, trace)

    def _report(self, context: object, error: BaseException) -> None:
        self.handle_error(context, type(error), error, error.__traceback__)

    # -- properties ------------------------------------------------------------------------------------

    @property
    def _is_destroyed(self) -> bool:
        return self.asyncio_loop.is_closed()

    def _check_live(self) -> None:
        if self._is_destroyed:
            raise ValueError("operation on destroyed loop")

    @property
    def ptr(self) -> int:
        """A nonzero number, or 0 if the loop is destroyed."""
        return 0 if self._is_destroyed else id(self)

    @property
    def default(self) -> bool:
        """Whether this is the main thread's loop."""
        return self._default and not self._is_destroyed

    @property
    def iteration(self) -> int:
        """The number of turns taken."""
        self._check_live()
        return self._iterations

    @property
    def depth(self) -> int:
        """The number of `run` calls in progress."""
        self._check_live()
        return self._depth

    @property
    def pendingcnt(self) -> int:
        """The number of watchers with an event that was not delivered yet."""
        self._check_live()
        return sum(1 for watcher in tuple(self._pending) if watcher._events)

    @property
    def activecnt(self) -> int:
        """The number of references that keep the loop alive, including scheduled callbacks."""
        self._check_live()
        return self._refs + len(self._callbacks)

    @property
    def backend(self) -> str:
        """The name of the backend: `"epoll"`."""
        self._check_live()
        return "epoll"

    @property
    def backend_int(self) -> int:
        """Libev's number of the backend."""
        self._check_live()
        return 4

    @property
    def origflags(self) -> list[str | int]:
        """The flags that were passed; empty, because none are accepted here."""
        return []

    @property
    def origflags_int(self) -> int:
        """The flags as an integer: 0."""
        return 0

    @property
    def sig_pending(self) -> bool:
        """Whether a signal or the end of a watched child was not delivered to its watchers yet."""
        waited = poll()
        for fd in self._children.descriptors():
            waited.register(fd, POLLIN)
        signals = self.asyncio_loop._ssock
        if signals is not None:
            waited.register(signals, POLLIN)
        return self._signals.is_pending or bool(waited.poll(0))

    def fileno(self) -> int | None:
        """None: the loop does not expose its descriptor."""
        return None

    def verify(self) -> None:
        """Raise ValueError if the loop is destroyed."""
        self._check_live()

    def now(self) -> float:
        """The cached time of this turn, in seconds since the epoch."""
        self._check_live()
        return self._now_s

    def update_now(self) -> None:
        """Update the cached time from the clock."""
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
        """The `repr` of each active watcher."""
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
        """Mark the watcher as pending, because its event occurred."""
        if not watcher._events:
            self._pending.append(watcher)
        watcher._events |= events or CUSTOM
        self._wake()

    def _send(self, watcher: AsyncWatcher) -> None:
        """Deliver an async watcher's `send`. Callable from any thread."""
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
        """Run the queued callbacks and those they add, until the switch interval is over."""
        callbacks = self._callbacks
        end_s = _monotonic() + sys.getswitchinterval()
        left = _CALLBACKS_PER_CHECK
        while callbacks:
            self._run_callback(callbacks.popleft())
            left -= 1
            if not left:
                if _monotonic() >= end_s:
                    return
                left = _CALLBACKS_PER_CHECK

    def _run_callback(self, one: Callback) -> None:
        function, args = one.callback, one.args
        one.callback = None
        if function is None or args is None:
            return
        try:
            self._call(function, args)
        except BaseException as error:  # noqa: BLE001 - passed to the error handler
            self._report(one, error)
        finally:
            one.args = None


def _urgency(watcher: Watcher) -> int:
    return -watcher._priority
