"""`HubLoop`: the `GreenLoop` of a hub: watchers and callbacks on the loop that the hub runs.

Callbacks run on the hub, in callbacks of the loop below; they must not block. If the callback is the `switch` or
`throw` method of a greenlet, the hub resumes that greenlet as if it had been woken. Iterations without work for
watchers (green threads that wake each other, coroutines) do not call the idle, prepare and check watchers.
"""

from __future__ import annotations

import contextvars
import functools
import os
import weakref
from typing import TYPE_CHECKING, Any

from greenlet import GreenletExit, getcurrent
from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

from oneloop import _native
from oneloop.green.exceptions import LoopExit
from oneloop.green.loop import Callback, GreenLoop
from oneloop.green.unref import UnrefPoller, UnrefTimer
from oneloop.green.watchers import CheckWatcher, ForkWatcher, IdleWatcher, PrepareWatcher
from oneloop.green.watchers.events import FORK
from oneloop.interrupts import is_main_thread

if TYPE_CHECKING:
    from asyncio import Handle
    from collections.abc import Callable

    from oneloop.green.hub import Hub
    from oneloop.green.loop import Alarm
    from oneloop.green.watchers import Watcher

__all__ = ["HubLoop"]

_close = os.close


class HubLoop(GreenLoop):
    """Gevent's interface of the hub's event loop: `get_hub().loop`."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub.asyncio_loop, is_main_thread())
        self._hub = hub
        self._turn: Handle | None = None
        self._context = contextvars.Context()
        self._is_stopping = False
        # An eventfd that never becomes readable. It is registered while active watchers with `ref` keep the loop alive,
        # because the loop below does not know about them.
        self._hold_fd = -1
        self._unref_poller: UnrefPoller | None = None
        if hub.is_owner:
            self._unref_poller = UnrefPoller(hub.asyncio_loop)
            self._hold_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        _all.add(self)
        _follow_forks()

    # -- references that keep the loop alive -------------------------------------------------------------

    def _change_refs(self, by: int) -> None:
        before, self._refs = self._refs, self._refs + by
        if self._hold_fd < 0 or self._is_destroyed:
            return
        if before <= 0 < self._refs:
            self.asyncio_loop._add_callback_for(self._hold_fd, False, _nothing, ())
        elif self._refs <= 0 < before:
            self.asyncio_loop._remove_callback_for(self._hold_fd, False)

    def _add_fd(self, fd: int, is_write: bool, callback: Callable[[], object]) -> None:
        if self._unref_poller is not None:
            self._unref_poller.add(fd, is_write, callback)
        else:
            super()._add_fd(fd, is_write, callback)

    def _remove_fd(self, fd: int, is_write: bool) -> None:
        if self._unref_poller is None:
            super()._remove_fd(fd, is_write)
        elif not self._is_destroyed:
            self._unref_poller.remove(fd, is_write)

    def _alarm_at(self, when_s: float, callback: Callable[[], object], ref: bool) -> Alarm:
        if ref or self._unref_poller is None:
            return self.asyncio_loop.call_at(when_s, callback)
        return UnrefTimer(self._unref_poller, when_s, callback)

    def unref_timer(self, seconds: float, callback: Callable[[], object]) -> Alarm:
        """Call a function on the hub after `seconds` seconds. The timer does not keep the loop alive."""
        return self._alarm_at(self.asyncio_loop.time() + seconds, callback, False)

    # -- turns -------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._turn is None and not self._is_destroyed:
            self._turn = self.asyncio_loop.call_soon(self._take_turn, context=self._context)

    def _wake_later(self) -> None:
        if self._turn is None and not self._is_destroyed:
            self._turn = self.asyncio_loop.call_soon(self._wake_again, context=self._context)

    def _wake_again(self) -> None:
        self._turn = None
        self._wake()

    def _wake_from_anywhere(self) -> None:
        try:
            self.asyncio_loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            # The loop's thread destroyed it at this moment; nothing waits for the callback.
            if not self._is_destroyed:
                raise

    def run_callback(self, function: Callable[..., object], *args: Any) -> Callback:
        """Call a function on the hub soon, in order with the green threads that are started. It must not block."""
        self._check_live()
        callback = Callback(function, args)
        self._callbacks.append(callback)
        self.asyncio_loop.call_soon(self._run_next, context=self._context)
        return callback

    def run_callback_threadsafe(self, function: Callable[..., object], *args: Any) -> Callback:
        """Like `run_callback`, but callable from any thread."""
        self._check_live()
        callback = Callback(function, args)
        self._callbacks.append(callback)
        self.asyncio_loop.call_soon_threadsafe(self._run_next, context=self._context)
        return callback

    def _run_next(self) -> None:
        if self._callbacks:
            self._run_callback(self._callbacks.popleft())

    def _take_turn(self) -> None:
        self._turn = None
        self._iterations += 1
        self.update_now()
        turned = self._turned
        try:
            self._receive()
            self._ports.feed_always_ready()
            if not self._pending and turned[IdleWatcher]:
                self._feed_turned(IdleWatcher)
            self._feed_turned(CheckWatcher)
            self._call_pending()
            self._feed_turned(PrepareWatcher)
            self._call_pending()
        finally:
            self._is_over()
        if self._is_stopping:
            self.asyncio_loop.stop()

    def _is_over(self) -> None:
        """Schedule the next turn if work is left that did not schedule one."""
        if self._is_destroyed:
            return
        # Events that this turn fed and already handled need no further turn.
        if not (self._pending or self._sent) and self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self._pending or self._sent or self._turned[IdleWatcher] or self._ports.always_ready:
            self._wake()

    def _call(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        greenlet = getattr(callback, "__self__", None)
        if isinstance(greenlet, RawGreenlet):
            name = getattr(callback, "__name__", "")
            if name == "switch":
                self._switch_soon(greenlet, args)
                return
            if name == "throw":
                self._hub.throw_soon(greenlet, raised_by(args))
                return
        callback(*args)

    def _switch_soon(self, greenlet: RawGreenlet, args: tuple[Any, ...]) -> None:
        if not greenlet.dead:
            self._hub.start(RawGreenlet(lambda: _pass_on(greenlet, args)))

    def _report(self, context: object, error: BaseException) -> None:
        self.handle_error(context, type(error), error, error.__traceback__)

    def handle_error(self, context: object, kind: Any, value: Any, trace: Any) -> None:
        """Handle an exception in a callback: pass it to the hub."""
        self._hub.handle_error(context, kind, value, trace)

    # -- running without the hub -------------------------------------------------------------------------

    def run(self, nowait: bool = False, once: bool = False) -> None:
        """Run until nothing is left to wait for.

        Args:
            nowait: run only what is ready now.
            once: run one turn of the watchers.

        Raises:
            RuntimeError: the hub already runs the loop.
        """
        self._check_live()
        below = self.asyncio_loop
        if below.is_running():
            raise RuntimeError("the hub already runs this loop: run() is only for a loop that is not running")
        self._depth += 1
        if nowait:
            below.stop()
        self._is_stopping = once
        try:
            below.run_forever()
        except LoopExit:
            # Nothing is left to wait for.
            return
        finally:
            self._is_stopping = False
            self._depth -= 1

    def break_(self, how: int = 1) -> None:
        """Make `run` return at the end of this turn. No effect while the hub runs the loop."""
        self._check_live()
        if self._depth:
            self.asyncio_loop.stop()

    def destroy(self) -> bool | None:
        """Close the loop.

        Returns:
            True if this call closed it, None if it was closed before.

        Raises:
            RuntimeError: the loop is running.
        """
        if self._is_destroyed:
            return None
        self.asyncio_loop.close()
        return True

    def reinit(self) -> None:
        """Do nothing: a forked child gets a new hub and loop, which take over the fork watchers."""
        self._check_live()

    def let_go(self) -> None:
        """Clean up after the loop below was closed."""
        for watcher in tuple(self._actives):
            watcher.stop()
        self._pending.clear()
        self._callbacks.clear()
        if self._unref_poller is not None:
            self._unref_poller.close()
        if self._hold_fd >= 0:
            _close(self._hold_fd)
            self._hold_fd = -1

    def _adopt(self, watchers: list[Watcher]) -> None:
        """In a forked child: take over the fork watchers of the parent's loop."""
        for watcher in watchers:
            watcher.loop = self
            self._activated(watcher)
            self._turned[ForkWatcher][watcher] = None
            self._feed(watcher, FORK)


def _pass_on(greenlet: RawGreenlet, args: tuple[Any, ...]) -> Any:
    """Run in a new greenlet: resume `greenlet` with `args`."""
    if not greenlet and not greenlet.dead:
        # The greenlet has not started: start it here, so that its result and exceptions end here too.
        greenlet.parent = getcurrent()
        greenlet.switch(*args)
        return None
    # The return value of this function becomes the value that `greenlet` receives.
    if not greenlet.dead:
        getcurrent().parent = greenlet
    return args[0] if len(args) == 1 else args


def raised_by(args: tuple[Any, ...]) -> BaseException:
    """The exception that greenlet's `throw(*args)` would raise."""
    kind = args[0] if args else None
    if kind is None:
        return GreenletExit()
    if isinstance(kind, BaseException):
        return kind
    value = args[1] if len(args) > 1 else None
    error: BaseException = value if isinstance(value, BaseException) else kind() if value is None else kind(value)
    return error.with_traceback(args[2]) if len(args) > 2 else error


def _nothing() -> None:
    """Do nothing; never called."""


_all: weakref.WeakSet[HubLoop] = weakref.WeakSet()


def _tell_fork_watchers() -> None:
    """In a forked child: create a new hub, because the old one is the parent's, and call its fork watchers."""
    parents = list(_all)
    _all.clear()
    for parent in parents:
        watchers = list(parent._turned[ForkWatcher])
        if watchers and not parent._is_destroyed:
            hub: Any = _native.get_hub()
            hub.loop._adopt(watchers)


@functools.cache
def _follow_forks() -> None:
    """Once, and with the first loop: behind the calls that make a child forget its parent's hub."""
    os.register_at_fork(after_in_child=_tell_fork_watchers)
