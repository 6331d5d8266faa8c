"""`threading`: the replacements that make the module's threads, locks, events and conditions green.

The classes of the standard library are kept; patching gives them locks, identities and threads from here. Once
`threading` is patched, its green classes are also available here, such as `oneloop.green.threading.Thread`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
import weakref
from _thread import get_ident as _thread_ident
from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent

from oneloop.green import thread as _green
from oneloop.green.exceptions import LoopExit
from oneloop.green.greenlet import Greenlet
from oneloop.green.hub import get_hub, runs_green_threads
from oneloop.green.local import local
from oneloop.green.steps import may_block
from oneloop.green.thread import ThreadGreenlet, get_ident, make_sentinel
from oneloop.green.threadlock import ConditionPlace, LockType, RLock, leave_condition, notify_all

__implements__ = [
    "Lock",
    "_CRLock",
    "_DummyThread",
    "_allocate_lock",
    "_make_invoke_excepthook",
    "_shutdown",
    "_thread_local_info",
    "get_ident",
    "local",
]
if sys.version_info >= (3, 14):
    # It would set the name of the OS thread.
    __implements__ += ["_set_name"]
if sys.version_info >= (3, 13):
    __implements__ += ["_LockType", "_ThreadHandle", "_make_thread_handle", "_start_joinable_thread"]
else:
    __implements__ += ["_set_sentinel", "_start_new_thread"]

_allocate_lock = Lock = _LockType = LockType
_CRLock = RLock
_ThreadHandle = _green._ThreadHandle
_make_thread_handle = _green._make_thread_handle
_set_sentinel = _green._set_sentinel
_set_name = None
_thread_local_info = local()

# The patched module, and the copy that the interpreter's threads continue to use.
_patched: Any = sys.modules["threading"]
_real: Any = _patched


def _note_begin(function: Any, ident: int) -> Any:
    """Set the identity of the thread object whose `_bootstrap` is started, before it runs."""
    thread: Any = getattr(function, "__self__", None)
    if not isinstance(thread, _patched.Thread):
        return None
    thread._ident = ident
    if _patched._HAVE_THREAD_NATIVE_ID:
        thread._set_native_id()
    return thread


if sys.version_info >= (3, 13):
    _green.note_begin = _note_begin
    _start_joinable_thread = _green.start_joinable_thread


def _start_thread(function: Callable[..., object], args: tuple[Any, ...], kwargs: Any) -> int:
    """For Python before 3.13: create the lock that tracks the thread's life before the thread runs."""
    if not runs_green_threads():
        return _start_real(function, args, kwargs or {})
    sys.audit("_thread.start_new_thread", function, args, kwargs)
    greenlet = ThreadGreenlet(function, args, kwargs)
    thread = _note_begin(function, id(greenlet))
    if thread is not None:
        thread._tstate_lock = make_sentinel(greenlet)
        thread._tstate_lock.acquire()
    greenlet.start()
    return id(greenlet)


def _start_real(function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """For Python before 3.13: start an OS thread."""
    thread: Any = getattr(function, "__self__", None)
    if not isinstance(thread, _patched.Thread):
        return _green._stock_start_new_thread(function, args, kwargs)
    sentinel = thread._tstate_lock = LockType()
    sentinel.acquire()

    def run() -> None:
        try:
            function(*args, **kwargs)
        finally:
            _green._release(sentinel)

    try:
        return _green._stock_start_new_thread(run, ())
    except BaseException:
        thread._tstate_lock = None
        raise


if sys.version_info < (3, 13):
    _green.start_of_threading = _start_thread
    _start_new_thread = _green.start_new_thread


class _Started:
    """Replaces a thread's `_started` event while a coroutine starts the thread: a coroutine cannot wait for it."""

    def __init__(self, event: Any) -> None:
        self._event = event

    def is_set(self) -> bool:
        return bool(self._event.is_set())

    def wait(self) -> None:
        self._event.set()


def _make_invoke_excepthook() -> Callable[[Any], None]:  # pyright: ignore[reportUnusedFunction]
    """Create the function that reports the exception that ended a thread."""
    report = _make_report()

    def invoke_excepthook(thread: Any) -> None:
        error = sys.exception()
        if isinstance(error, KeyboardInterrupt):
            # A green thread was running when Ctrl-C was pressed, but the exception is for the main thread.
            get_hub().handle_system_error(type(error), error, error.__traceback__)
        elif not isinstance(error, GreenletExit):
            report(thread)

    return invoke_excepthook


_make_report = _patched._make_invoke_excepthook


def adapt(module: Any, real: Any) -> None:
    """Adapt the classes of a patched `threading` module to work without the interpreter's threads.

    Args:
        module: the module whose names were replaced.
        real: a copy of the module from before patching.
    """
    global _patched, _real
    _patched, _real = module, real
    start = module.Thread.start

    def start_in_coroutine_too(self: Any) -> None:
        if asyncio._get_running_loop() is None or not self._initialized:
            start(self)
            return
        event = self._started
        self._started = _Started(event)
        try:
            start(self)
        finally:
            self._started = event

    start_in_coroutine_too.__name__ = "start"
    start_in_coroutine_too.__qualname__ = start.__qualname__
    start_in_coroutine_too.__doc__ = start.__doc__
    module.Thread.start = start_in_coroutine_too
    for name, function in (("wait", _wait), ("notify_all", notify_all)):
        function.__name__, function.__qualname__ = name, f"Condition.{name}"
        function.__code__ = function.__code__.replace(co_name=name, co_qualname=function.__qualname__)
        function.__doc__ = getattr(module.Condition, name).__doc__
        setattr(module.Condition, name, function)
    if sys.version_info < (3, 13):
        module.Thread._set_tstate_lock = _set_tstate_lock
        module.Thread._stop = _stop
    _adapt_main_thread(module)
    # In the child, threading takes a forking thread that it does not know for the main one.
    os.register_at_fork(before=module.current_thread)


def _wait(self: Any, timeout: float | None = None) -> bool:
    # As in `threading`, but a green thread that is killed or times out when it was notified passes that on.
    if not self._is_owned():
        raise RuntimeError("cannot wait on un-acquired lock")
    if (timeout is None or timeout > 0) and not may_block():
        # Before the lock is given away.
        raise get_hub()._parking_refused()
    place = ConditionPlace()
    self._waiters.append(place)
    state = self._release_save()
    try:
        try:
            if timeout is None:
                is_notified = place.acquire()
            else:
                is_notified = place.acquire(True, timeout) if timeout > 0 else place.acquire(False)
        finally:
            self._acquire_restore(state)
    except BaseException:
        if self._is_owned():
            leave_condition(self, place, False)
        elif place in self._waiters:
            self._waiters.remove(place)
        raise
    if not is_notified:
        leave_condition(self, place, True)
    return bool(is_notified)


def _set_tstate_lock(self: Any) -> None:
    if self._tstate_lock is None:
        self._tstate_lock = _set_sentinel()
        self._tstate_lock.acquire()


def _stop(self: Any) -> None:
    # The lock may have been passed to another thread that joins.
    self._is_stopped = True
    self._tstate_lock = None


_HANDLE = "_os_thread_handle" if sys.version_info >= (3, 14) else "_handle"


def _adapt_main_thread(module: Any) -> None:
    """Replace the main thread's handle, so that green threads can join it."""
    main = module._main_thread
    if sys.version_info >= (3, 13):
        handle = _green._ThreadHandle()
        handle._begin(main.ident, _root_of_main(main.ident))
        setattr(main, _HANDLE, handle)
    else:
        main._tstate_lock = LockType()
        main._tstate_lock.acquire()


def _root_of_main(ident: int) -> Any:
    """The main greenlet of the main thread, if called there."""
    root = getcurrent()
    while root.parent is not None:
        root = root.parent
    return root if ident == _thread_ident() else _Elsewhere()


class _Elsewhere:
    """Placeholder for the main greenlet of another thread."""


class _DummyThread(_patched._DummyThread):  # type: ignore[misc]
    """A thread that `threading` did not start: a green thread of `spawn`, or an OS thread."""

    def __new__(cls) -> Any:
        # An interpreter thread already has a thread object.
        known = _real._active.get(get_ident()) if _real is not _patched else None
        return object.__new__(cls) if known is None else known

    def __init__(self) -> None:
        super().__init__()
        greenlet, ident = getcurrent(), self._ident
        weakref.finalize(greenlet, _patched._active.pop, ident, None).atexit = False
        if isinstance(greenlet, Greenlet):
            greenlet.rawlink(lambda _: _patched._active.pop(ident, None))


def _shutdown() -> None:  # pyright: ignore[reportUnusedFunction]
    """At interpreter exit: wait for the green threads that are not daemons, then for the other threads."""
    main = _patched._main_thread
    if _is_done(main):
        _real._shutdown()
        return
    _patched._SHUTTING_DOWN = True
    for call in reversed(_patched._threading_atexits):
        call()
    if main.ident == get_ident():
        _mark_done(main)
    while waited := [thread for thread in _patched._enumerate() if _is_waited_for(thread)]:
        try:
            for thread in waited:
                thread.join()
        except LoopExit:
            # They would wait forever. Real threads in this state would keep the program from exiting.
            traceback.print_exc()
            break
    _real._shutdown()


def _is_waited_for(thread: Any) -> bool:
    is_other = thread is not _patched._main_thread and thread.ident != get_ident()
    return is_other and not thread.daemon and thread.is_alive()


def _is_done(thread: Any) -> bool:
    if sys.version_info >= (3, 13):
        is_done = getattr(thread, _HANDLE).is_done()
    else:
        is_done = thread._is_stopped
    return bool(is_done)


def _mark_done(thread: Any) -> None:
    if sys.version_info >= (3, 13):
        getattr(thread, _HANDLE)._set_done()
    else:
        thread._tstate_lock.release()
        thread._stop()


def __getattr__(name: str) -> Any:
    return getattr(_patched, name)
