"""`HubLoop`: the `GreenLoop` of a hub of ours: watchers and callbacks on the loop that the hub runs.

Callbacks run on the hub, in a turn of their own; they may not block. One that is a greenlet's `switch` or `throw` has
the greenlet go on as if it had been woken. Turns in which watchers and callbacks have nothing to do (green threads that
wake each other, coroutines) are not told to idle, prepare and check watchers.
"""

from __future__ import annotations

import contextvars
import os
import weakref
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent
from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

from oneloop.green.callback import Callback
from oneloop.green.exceptions import LoopExit
from oneloop.green.loop import GreenLoop
from oneloop.green.quiet import QuietAlarm, QuietPoller
from oneloop.green.watchers import CheckWatcher, ForkWatcher, IdleWatcher, PrepareWatcher
from oneloop.green.watchers.events import FORK
from oneloop.signals import is_main_thread

if TYPE_CHECKING:
    from asyncio import Handle
    from collections.abc import Callable

    from oneloop.green.hub import Hub
    from oneloop.green.loop import Alarm
    from oneloop.green.watchers import Watcher

__all__ = ["HubLoop"]

_close = os.close


class HubLoop(GreenLoop):
    """`get_hub().loop`."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub.asyncio_loop, is_main_thread())
        self._hub = hub
        self._turn: Handle | None = None
        self._context = contextvars.Context()
        self._is_stopping = False
        # Readable never, and registered while there is something to wait for that the loop below does not know of.
        self._hold_fd = -1
        self._quiet: QuietPoller | None = None
        if hub.is_owner:
            self._quiet = QuietPoller(hub.asyncio_loop)
            self._hold_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        _all.add(self)

    # -- what counts as something to wait for ------------------------------------------------------------

    def _change_refs(self, by: int) -> None:
        before, self._refs = self._refs, self._refs + by
        if self._hold_fd < 0 or self._is_destroyed:
            return
        if before <= 0 < self._refs:
            self.asyncio_loop._add_callback_for(self._hold_fd, False, _nothing, ())
        elif self._refs <= 0 < before:
            self.asyncio_loop._remove_callback_for(self._hold_fd, False)

    def _add_fd(self, fd: int, is_write: bool, callback: Callable[[], object]) -> None:
        if self._quiet is not None:
            self._quiet.add(fd, is_write, callback)
        else:
            super()._add_fd(fd, is_write, callback)

    def _remove_fd(self, fd: int, is_write: bool) -> None:
        if self._quiet is None:
            super()._remove_fd(fd, is_write)
        elif not self._is_destroyed:
            self._quiet.remove(fd, is_write)

    def _alarm_at(self, when_s: float, callback: Callable[[], object], ref: bool) -> Alarm:
        if ref or self._quiet is None:
            return self.asyncio_loop.call_at(when_s, callback)
        return QuietAlarm(self._quiet, when_s, callback)

    def quiet_alarm(self, seconds: float, callback: Callable[[], object]) -> Alarm:
        """A call after so many seconds, on the hub, which does not count as something to wait for."""
        return self._alarm_at(self.asyncio_loop.time() + seconds, callback, False)

    # -- turns -------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._turn is None and not self._is_destroyed:
            self._turn = self.asyncio_loop.call_soon(self._take_turn, context=self._context)

    def _wake_from_anywhere(self) -> None:
        try:
            self.asyncio_loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            # Destroyed by its thread at this moment: nobody waits.
            if not self._is_destroyed:
                raise

    def run_callback(self, function: Callable[..., object], *args: Any) -> Callback:
        """Call a function on the hub soon, in the order in which green threads are started, too; it may not block."""
        self._check_live()
        callback = Callback(function, args)
        self._callbacks.append(callback)
        self.asyncio_loop.call_soon(self._run_next, context=self._context)
        return callback

    def run_callback_threadsafe(self, function: Callable[..., object], *args: Any) -> Callback:
        """The same from any thread."""
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
        """Something may be left for the next turn, and has not asked for one."""
        if self._is_destroyed:
            return
        # What this turn itself has fed needs none.
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
                self._hub.throw_soon(greenlet, _raised(args))
                return
        callback(*args)

    def _switch_soon(self, greenlet: RawGreenlet, args: tuple[Any, ...]) -> None:
        if not greenlet.dead:
            self._hub.start(RawGreenlet(lambda: _pass_on(greenlet, args)))

    def _report(self, context: object, error: BaseException) -> None:
        self.handle_error(context, type(error), error, error.__traceback__)

    def handle_error(self, context: object, kind: Any, value: Any, trace: Any) -> None:
        """What becomes of an exception in a callback: the hub says."""
        self._hub.handle_error(context, kind, value, trace)

    # -- for who has the loop and no hub -----------------------------------------------------------------

    def run(self, nowait: bool = False, once: bool = False) -> None:
        """Run until nothing is left to wait for; with `nowait`, what is ready now; with `once`, one turn of watchers.

        Raises:
            RuntimeError: the hub runs it.
        """
        self._check_live()
        below = self.asyncio_loop
        if below.is_running():
            raise RuntimeError("the hub runs this loop already")
        self._depth += 1
        if nowait:
            below.stop()
        self._is_stopping = once
        try:
            below.run_forever()
        except LoopExit:
            # Nothing is left.
            return
        finally:
            self._is_stopping = False
            self._depth -= 1

    def break_(self, how: int = 1) -> None:
        """Have `run` return at the end of this turn. Nothing where the hub runs the loop."""
        self._check_live()
        if self._depth:
            self.asyncio_loop.stop()

    def destroy(self) -> bool | None:
        """Close the loop; nothing if it is closed. True if it was closed now.

        Raises:
            RuntimeError: it runs.
        """
        if self._is_destroyed:
            return None
        self.asyncio_loop.close()
        return True

    def reinit(self) -> None:
        """Nothing: a forked child has a hub and a loop of its own, which get the fork watchers."""
        self._check_live()

    def let_go(self) -> None:
        """The loop below is closed."""
        for watcher in tuple(self._actives):
            watcher.stop()
        self._pending.clear()
        self._callbacks.clear()
        if self._quiet is not None:
            self._quiet.close()
        if self._hold_fd >= 0:
            _close(self._hold_fd)
            self._hold_fd = -1

    def _adopt(self, watchers: list[Watcher]) -> None:
        """In a forked child: the fork watchers of the parent's loop are ours."""
        for watcher in watchers:
            watcher.loop = self
            self._activated(watcher)
            self._turned[ForkWatcher][watcher] = None
            self._feed(watcher, FORK)


def _pass_on(greenlet: RawGreenlet, args: tuple[Any, ...]) -> Any:
    """In a greenlet of its own: another one goes on with what it is switched to with."""
    if not greenlet and not greenlet.dead:
        # It has not begun: it begins here, and what it ends with ends here.
        greenlet.parent = getcurrent()
        greenlet.switch(*args)
        return None
    # What we return is what it gets.
    if not greenlet.dead:
        getcurrent().parent = greenlet
    return args[0] if len(args) == 1 else args


def _raised(args: tuple[Any, ...]) -> BaseException:
    """What greenlet's `throw` would raise."""
    kind = args[0] if args else None
    if kind is None:
        from greenlet import GreenletExit

        return GreenletExit()
    if isinstance(kind, BaseException):
        return kind
    value = args[1] if len(args) > 1 else None
    error: BaseException = value if isinstance(value, BaseException) else kind() if value is None else kind(value)
    return error.with_traceback(args[2]) if len(args) > 2 else error


def _nothing() -> None:
    """Never called."""


_all: weakref.WeakSet[HubLoop] = weakref.WeakSet()


def _tell_fork_watchers() -> None:
    """In a forked child: the hub that waits is the parent's; a new one tells the fork watchers."""
    from oneloop.green.hub import get_hub

    parents = list(_all)
    _all.clear()
    for parent in parents:
        watchers = list(parent._turned[ForkWatcher])
        if watchers and not parent._is_destroyed:
            get_hub().loop._adopt(watchers)


os.register_at_fork(after_in_child=_tell_fork_watchers)
