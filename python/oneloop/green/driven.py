"""`DrivenLoop`: a `GreenLoop` for a loop that no oneloop hub runs: its `run` method takes the turns.

Greenlets are switched between the turns of the loop below, never during one. So callbacks may switch to any greenlet,
as in gevent's own hub, while coroutines run on the loop below. In callbacks and greenlets, no loop counts as running;
coroutines see their loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import traceback
from asyncio import events
from typing import TYPE_CHECKING, Any

from oneloop import _native
from oneloop.green.exceptions import HubDestroyed
from oneloop.green.loop import GreenLoop
from oneloop.green.wakers import is_alone
from oneloop.green.watchers import (
    CheckWatcher,
    ForkWatcher,
    IdleWatcher,
    PrepareWatcher,
    SignalWatcher,
    StatWatcher,
    TimerWatcher,
)
from oneloop.green.watchers.events import FORK
from oneloop.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DrivenLoop"]

# The original functions, even if patching replaces them later.
_getpid = os.getpid
_listdir = os.listdir
_set_running_loop = events._set_running_loop
_get_running_loop = events._get_running_loop
_run_core = _native.LoopCore._run


class _LoopBelow(Loop):
    """The loop below. It is closed without a warning when it is garbage collected."""

    __slots__ = ("driver",)

    def __init__(self) -> None:
        super().__init__()
        self.driver: DrivenLoop | None = None
        self._serve_green_threads_only()

    def _is_alone(self, is_only_thread: bool, /) -> bool:
        return is_alone(is_only_thread)

    def _nothing_to_wait_for(self) -> None:
        if self.driver is not None and self.driver._refs <= 0:
            # The loop would sleep forever: return to the driver, which checks whether anything is left.
            self.stop()

    def __del__(self) -> None:
        # Programs on gevent do not destroy their hubs, so a ResourceWarning would be noise.
        if not self.is_closed() and not self.is_running() and not sys.is_finalizing():
            self.close()


class DrivenLoop(GreenLoop):
    """Gevent's loop, run by its `run` method.

    Args:
        default: whether it is the main thread's loop, which can watch children; None means true.
    """

    ends: tuple[type[BaseException], ...] = (HubDestroyed,)
    """Exceptions that end `run` when a callback raises them."""

    def __init__(self, default: bool | None = None) -> None:
        below = _LoopBelow()
        super().__init__(below, True if default is None else bool(default))
        below.driver = self
        self._is_polling = False
        self._is_broken = False
        self._pid = _getpid()
        self._leave: Callable[[], object] | None = None

    # -- running ---------------------------------------------------------------------------------------

    def run(self, nowait: bool = False, once: bool = False) -> None:
        """Run until nothing is left to wait for.

        Args:
            nowait: run only what is ready now.
            once: run one turn.

        Raises:
            RuntimeError: called in a coroutine.
        """
        self._check_live()
        if _get_running_loop() is not None:
            raise RuntimeError("a coroutine cannot run gevent's loop: await instead, or run the loop in another thread")
        if _getpid() != self._pid:
            self.reinit()
        self._depth += 1
        if self._depth == 1:
            self._enter()
        try:
            self._take_turns(nowait, once)
        finally:
            self._is_broken = False
            self._depth -= 1
            if not self._depth and self._leave is not None:
                self._leave()

    def _enter(self) -> None:
        below = self.asyncio_loop
        old_hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(
            firstiter=below._asyncgen_firstiter_hook,  # type: ignore[attr-defined]
            finalizer=below._asyncgen_finalizer_hook,  # type: ignore[attr-defined]
        )
        below._begin_run()

        def leave() -> None:
            self._leave = None
            sys.set_asyncgen_hooks(*old_hooks)
            below._end_run()

        self._leave = leave

    def _take_turns(self, nowait: bool, once: bool) -> None:
        is_first = True
        while not self._is_broken:
            self._before_poll()
            if self._is_over():
                return
            is_busy = nowait or self._has_something_to_do()
            if not is_busy and self._refs <= 0:
                if not is_first and not self._has_others():
                    return
                # If this first turn finds nothing to do, stop after it.
                is_busy = is_first
            self._poll(is_busy)
            is_first = False
            self._after_poll()
            if once or nowait or self._is_destroyed:
                return

    def _is_over(self) -> bool:
        return self._is_broken or self._is_destroyed

    def _before_poll(self) -> None:
        if _getpid() != self._pid:
            self.reinit()
        self._iterations += 1
        if self._turned[PrepareWatcher]:
            self._feed_turned(PrepareWatcher)
            self._call_pending()
        self.update_now()
        if self._callbacks:
            self._run_callbacks()

    def _after_poll(self) -> None:
        self.update_now()
        if self._ports.always_ready:
            self._ports.feed_always_ready()
        if self._sent:
            self._receive()
        if self._turned[IdleWatcher] and not self._pending:
            self._feed_turned(IdleWatcher)
        if self._turned[CheckWatcher]:
            self._feed_turned(CheckWatcher)
        if self._pending:
            self._call_pending()

    def _has_something_to_do(self) -> bool:
        return bool(
            self._callbacks or self._pending or self._sent or self._turned[IdleWatcher] or self._ports.always_ready
        )

    def _poll(self, is_busy: bool) -> None:
        """Run one turn of the loop below. It may sleep, and ends when there is work for this loop."""
        below = self.asyncio_loop
        outer = _get_running_loop()
        self._is_polling = True
        # Check again: another thread may have added work after the first check.
        if is_busy or self._callbacks or self._sent:
            below.stop()
        _set_running_loop(below)
        try:
            _run_core(below)
        except BaseException as error:  # noqa: BLE001 - passed to the error handler
            self._is_polling = False
            _set_running_loop(outer)
            # A forked child cannot continue on this loop; the next turn creates a new one.
            if _getpid() == self._pid:
                self._report(None, error)
        finally:
            self._is_polling = False
            _set_running_loop(outer)

    def _has_others(self) -> bool:
        """Whether coroutines, transports or other users are active on the loop below."""
        below = self.asyncio_loop
        tasks = asyncio.all_tasks(below)
        for task in tasks:
            # This task may be the only reason why the loop runs.
            task.remove_done_callback(self._wake_for)
            task.add_done_callback(self._wake_for)
        counters = below._counters()
        alarms = sum(
            1 for one in self._actives if isinstance(one, (TimerWatcher, StatWatcher)) and one._alarm is not None
        )
        if tasks or counters["open_transports"] or below._listeners or counters["timers_pending"] > alarms:
            return True
        own = self._ports.numbers() | set(self._children.descriptors())
        own |= {one._inotify for one in self._actives if isinstance(one, StatWatcher) and one._inotify is not None}
        own.add(-1 if below._ssock is None else below._ssock.fileno())
        return any(below._has_callbacks_for(fd) for fd in map(int, _listdir("/proc/self/fd")) if fd not in own)

    def _wake_for(self, _ended: Any) -> None:
        self._wake()

    def _wake(self) -> None:
        if self._is_polling:
            self.asyncio_loop.stop()

    def _wake_from_anywhere(self) -> None:
        below = self.asyncio_loop
        try:
            below.call_soon_threadsafe(below.stop)
        except RuntimeError:
            # The loop's thread destroyed it at this moment; nothing waits for it.
            if not below.is_closed():
                raise

    def break_(self, how: int = 1) -> None:
        """Make `run` return at the end of this turn."""
        self._check_live()
        if self._depth:
            self._is_broken = True
            self._wake()

    # -- errors ----------------------------------------------------------------------------------------

    def handle_error(self, context: object, kind: Any, value: Any, trace: Any) -> None:
        """Handle an exception in a callback: call `error_handler`; without one, print a report and stop the loop."""
        if isinstance(kind, type) and issubclass(kind, self.ends):
            self._callbacks.clear()
            if not self._is_destroyed:
                self.break_()
            return
        super().handle_error(context, kind, value, trace)

    def _report(self, context: object, error: BaseException) -> None:
        try:
            super()._report(context, error)
        except BaseException as another:  # noqa: BLE001 - it is reported, and the loop continues
            if isinstance(another, self.ends):
                super()._report(context, another)
            else:
                _print(another)

    # -- destroy and fork ------------------------------------------------------------------------------

    def destroy(self) -> bool | None:
        """Close the loop. Callable from any thread while the loop does not run.

        Returns:
            True if this call closed it, None if it was closed before.
        """
        if self._is_destroyed:
            return None
        for watcher in tuple(self._actives):
            watcher.stop()
        self._callbacks.clear()
        self._pending.clear()
        if self._leave is not None:
            self._leave()
        self.asyncio_loop.close()
        return True

    def reinit(self) -> None:
        """In a forked child: replace the loop's descriptors and call the fork watchers. No effect elsewhere."""
        self._check_live()
        if _getpid() == self._pid:
            return
        self._pid = _getpid()
        old = self.asyncio_loop
        moving = tuple(self._actives)
        for watcher in moving:
            if not isinstance(watcher, SignalWatcher):
                watcher._disarm()
        if self._leave is not None:
            self._leave()
        self._ports.clear()
        self._sent.clear()
        old._signal_handlers.clear()
        below = self.asyncio_loop = _LoopBelow()
        below.driver = self
        for watcher in moving:
            watcher._rearm()
        self._signals.move()
        if self._depth:
            self._enter()
        for watcher in tuple(self._turned[ForkWatcher]):
            self._feed(watcher, FORK)
        old.close()


def _print(error: BaseException) -> None:
    """Print an exception that an error handler raised. Errors while printing are ignored: nothing can report them."""
    with contextlib.suppress(Exception):
        traceback.print_exception(error)
