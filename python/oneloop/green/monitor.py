"""`PeriodicMonitoringThread`: an OS thread that detects a blocked event loop and reports the frame that blocks it.

It checks the loop's counters and the Python frames of the hub's thread. So it detects anything that blocks: a callback,
a coroutine, a green thread that computes, or a C library that waits by itself.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
import weakref
from _thread import allocate_lock, get_ident, start_new_thread
from typing import TYPE_CHECKING, Any

from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

from oneloop.green import events
from oneloop.green.settings import config

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from oneloop.green.hub import Hub
    from oneloop.loop import Loop

__all__ = ["PeriodicMonitoringThread"]

_monotonic = time.monotonic
_strftime = time.strftime
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# The number of checks per `max_blocking_time`, so that reports are not much later than that.
_CHECKS = 4
# The minimum time between two checks.
_SHORTEST_PERIOD_S = 0.005
# The maximum time between two checks of whether the hub still exists.
_IDLE_PERIOD_S = 2.0


class PeriodicMonitoringThread(events.IPeriodicMonitorThread):
    """An OS thread that periodically calls functions with the hub; one of them detects a blocked loop.

    Created by `hub.start_periodic_monitoring_thread()`. It ends with the hub's loop, or when the hub is freed.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = weakref.ref(hub)
        self._end = allocate_lock()
        self._end.acquire()
        self._is_over = False
        self._block = _Block(get_ident())
        self._most_bytes = 0
        self._functions: list[_Function] = []
        self.add_monitoring_function(PeriodicMonitoringThread._check_blocking, None)
        if config.max_memory_usage is not None:
            self.install_monitor_memory_usage()
        self._start()
        _all.add(self)

    def _start(self) -> None:
        start_new_thread(_monitor, (weakref.ref(self), self._end))

    @property
    def hub(self) -> Hub | None:
        """The monitored hub; None if it was freed."""
        return self._hub()

    def add_monitoring_function(self, function: Callable[..., object], period: float | None) -> None:
        """Call `function(hub)` periodically in the monitor's thread. Exceptions that it raises are printed.

        Args:
            function: the function to call.
            period: the time between two calls, in seconds; None means a quarter of `config.max_blocking_time`.

        Raises:
            ValueError: the period is not more than 0.
            TypeError: `function` is not callable.
        """
        if not callable(function):
            raise TypeError(f"a monitoring function must be callable, not {function!r}")
        if period is not None and not period > 0:
            raise ValueError(f"the period must be more than 0 seconds, not {period!r}")
        self._functions = [*self._functions, _Function(function, period)]

    def monitoring_functions(self) -> list[Callable[..., object]]:
        """The functions that are called, including the built-in ones."""
        return [one.function for one in self._functions]

    def install_monitor_memory_usage(self) -> None:
        """Start checking the memory of the process. Without `config.max_memory_usage`, nothing is reported."""
        if not any(one.function is PeriodicMonitoringThread._check_memory for one in self._functions):
            self.add_monitoring_function(PeriodicMonitoringThread._check_memory, config.memory_monitor_period)

    def kill(self) -> None:
        """End the thread soon. Callable from any thread."""
        if not self._is_over:
            self._is_over = True
            self._end.release()

    # -- in the monitor's thread -----------------------------------------------------------------------

    def period(self) -> float:
        """The time until the next check, in seconds."""
        shortest = min(one.seconds() for one in self._functions)
        return max(_SHORTEST_PERIOD_S, shortest)

    def turn(self) -> bool:
        """Call the functions that are due. False if the monitor has ended."""
        hub = self._hub()
        if self._is_over or hub is None or hub.asyncio_loop.is_closed():
            return False
        now = _monotonic()
        for one in self._functions:
            if one.due <= now:
                one.due = now + one.seconds()
                self._call(one.function, hub)
        return not self._is_over

    def _call(self, function: Callable[..., object], hub: Hub) -> None:
        try:
            if function in (PeriodicMonitoringThread._check_blocking, PeriodicMonitoringThread._check_memory):
                function(self, hub)
            else:
                function(hub)
        except Exception:  # noqa: BLE001 - the thread continues
            traceback.print_exc()

    def _check_blocking(self, hub: Hub) -> None:
        self.monitor_blocking(hub)

    def monitor_blocking(self, hub: Hub) -> events.EventLoopBlocked | None:
        """Check whether the loop is blocked, and report it.

        If a block continues, it is reported again after twice, four times, ... the time.

        Returns:
            The reported event, or None.
        """
        blocked_s = self._block.check(hub.asyncio_loop)
        if blocked_s is None:
            return None
        frame = self._block.frame()
        greenlet = _running_greenlet(hub)
        event = events.EventLoopBlocked(greenlet, blocked_s, _report(frame, greenlet, blocked_s, hub), hub=hub)
        del frame
        if config.print_blocking_reports and sys.stderr is not None:
            print("\n".join(event.info), file=sys.stderr)
        events.notify(event)
        return event

    def ignore_current_greenlet_blocking(self) -> None:
        """Do not report the current block any more."""
        self._block.is_ignored = True

    def monitor_current_greenlet_blocking(self) -> None:
        """Report the current block again."""
        self._block.is_ignored = False

    def _check_memory(self, _hub: Hub) -> None:
        self.monitor_memory_usage(_hub)

    def monitor_memory_usage(self, _hub: Hub) -> events.MemoryUsageThresholdExceeded | int:
        """Check the memory of the process. Report once when it exceeds the limit, and once when it is below again.

        Returns:
            The event if the limit was exceeded now, otherwise the memory in use in bytes; -1 if there is no limit.
        """
        allowed = config.max_memory_usage
        if not allowed:
            return -1
        used, info = _memory()
        if used > allowed:
            is_news, self._most_bytes = not self._most_bytes, max(self._most_bytes, used)
            if is_news:
                event = events.MemoryUsageThresholdExceeded(used, allowed, info)
                events.notify(event)
                return event
        elif self._most_bytes:
            most, self._most_bytes = self._most_bytes, 0
            events.notify(events.MemoryUsageUnderThreshold(used, allowed, info, most))
        return used

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._hub()!r}{' ended' if self._is_over else ''}>"


class _Function:
    __slots__ = ("_period", "due", "function")

    def __init__(self, function: Callable[..., object], period: float | None) -> None:
        self.function = function
        self._period = period
        self.due = 0.0 if period is None else _monotonic() + period

    def seconds(self) -> float:
        return config.max_blocking_time / _CHECKS if self._period is None else self._period


class _Block:
    """Measures how long the loop's thread has been in the same callback."""

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._seen: tuple[Any, ...] = ()
        self._since_s = 0.0
        self._reported_s = 0.0
        self.is_ignored = False

    def frame(self) -> FrameType | None:
        """The thread's current frame; None in a greenlet that does not run Python code."""
        return sys._current_frames().get(self._thread)

    def check(self, loop: Loop) -> float | None:
        """The time that the loop is blocked, in seconds, if it must be reported now; otherwise None."""
        now = _monotonic()
        counters = loop._counters()
        seen = tuple(counters[name] for name in ("ticks", "callbacks", "polls"))
        if seen != self._seen or self._is_idle(loop):
            self._seen, self._since_s, self._reported_s = seen, now, 0.0
            self.is_ignored = False
            return None
        blocked_s = now - self._since_s
        if self.is_ignored or blocked_s < max(config.max_blocking_time, 2 * self._reported_s):
            return None
        self._reported_s = blocked_s
        return blocked_s

    def _is_idle(self, loop: Loop) -> bool:
        """Whether the loop does not run or is between callbacks: it sleeps, or calls code that is not Python."""
        if not loop.is_running():
            return True
        frame = self.frame()
        return frame is not None and frame.f_code is type(loop).run_forever.__code__


def _running_greenlet(hub: Hub) -> Any:
    """The running greenlet of the hub's thread; None if unknown. Called in another thread."""
    top = hub.greenlet
    while top is not None and top.parent is not None:
        top = top.parent
    for one in [one for one in gc.get_objects() if issubclass(type(one), RawGreenlet)]:
        if one and one.gr_frame is None and not one.dead and _root(one) is top:
            return one
    return top if top is not None and top.gr_frame is None else None


def _root(greenlet: RawGreenlet) -> RawGreenlet:
    while greenlet.parent is not None:
        greenlet = greenlet.parent
    return greenlet


def _report(frame: FrameType | None, greenlet: Any, blocked_s: float, hub: Hub) -> list[str]:
    """The lines of a report: the place first, then the greenlet and its stack."""
    place = "code that is not Python"
    if frame is not None:
        code = frame.f_code
        place = f"{code.co_qualname}(), {code.co_filename}:{frame.f_lineno}"
    clock = _strftime("%Y-%m-%dT%H:%M:%S")
    lines = [f"{clock}: the event loop is blocked for {blocked_s:.3f} s, in {place}"]
    lines.append(f"    {greenlet!r} blocks {hub!r}. Its stack:")
    if frame is not None:
        lines += [line.rstrip("\n") for line in traceback.format_stack(frame)]
    return lines


def _memory() -> tuple[int, dict[str, int]]:
    """The private memory of the process in bytes, and other memory figures."""
    with open("/proc/self/statm") as statm:  # noqa: PTH123 - avoids importing pathlib
        size, resident, shared = (int(pages) * _PAGE_BYTES for pages in statm.read().split()[:3])
    return resident - shared, {"size": size, "resident": resident, "shared": shared}


_all: weakref.WeakSet[PeriodicMonitoringThread] = weakref.WeakSet()


def _monitor(reference: weakref.ref[PeriodicMonitoringThread], end: Any) -> None:
    """The main function of the thread. It keeps no strong reference to the monitor or the hub."""
    while True:
        monitor = reference()
        if monitor is None or not monitor.turn():
            return
        period = min(monitor.period(), _IDLE_PERIOD_S)
        del monitor
        if end.acquire(timeout=period):
            return


def _forget_threads() -> None:
    """In a forked child: forget the monitors, whose threads and hubs belong to the parent."""
    for monitor in list(_all):
        monitor._is_over = True
    _all.clear()


os.register_at_fork(after_in_child=_forget_threads)
