"""`Hub`: runs a thread's event loop in a greenlet, and lets green threads wait.

A hub starts in one of two ways. If a oneloop loop is already running (`oneloop.run`), its hub is the greenlet that runs
the loop, and green threads run beside the loop's coroutines. In a plain script, the first green thread that waits (this
can be the script itself) starts a hub with its own loop. Each OS thread has its own hub.
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
from math import ldexp
from typing import TYPE_CHECKING, Any, Self, SupportsFloat

from greenlet import GreenletExit, getcurrent
from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

from oneloop import _native
from oneloop._native import Waiter
from oneloop.green import events
from oneloop.green.ending import end_all
from oneloop.green.exceptions import BlockingSwitchOutError, HubDestroyed, LoopExit
from oneloop.green.monitor import PeriodicMonitoringThread
from oneloop.green.public_hub import Idents, PublicHub
from oneloop.green.settings import config
from oneloop.green.steps import is_in_green_thread, is_patched, may_block
from oneloop.green.wakers import is_alone
from oneloop.green.workers import call_at_thread_end

if TYPE_CHECKING:
    from asyncio import Handle, TimerHandle
    from types import FrameType

    from oneloop.green.threadpool import ThreadPool
    from oneloop.loop import Loop

__all__ = [
    "Countdown",
    "GreenletExit",
    "Hub",
    "Waiter",
    "get_hub",
    "getcurrent",
    "hub_to_wait_on",
    "idle",
    "reinit",
    "runs_green_threads",
    "sleep",
    "wait_for",
]

_LIBRARY = os.__file__.removesuffix("os.py")
_PACKAGES = f"{_LIBRARY}site-packages{os.sep}"

TIMED_OUT: Any = _native.TIMED_OUT
"""The value that `wait_for` returns when the timeout expires."""


class _Threads(threading.local):
    hub: Hub | None = None
    end: _ThreadEnd | None = None


_threads = _Threads()


class Hub(_native.HubCore, PublicHub):
    """The hub of a loop, created by `get_hub()`. Use it only in the loop's thread, unless a method says otherwise."""

    NOT_ERROR: tuple[type[BaseException], ...] = (GreenletExit, SystemExit, asyncio.CancelledError)
    """Exceptions that end a green thread without a report; SystemExit shows itself when the program ends."""
    SYSTEM_ERROR: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, SystemError)
    """Exceptions that end the program: raised in the main greenlet, or out of a loop that the program runs."""

    threadpool_size = 10
    """The maximum number of threads in `threadpool`."""

    def __new__(cls, loop: Loop) -> Self:
        return super().__new__(cls, loop)

    def __init__(self, loop: Loop) -> None:
        self.asyncio_loop = loop
        """The event loop that this hub runs."""
        self.is_owner = False
        """Whether the hub created the loop. If so, destroying the hub also closes the loop."""
        self.leaves_its_threads = False
        """Whether green threads that still wait when its loop is closed are left, without GreenletExit.

        So at the end of the process, and where they have had their time to end.
        """
        self._threadpool: ThreadPool | None = None
        self.ident_registry = Idents()
        """The small integers that identify this hub's green threads (`minimal_ident`)."""
        self._is_parents = False
        self.periodic_monitoring_thread: PeriodicMonitoringThread | None = None
        """The thread that detects a blocked loop; None if it is not running."""
        if config.monitor_thread:
            self.start_periodic_monitoring_thread()
        self._thread_ident = _thread.get_ident()
        self.lock_waiter: Waiter | None = None
        """Where the main greenlet has waited last for a lock of `threading`."""

    def __repr__(self) -> str:
        state = "closed" if self.asyncio_loop.is_closed() else "running" if self.asyncio_loop.is_running() else "idle"
        return f"<{type(self).__name__} of {self.asyncio_loop!r}, {state}>"

    # -- the greenlet that runs the loop --------------------------------------------------------------

    @property
    def main(self) -> RawGreenlet:
        """The main greenlet of the calling thread."""
        return _root(getcurrent())

    def _make_greenlet(self) -> RawGreenlet:
        """Return the greenlet that runs the loop; create it if needed. Called by native code."""
        hub: RawGreenlet | None = self.greenlet
        if hub is None or hub.dead or hub.parent is None:
            old, made = hub, _HubGreenlet(self._run, self.main)
            made.hub = weakref.ref(self)
            hub = made
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
        """End the greenlet that runs the loop, and close the loop if `destroy_loop` is true.

        Call it from the thread's main greenlet.

        Raises:
            RuntimeError: called from another greenlet, or the program runs this hub's loop itself.
        """
        hub = self.greenlet
        if not self.is_owner or getcurrent() is not self.main:
            raise RuntimeError("destroy() requires the thread's main greenlet, and a hub that created its loop")
        if hub is not None and not hub.dead and self.asyncio_loop.is_running():
            # The loop is closed below, where green threads that end can wait.
            hub.throw(HubDestroyed(False))
        if destroy_loop:
            self.asyncio_loop.close()
        if _threads.hub is self:
            _threads.hub = None

    def waiting(self) -> list[RawGreenlet]:
        """Return the green threads of this hub that wait."""
        current = getcurrent()
        return [one for one in _parked(self) if self._has(one) and one is not current]

    def let_go(self, waiting: list[RawGreenlet]) -> None:
        """Clean up after the loop was closed: end helper threads, and kill the waiting green threads.

        Nothing could wake these green threads any more.
        """
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
        if waiting:
            end_all(self, waiting, lambda: take_place(_loop_classes[-1]()))

    def _has(self, greenlet: RawGreenlet) -> bool:
        """Whether `greenlet` belongs to this hub. Raw greenlets are recognized only if the hub created its loop."""
        hub: RawGreenlet | None = self.greenlet
        is_ours: bool = getattr(greenlet, "hub", None) is self
        return is_ours or (self.is_owner and hub is not None and greenlet.parent is hub)

    @property
    def threadpool(self) -> ThreadPool:
        """OS threads for calls that would block the loop; created on first use, at most `threadpool_size` threads."""
        pool = self._threadpool
        if pool is None:
            idle_s = config.threadpool_idle_task_timeout
            made: ThreadPool = config.threadpool(self.threadpool_size, self, -1 if idle_s is None else idle_s)
            pool = self._threadpool = made
        return pool

    @threadpool.setter
    def threadpool(self, pool: ThreadPool | None) -> None:
        self._threadpool = pool

    @threadpool.deleter
    def threadpool(self) -> None:
        self._threadpool = None

    def start_periodic_monitoring_thread(self) -> PeriodicMonitoringThread:
        """Start the thread that detects a blocked loop, if it is not running; see `oneloop.green.monitor`.

        Call it in the hub's thread. If `config.monitor_thread` is set, each hub starts one when it is created.
        """
        if self.periodic_monitoring_thread is None:
            self.periodic_monitoring_thread = PeriodicMonitoringThread(self)
            events.notify(events.PeriodicMonitorThreadStartedEvent(self.periodic_monitoring_thread))
        return self.periodic_monitoring_thread

    # -- callbacks -----------------------------------------------------------------------------------

    def run_callback(self, function: Callable[..., object], *args: Any) -> Handle:
        """Call a function on the hub, in the loop's next tick. The function must not block."""
        return self.asyncio_loop.call_soon(function, *args)

    def run_callback_threadsafe(self, function: Callable[..., object], *args: Any) -> Handle:
        """Like `run_callback`, but callable from any thread."""
        return self.asyncio_loop.call_soon_threadsafe(function, *args)

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> TimerHandle:
        """Call a function on the hub after `seconds` seconds. The function must not block."""
        return self.asyncio_loop.call_later(seconds, function, *args)

    # -- errors --------------------------------------------------------------------------------------

    def handle_error(
        self, context: object, kind: type[BaseException] | None, value: BaseException | None, trace: Any
    ) -> None:
        """Handle an uncaught exception: print a report to stderr, or end the program."""
        if kind is None or value is None:
            return
        if not issubclass(kind, self.NOT_ERROR):
            self.print_exception(context, kind, value, trace)
        if context is None or issubclass(kind, self.SYSTEM_ERROR):
            self.handle_system_error(kind, value, trace)

    def handle_system_error(self, kind: type[BaseException], value: BaseException, trace: Any = None) -> None:
        """Raise `value` in the main greenlet; if that or the program runs the loop, raise it out of the loop."""
        if self._is_parents or self._leaves_here():
            raise value.with_traceback(trace)
        current = getcurrent()
        if current is self.greenlet or not self.is_away:
            self.throw_soon(self.main, value)
        else:
            # Before it continues for another reason, and so that it gets it where it waits now.
            self.throw_now(self.main, value.with_traceback(trace))

    def _leaves_here(self) -> bool:
        """Whether a system error is raised out of the loop: the program runs the loop, or the main greenlet does."""
        return not self.is_owner or getcurrent() is self.main

    def print_exception(
        self, context: object, kind: type[BaseException] | None, value: BaseException | None, trace: Any
    ) -> None:
        """Print an exception's traceback, and a line that names the greenlet or callback that failed."""
        stream = self.exception_stream
        if not stream or kind is None:
            return
        traceback.print_exception(kind, value, trace, file=stream)
        if context is not None:
            subject = context if isinstance(context, str) else self._described(context)
            print(f"{subject} failed with {kind.__name__}\n", file=stream)

    def _described(self, context: object) -> str:
        try:
            return self.format_context(context)
        except Exception:  # noqa: BLE001 - a report must not fail for a broken repr
            return object.__repr__(context)

    def _handle_uncaught(self, error: BaseException) -> None:
        """Handle an exception that ended a greenlet and reached the hub. Called by native code."""
        if self._is_parents or (isinstance(error, self.SYSTEM_ERROR) and self._leaves_here()):
            # The exception was reported, and is propagating out of the loop.
            raise error
        self.handle_error(self, type(error), error, error.__traceback__)

    def _may_block_in_step(self) -> bool:
        """Whether the calling coroutine or callback may block; native code asks. If so, its loop is on this hub."""
        if not may_block() or not (self.is_away or not self.asyncio_loop.is_running()):
            return False
        join_hub = getattr(getattr(_get_running_loop(), "_selector", None), "join_hub", None)
        if join_hub is not None:
            join_hub(self)
        return True

    def _parking_refused(self) -> BaseException:
        """Return the error for a blocking call on the event loop; it names the call and the alternatives."""
        frame = sys._getframe(1)
        called = frame
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("oneloop.green"):
            called, frame = frame, frame.f_back
        name = _call_in(frame) if called is frame else f"{called.f_code.co_qualname}()"
        frame = _program_frame(frame)
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"
        return BlockingSwitchOutError(
            f"{name} would block the event loop itself ({place}): a coroutine or a callback cannot wait this way. "
            "Use `await loop.run_green(function, ...)`, or call it in a green thread. Greenlets, events, queues and "
            "semaphores can also be awaited directly"
        )

    def is_alone(self, is_only_thread: bool) -> bool:
        """Return whether no other thread and no signal can wake the hub. Called by the loop before it sleeps.

        Args:
            is_only_thread: whether the interpreter has no other thread.
        """
        waits_for_lock = self.lock_waiter is not None and self.lock_waiter.greenlet is not None
        return is_alone(is_only_thread, self._is_joining, self.main, waits_for_lock)

    def refuse_to_sleep(self) -> None:
        """Raise LoopExit, because the loop would sleep forever. The message lists the waiting green threads.

        Raises:
            LoopExit: always. It propagates out of the loop and is raised in the main greenlet, which is waiting too.
        """
        if self._is_joining:
            # `join` expects it, and shows it to nobody.
            raise LoopExit
        waiting = [f"  {self._described(greenlet)} in {_place(greenlet)}" for greenlet in _parked(self)]
        listed = "\n".join(waiting) or "  no green thread"
        raise LoopExit(
            "this operation would block forever: no timer, descriptor or thread can wake the waiting green threads:\n"
            f"{listed}\n"
            "Set, put or release the object they wait for, or give the wait a timeout"
        )


def _call_in(frame: FrameType) -> str:
    """The source text of the call that a frame is executing. Native functions have no frame; the text names them."""
    code, line_number = frame.f_code, frame.f_lineno
    line = linecache.getline(code.co_filename, line_number)
    first, last, begin, end = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    if first == last == line_number and begin is not None and end is not None:
        # The column offsets count bytes.
        line = line.encode()[begin:end].decode(errors="replace")
    return line.strip() or "a blocking call"


def _program_frame(frame: FrameType) -> FrameType:
    """The innermost frame of the program's own code, or `frame` if there is none."""
    outer: FrameType | None = frame
    while outer is not None:
        path = outer.f_code.co_filename
        if not path.startswith(_LIBRARY) or path.startswith(_PACKAGES):
            return outer if outer.f_globals.get("__name__", "").partition(".")[0] != "oneloop" else frame
        outer = outer.f_back
    return frame


def _parked(hub: Hub) -> list[RawGreenlet]:
    """The thread's greenlets that are waiting."""
    # Not isinstance(): it reads `__class__`, which on a proxy can fail or create the object behind the proxy.
    known = {id(one): one for one in gc.get_objects() if issubclass(type(one), RawGreenlet)}
    known[id(hub.main)] = hub.main
    # Not `gr_frame`: one that runs a native function, such as `spawn(sleep, 1)`, has none.
    return [one for one in known.values() if one and one is not hub.greenlet and not one.dead]


def _place(greenlet: RawGreenlet) -> str:
    """The innermost call of a waiting greenlet into this package, and the place in the program that made it."""
    frame: Any = greenlet.gr_frame
    if frame is None:
        return "a native function that it was started with"
    called = frame
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("oneloop."):
        called, frame = frame, frame.f_back
    return f"{called.f_code.co_qualname}(), {frame.f_code.co_filename}:{frame.f_lineno}"


def _root(greenlet: RawGreenlet) -> RawGreenlet:
    while greenlet.parent is not None:
        greenlet = greenlet.parent
    return greenlet


class _HubGreenlet(RawGreenlet):
    """The greenlet that runs a hub's loop.

    For programs that get it as a green thread's parent, it also has the attributes of the hub.
    """

    hub: weakref.ref[Hub]

    def __getattr__(self, name: str) -> Any:
        hub = self.__dict__.get("hub")
        if hub is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(hub(), name)


_hub_classes = [Hub]


def get_hub_class() -> type[Hub]:
    """The class of the hubs that are created from now on."""
    return _hub_classes[-1]


def set_default_hub_class(kind: type[Hub]) -> None:
    """Create hubs of this class, a subclass of `Hub`, from now on."""
    _hub_classes[-1] = kind


_loop_classes: list[type[Loop]] = []


def use_loop_class(kind: type[Loop]) -> None:
    """Let hubs that run their own loop make it of this class. `oneloop.green` passes `oneloop.Loop`."""
    _loop_classes.append(kind)


get_hub: Callable[[], Hub] = _native.get_hub  # type: ignore[assignment]
sleep = _native.sleep
wait_for = _native.wait_for


def find_hub() -> Hub:
    """Implement `get_hub`. Native code calls it when the caller is not a green thread of a hub."""
    loop: Any = asyncio._get_running_loop()
    if isinstance(loop, _native.LoopCore):
        return _hub_of(loop)  # type: ignore[arg-type]
    active = _native.active_hub()
    if active is not None:
        return active  # type: ignore[return-value]
    hub = _threads.hub
    if hub is None or hub.asyncio_loop.is_closed():
        hub = take_place(_loop_classes[-1]())
        if threading.current_thread() is threading.main_thread():
            atexit.register(_end_with_process, weakref.ref(hub))
        else:
            _threads.end = _ThreadEnd(hub)
    return hub


def take_place(loop: Loop) -> Hub:
    """Make and return a hub that is the calling thread's own from now on."""
    hub = _threads.hub = _hub_of(loop)
    hub.is_owner = True
    loop._serve_green_threads_only()
    return hub


def active_hub() -> Hub | None:
    """Return the hub whose green thread the caller is, or None."""
    return _native.active_hub()  # type: ignore[return-value]


class _ThreadEnd:
    """Destroys a thread's hub when the thread ends.

    It is stored in a `threading.local`, so its `__del__` runs in the ending thread. No other thread could run that hub.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def __del__(self) -> None:
        # At interpreter exit, the main thread cleans up the hubs that are left.
        if not sys.is_finalizing() and self._hub._thread_ident == _thread.get_ident():
            _end(weakref.ref(self._hub))


def _hub_of(loop: Loop) -> Hub:
    hub: Hub | None = loop._hub
    if hub is None:
        hub = loop._hub = _hub_classes[-1](loop)
        if loop.is_running():
            hub.greenlet = getcurrent()
    return hub


def _end(reference: weakref.ref[Hub]) -> None:
    hub = reference()
    if hub is None or hub._is_parents or getcurrent() is not hub.main or hub.asyncio_loop.is_closed():
        return
    hub.destroy()


def _end_with_process(reference: weakref.ref[Hub]) -> None:
    """Close the main thread's hub. Its green threads stay where they wait, as gevent's and daemon threads do."""
    hub = reference()
    if hub is not None:
        hub.leaves_its_threads = True
        _end(reference)


def has_hub() -> bool:
    """Whether the calling thread has a hub. A thread without a hub has no green threads."""
    if not may_block():
        return True
    hubs = (_native.active_hub(), _threads.hub)
    return any(isinstance(hub, Hub) and not hub.asyncio_loop.is_closed() for hub in hubs)


def runs_green_threads() -> bool:
    """Whether green threads that start here go on running: in the main thread, and where the program runs a loop."""
    if _thread.get_ident() == threading.main_thread().ident or asyncio._get_running_loop() is not None:
        return True
    hub = active_hub()
    return hub is not None and not hub.is_owner


def get_hub_if_exists() -> Hub | None:
    """The calling thread's hub; None if it has none."""
    return get_hub() if has_hub() else None


def end_own_hub() -> None:
    """Destroy the hub that the calling thread created for itself, if there is one."""
    hub = _threads.hub
    if hub is not None and not hub.asyncio_loop.is_closed():
        hub.destroy()


call_at_thread_end(end_own_hub)


def _forget_parent() -> None:
    """In a forked child: forget the hub and its loop, which belong to the parent."""
    active, current = _native.active_hub(), getcurrent()
    for known in (active, _threads.hub):
        if isinstance(known, Hub):
            known._is_parents = True
    if isinstance(active, Hub) and current is not active.greenlet and current.parent is not None:
        # A green thread forked. When it ends, control would return to the parent process's hub.
        current.parent = RawGreenlet(_child_ended, _root(current))
    _threads.hub = None
    _native.forget_active_hub()


def _child_ended(_: object) -> None:
    raise RuntimeError(
        "a green thread called fork() and then ended in the child, where no hub can continue: "
        "end the child with os._exit() or SystemExit"
    )


def reinit(hub: Hub | None = None) -> None:
    """Forget the parent's hub, in a child process whose fork Python did not see. `os.fork` does this automatically.

    Args:
        hub: ignored; accepted because gevent has it.
    """
    known = _threads.hub
    if known is not None:
        try:
            known.asyncio_loop._check_process()
        except RuntimeError:
            _forget_parent()


os.register_at_fork(after_in_child=_forget_parent)


def hub_to_wait_on() -> Hub | None:
    """Return the hub whose other green threads run while the caller waits; None if nothing would."""
    hub = active_hub()
    if hub is None and is_patched():
        # The main greenlet of a patched program is a green thread, also before it has waited.
        hub = _threads.hub
    if hub is None or hub.asyncio_loop.is_closed():
        return None
    return hub if is_in_green_thread() or hub._may_block_in_step() else None


class Countdown:
    """The remaining time of a timeout that several waits share."""

    __slots__ = ("_end_s",)

    def __init__(self, timeout_s: SupportsFloat | None) -> None:
        # Unlike `float`, it takes no text.
        self._end_s = None if timeout_s is None else time.monotonic() + ldexp(timeout_s, 0)

    def seconds(self) -> float | None:
        """The remaining time in seconds; None means no limit."""
        return None if self._end_s is None else max(0.0, self._end_s - time.monotonic())


def idle(priority: int = 0) -> None:
    """Let all green threads and callbacks that are ready run first."""
    get_hub().pause()
