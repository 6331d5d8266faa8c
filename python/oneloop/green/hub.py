"""`Hub`: runs a thread's event loop in a greenlet, and lets green threads wait.

There are two ways to a hub. Where a oneloop loop runs already (`oneloop.run`), its hub is the greenlet that runs it,
and green threads live beside its coroutines. In a plain script, the first green thread that waits, which may be the
script itself, starts a hub with a loop of its own; each thread has its own.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import gc
import linecache
import os
import sys
import threading
import time
import traceback
import weakref
from asyncio import _get_running_loop
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from greenlet import GreenletExit, getcurrent
from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

from oneloop import _native
from oneloop._native import Waiter
from oneloop.green import events
from oneloop.green.exceptions import BlockingSwitchOutError, HubDestroyed, LoopExit
from oneloop.green.idents import Idents
from oneloop.green.monitor import PeriodicMonitoringThread
from oneloop.green.public_hub import PublicHub
from oneloop.green.settings import config
from oneloop.loop import Loop

if TYPE_CHECKING:
    from asyncio import Handle, TimerHandle
    from types import FrameType

    from oneloop.green.threadpool import ThreadPool

__all__ = [
    "Countdown",
    "GreenletExit",
    "Hub",
    "Waiter",
    "get_hub",
    "getcurrent",
    "idle",
    "is_in_green_thread",
    "reinit",
    "sleep",
    "wait_for",
]

_LIBRARY = os.__file__.removesuffix("os.py")
_PACKAGES = f"{_LIBRARY}site-packages{os.sep}"

TIMED_OUT: Any = _native.TIMED_OUT
"""What `wait_for` gives when the time is up."""


class _Threads(threading.local):
    hub: Hub | None = None
    end: _ThreadEnd | None = None


_threads = _Threads()


class Hub(_native.HubCore, PublicHub):
    """The hub of a loop. Made by `get_hub()`; for the loop's thread alone, unless a method says otherwise."""

    NOT_ERROR: tuple[type[BaseException], ...] = (GreenletExit, SystemExit, asyncio.CancelledError)
    """What a green thread may end with without a report, SystemExit because the end of the program shows it."""
    SYSTEM_ERROR: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, SystemError)
    """What ends the program: it is raised in the main greenlet, or leaves the loop that a program runs itself."""

    threadpool_size = 10
    """How many threads `threadpool` may have."""

    def __new__(cls, loop: Loop) -> Self:
        return super().__new__(cls, loop)

    def __init__(self, loop: Loop) -> None:
        self.asyncio_loop = loop
        """The loop that it runs."""
        self.is_owner = False
        """The loop is the hub's own: it ends with it."""
        self._threadpool: ThreadPool | None = None
        self.ident_registry = Idents()
        """The numbers of its green threads."""
        self._is_parents = False
        self.periodic_monitoring_thread: PeriodicMonitoringThread | None = None
        """What tells that the loop is blocked; None if nobody does."""
        if config.monitor_thread:
            self.start_periodic_monitoring_thread()
        self._thread_ident = _thread.get_ident()

    def __repr__(self) -> str:
        state = "closed" if self.asyncio_loop.is_closed() else "running" if self.asyncio_loop.is_running() else "idle"
        return f"<{type(self).__name__} of {self.asyncio_loop!r}, {state}>"

    # -- the greenlet that runs the loop --------------------------------------------------------------

    @property
    def main(self) -> RawGreenlet:
        """The thread's main greenlet."""
        return _root(getcurrent())

    def _make_greenlet(self) -> RawGreenlet:
        """A greenlet that runs the loop, begun or not. Called natively where the loop does not run."""
        hub: RawGreenlet | None = self.greenlet
        if hub is None or hub.dead or hub.parent is None:
            old, hub = hub, RawGreenlet(self._run, self.main)
            self.greenlet = hub
            for greenlet in _parked(self) if old is not None and old.dead else ():
                if greenlet.parent is old:
                    greenlet.parent = hub
        return hub

    def _run(self) -> None:
        try:
            self.asyncio_loop.run_forever()
        except HubDestroyed as destroyed:
            if destroyed.destroy_loop:
                self.asyncio_loop.close()

    def destroy(self, destroy_loop: bool = True) -> None:
        """End the greenlet that runs the loop; with `destroy_loop`, close the loop. For the thread's main greenlet.

        Raises:
            RuntimeError: in another greenlet, or of the hub of a loop that the program runs itself.
        """
        hub = self.greenlet
        if not self.is_owner or getcurrent() is not self.main:
            raise RuntimeError("a hub is destroyed by its thread's main greenlet, and only one with a loop of its own")
        if hub is not None and not hub.dead and self.asyncio_loop.is_running():
            hub.throw(HubDestroyed(destroy_loop))
        if destroy_loop:
            self.asyncio_loop.close()
        if _threads.hub is self:
            _threads.hub = None

    def let_go(self) -> None:
        """The loop was closed: threads end, and so do green threads that wait, since nobody would ever wake them."""
        if self._resolver is not None:
            self._resolver.close()
            self._resolver = None
        if self.periodic_monitoring_thread is not None:
            self.periodic_monitoring_thread.kill()
            self.periodic_monitoring_thread = None
        if self._threadpool is not None:
            self._threadpool.close()
            self._threadpool = None
        if self._green_loop is not None:
            self._green_loop.let_go()
        current = getcurrent()
        for greenlet in [one for one in _parked(self) if self._has(one) and one is not current]:
            greenlet.parent = current
            try:
                greenlet.throw()
            except Exception as error:  # noqa: BLE001 - it is reported
                self.handle_error(greenlet, type(error), error, error.__traceback__)

    def _has(self, greenlet: RawGreenlet) -> bool:
        """Whether it is a green thread of this hub; raw ones are known by a hub's own greenlet alone."""
        hub: RawGreenlet | None = self.greenlet
        is_ours: bool = getattr(greenlet, "hub", None) is self
        return is_ours or (self.is_owner and hub is not None and greenlet.parent is hub)

    @property
    def threadpool(self) -> ThreadPool:
        """OS threads for what would block the loop; made at its first use, of `threadpool_size` threads at most."""
        if self._threadpool is None:
            from oneloop.green.threadpool import ThreadPool

            idle_s = config.threadpool_idle_task_timeout
            self._threadpool = ThreadPool(self.threadpool_size, self, -1 if idle_s is None else idle_s)
        return self._threadpool

    def start_periodic_monitoring_thread(self) -> PeriodicMonitoringThread:
        """Start what tells that the loop is blocked, and by whom, if it does not run; see `oneloop.green.monitor`.

        For the hub's thread. With `config.monitor_thread`, hubs do it by themselves.
        """
        if self.periodic_monitoring_thread is None:
            self.periodic_monitoring_thread = PeriodicMonitoringThread(self)
            events.notify(events.PeriodicMonitorThreadStartedEvent(self.periodic_monitoring_thread))
        return self.periodic_monitoring_thread

    # -- callbacks -----------------------------------------------------------------------------------

    def run_callback(self, function: Callable[..., object], *args: Any) -> Handle:
        """Call a function on the hub, in the loop's next tick; it may not block."""
        return self.asyncio_loop.call_soon(function, *args)

    def run_callback_threadsafe(self, function: Callable[..., object], *args: Any) -> Handle:
        """The same from any thread."""
        return self.asyncio_loop.call_soon_threadsafe(function, *args)

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> TimerHandle:
        """Call a function on the hub after so long; it may not block."""
        return self.asyncio_loop.call_later(seconds, function, *args)

    # -- errors --------------------------------------------------------------------------------------

    def handle_error(
        self, context: object, kind: type[BaseException] | None, value: BaseException | None, trace: Any
    ) -> None:
        """What becomes of an exception that nobody has caught: a report on stderr, or the end of the program."""
        if kind is None or value is None:
            return
        if not issubclass(kind, self.NOT_ERROR):
            self.print_exception(context, kind, value, trace)
        if context is None or issubclass(kind, self.SYSTEM_ERROR):
            self.handle_system_error(kind, value, trace)

    def handle_system_error(self, kind: type[BaseException], value: BaseException, trace: Any = None) -> None:
        """Raise it in the main greenlet, or, where that runs the loop, out of the loop."""
        if self._is_parents or self._leaves_here():
            raise value.with_traceback(trace)
        self.throw_soon(self.main, value)

    def _leaves_here(self) -> bool:
        """Whether what ends the program is raised where the loop runs: by the program, or in the main greenlet."""
        return not self.is_owner or getcurrent() is self.main

    def print_exception(
        self, context: object, kind: type[BaseException] | None, value: BaseException | None, trace: Any
    ) -> None:
        """The report of an exception: its traceback, and whose it was."""
        stream = self.exception_stream
        if not stream or kind is None:
            return
        traceback.print_exception(kind, value, trace, file=stream)
        if context is not None:
            told = context if isinstance(context, str) else self._described(context)
            print(f"{told} failed with {kind.__name__}\n", file=stream)

    def _described(self, context: object) -> str:
        try:
            return self.format_context(context)
        except Exception:  # noqa: BLE001 - a report must not fail for a broken repr
            return object.__repr__(context)

    def _handle_uncaught(self, error: BaseException) -> None:
        """A greenlet has ended with an exception, which has reached the hub. Called natively."""
        if self._is_parents or (isinstance(error, self.SYSTEM_ERROR) and self._leaves_here()):
            # It was reported, and is on its way out of the loop.
            raise error
        self.handle_error(self, type(error), error, error.__traceback__)

    def _parking_refused(self) -> BaseException:
        """Why a blocking call cannot be made here: the call is named, and what to do instead."""
        frame = sys._getframe(1)
        called = frame
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("oneloop.green"):
            called, frame = frame, frame.f_back
        name = _call_in(frame) if called is frame else f"{called.f_code.co_qualname}()"
        frame = _program_frame(frame)
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"
        return BlockingSwitchOutError(
            f"{name} would block the event loop itself ({place}): a coroutine or a callback cannot wait this way. "
            "Use `await loop.run_green(function, ...)`, or call it in a green thread; greenlets, events, queues and "
            "semaphores can also be awaited themselves"
        )

    def refuse_to_sleep(self) -> None:
        """The loop would sleep for ever: who waits is told, and for what.

        Raises:
            LoopExit: it leaves the loop, and is raised in the main greenlet, which waits as well.
        """
        waiting = [f"  {self._described(greenlet)} in {_place(greenlet)}" for greenlet in _parked(self)]
        told = "\n".join(waiting) or "  no green thread"
        raise LoopExit(
            "this operation would block forever: no timer, descriptor or thread is left that could wake what waits:\n"
            f"{told}\n"
            "Something has to set, put or release what they wait for; a wait with a timeout ends by itself"
        )


def _call_in(frame: FrameType) -> str:
    """The call that a frame is in. A native function has no frame of its own: the text of its call names it."""
    code, line_number = frame.f_code, frame.f_lineno
    line = linecache.getline(code.co_filename, line_number)
    first, last, begin, end = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    if first == last == line_number and begin is not None and end is not None:
        # The interpreter counts bytes.
        line = line.encode()[begin:end].decode(errors="replace")
    return line.strip() or "a blocking call"


def _program_frame(frame: FrameType) -> FrameType:
    """The innermost frame that is the program's: not the standard library's, unless all are."""
    outer: FrameType | None = frame
    while outer is not None:
        path = outer.f_code.co_filename
        if not path.startswith(_LIBRARY) or path.startswith(_PACKAGES):
            return outer if outer.f_globals.get("__name__", "").partition(".")[0] != "oneloop" else frame
        outer = outer.f_back
    return frame


def _parked(hub: Hub) -> list[RawGreenlet]:
    """The greenlets of the thread that wait."""
    # Not isinstance(): that asks the object, which may be a proxy of what is gone, or make what it stands for.
    known = {id(one): one for one in gc.get_objects() if issubclass(type(one), RawGreenlet)}
    known[id(hub.main)] = hub.main
    return [one for one in known.values() if one.gr_frame is not None and one is not hub.greenlet and not one.dead]


def _place(greenlet: RawGreenlet) -> str:
    """Where a parked greenlet was called from last, outside of this package."""
    frame: Any = greenlet.gr_frame
    called = frame
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("oneloop."):
        called, frame = frame, frame.f_back
    return f"{called.f_code.co_qualname}(), {frame.f_code.co_filename}:{frame.f_lineno}"


def _root(greenlet: RawGreenlet) -> RawGreenlet:
    while greenlet.parent is not None:
        greenlet = greenlet.parent
    return greenlet


get_hub: Callable[[], Hub] = _native.get_hub  # type: ignore[assignment]
sleep = _native.sleep
wait_for = _native.wait_for


def find_hub() -> Hub:
    """As `get_hub`. Called natively where no green thread of a hub calls."""
    loop = asyncio._get_running_loop()
    if isinstance(loop, Loop):
        return _hub_of(loop)
    active = _native.active_hub()
    if active is not None:
        return active  # type: ignore[return-value]
    hub = _threads.hub
    if hub is None or hub.asyncio_loop.is_closed():
        hub = _threads.hub = _hub_of(Loop())
        hub.is_owner = True
        hub.asyncio_loop._serve_green_threads_only()
        if threading.current_thread() is threading.main_thread():
            atexit.register(_end, weakref.ref(hub))
        else:
            _threads.end = _ThreadEnd(hub)
    return hub


class _ThreadEnd:
    """Goes when its OS thread does, in that thread, and so does the hub: nobody could ever run it again."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def __del__(self) -> None:
        # At the program's end the main thread does away with those that are left.
        if not sys.is_finalizing() and self._hub._thread_ident == _thread.get_ident():
            _end(weakref.ref(self._hub))


def _hub_of(loop: Loop) -> Hub:
    hub: Hub | None = loop._hub
    if hub is None:
        hub = loop._hub = Hub(loop)
        if loop.is_running():
            hub.greenlet = getcurrent()
    return hub


def _end(reference: weakref.ref[Hub]) -> None:
    hub = reference()
    if hub is None or hub._is_parents or getcurrent() is not hub.main or hub.asyncio_loop.is_closed():
        return
    hub.destroy()


def has_hub() -> bool:
    """Whether the calling thread has a hub: without one it has no green threads either."""
    if asyncio._get_running_loop() is not None:
        return True
    hubs = (_native.active_hub(), _threads.hub)
    return any(isinstance(hub, Hub) and not hub.asyncio_loop.is_closed() for hub in hubs)


def end_own_hub() -> None:
    """Destroy the hub that the calling thread has made for itself, if it has."""
    hub = _threads.hub
    if hub is not None and not hub.asyncio_loop.is_closed():
        hub.destroy()


def _forget_parent() -> None:
    """In a forked child: the hub and its loop are the parent's."""
    active, current = _native.active_hub(), getcurrent()
    for known in (active, _threads.hub):
        if isinstance(known, Hub):
            known._is_parents = True
    if isinstance(active, Hub) and current is not active.greenlet and current.parent is not None:
        # A green thread has forked. Its end would lead to the parent's hub.
        current.parent = RawGreenlet(_child_ended, _root(current))
    _threads.hub = None
    _native.forget_active_hub()


def _child_ended(_: object) -> None:
    raise RuntimeError(
        "a green thread has forked, and ended in the child too, where there is nothing to go back to: "
        "end the child with os._exit() or SystemExit"
    )


def reinit(hub: Hub | None = None) -> None:
    """In a child whose fork Python has not seen: forget the hub, which is the parent's. `os.fork` does it by itself.

    Args:
        hub: taken for gevent's sake.
    """
    known = _threads.hub
    if known is not None:
        try:
            known.asyncio_loop._check_process()
        except RuntimeError:
            _forget_parent()


os.register_at_fork(after_in_child=_forget_parent)


def is_in_green_thread() -> bool:
    """Whether the caller may block: it is no coroutine or callback of a running loop."""
    return _get_running_loop() is None


class Countdown:
    """The rest of a timeout that several waits share."""

    __slots__ = ("_end_s",)

    def __init__(self, timeout_s: float | None) -> None:
        self._end_s = None if timeout_s is None else time.monotonic() + float(timeout_s)

    def seconds(self) -> float | None:
        """So many are left; None: no end."""
        return None if self._end_s is None else max(0.0, self._end_s - time.monotonic())


def idle(priority: int = 0) -> None:
    """Let all that are ready go first."""
    get_hub().pause()
