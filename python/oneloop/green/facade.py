"""`FacadeLoop`: an asyncio loop that a green thread runs on the hub's loop, beside others. See docs/design/0016."""

from __future__ import annotations

import asyncio
import inspect
import types
from asyncio import selector_events, unix_events
from typing import TYPE_CHECKING, Any, TypeVar, cast

from greenlet import getcurrent

from oneloop import _native, factories, registry
from oneloop.green import facade_signals
from oneloop.green.facade_meter import FacadeMeter
from oneloop.green.hub import get_hub, has_hub
from oneloop.green.local import local
from oneloop.green.parking_selector import ParkingSelector
from oneloop.green.steps import block_in_steps
from oneloop.green.threadlock import RLock
from oneloop.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from oneloop.statistics import Statistics
__all__ = ["FacadeLoop", "install", "is_wanted", "run", "uninstall"]

T = TypeVar("T")


class FacadeLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, run by a green thread: while it waits, other green threads run.

    `oneloop.green.run` creates it, and so does `oneloop.run` in a green thread. After `install()`, every asyncio
    function that creates a loop does too. Any number of them can run at the same time in an OS thread, each in its own
    green thread. In an OS thread without green threads, it waits in the kernel.

    Difference from asyncio: signals are received by the hub's loop and forwarded.
    """

    _hub = _files = None
    """What the snapshots of oneloop's own loops have; the hub's loop has them here."""

    def __init__(self) -> None:
        super().__init__(ParkingSelector())
        self._meter = FacadeMeter()
        self._ready = self._meter.ready
        # It has what snapshots read.
        registry.add(cast("Loop", self))

    def statistics(self) -> Statistics:
        """Return the counters of this loop, as `oneloop.Loop.statistics` does. Bytes of transports are not counted."""
        return self._meter.statistics(self)

    def _activity(self) -> tuple[float | None, float, str]:
        return self._meter.activity()

    def run_green(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, T]:
        """Like `oneloop.Loop.run_green`, in a green thread of the same hub."""
        from oneloop.green.bridge import run_green

        return run_green(function, *args, **kwargs)

    # -- signals -------------------------------------------------------------------------------------

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        """Call `callback(*args)` on this loop when the signal arrives. Main thread only.

        Args:
            sig: the signal number.
            callback: the function to call.
            *args: its arguments.

        Raises:
            ValueError: the signal does not exist.
            RuntimeError: the signal cannot be caught, or the caller is not the main thread.
            TypeError: `callback` is a coroutine or a coroutine function.
        """
        given: object = callback
        if asyncio.iscoroutine(given) or inspect.iscoroutinefunction(given):
            raise TypeError("coroutines cannot be used with add_signal_handler()")
        loop: Any = self
        loop._check_closed()
        taken = facade_signals.take(_hub_loop(), sig, self._pass_on)
        self.remove_signal_handler(sig)
        loop._signal_handlers[sig] = (asyncio.Handle(callback, args, self), taken)

    def remove_signal_handler(self, sig: int) -> bool:
        """Remove the handler of a signal. True if there was one."""
        handlers: dict[int, Any] = cast("Any", self)._signal_handlers
        handle, taken = handlers.pop(sig, (None, None))
        if handle is None:
            return False
        facade_signals.give(sig, *taken)
        return True

    def _pass_on(self, sig: int) -> None:
        handle, _ = cast("Any", self)._signal_handlers.get(sig, (None, None))
        if handle is not None and not handle.cancelled():
            cast("Any", self)._add_callback_signalsafe(handle)

    # -- asyncio's hooks -----------------------------------------------------------------------------

    def _run_once(self) -> None:
        try:
            super()._run_once()  # type: ignore[misc]
        finally:
            self._meter.end_tick()

    def _process_events(self, event_list: list[Any]) -> None:
        self._meter.polled(len(event_list))
        super()._process_events(event_list)  # type: ignore[misc]

    def _write_to_self(self) -> None:
        selector: ParkingSelector | None = cast("Any", self)._selector
        if selector is None or not selector.wake():
            # The loop waits in the kernel, or does not wait.
            super()._write_to_self()  # type: ignore[misc]


registry.add_kind(FacadeLoop)


def _hub_loop() -> Any:
    return get_hub().asyncio_loop


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """Like `asyncio.run`, while other green threads of this OS thread continue. They can call `run` too.

    Args:
        main: the coroutine to run.
        debug: whether to run in asyncio's debug mode; None means asyncio's default.

    Returns:
        The result of the coroutine.

    Raises:
        RuntimeError: an event loop is running in the caller, where `main` can be awaited.
        BaseException: the exception that the coroutine raises.
    """
    if asyncio._get_running_loop() is not None:
        main.close()
        raise RuntimeError("green.run() cannot be called from a running event loop: use `await` there")
    with asyncio.Runner(debug=debug, loop_factory=FacadeLoop) as runner:
        return runner.run(main)


# -- installing it in asyncio ----------------------------------------------------------------------------


class _Installed:
    """The steps that undo `install()`; None if it is not installed."""

    undo: list[Callable[[], None]] | None = None


def is_wanted() -> bool:
    """Whether asyncio in the caller should use a `FacadeLoop`: in a green thread, and everywhere after `install()`."""
    if _Installed.undo is not None:
        return True
    hub = _native.active_hub()
    return hub is not None and hub.is_away and getcurrent().parent is not None


def install() -> None:
    """Make asyncio create a `FacadeLoop` by default, and make asyncio's own loops park their green threads.

    Used by monkey patching. It affects `asyncio.run`, `asyncio.Runner` and `asyncio.new_event_loop` in every greenlet.
    The current loop (`asyncio.set_event_loop`) becomes separate for each greenlet. A second call has no effect.
    """
    if _Installed.undo is not None:
        return
    policy: Any = unix_events._UnixDefaultEventLoopPolicy
    undo: list[Callable[[], None]] = [lambda: block_in_steps(False)]
    _Installed.undo = undo
    block_in_steps(True)
    own: Any = types.ModuleType("selectors")
    vars(own).update(vars(selector_events.selectors))  # type: ignore[attr-defined]
    own.DefaultSelector = own.EpollSelector = ParkingSelector
    _replace(selector_events, "selectors", own, undo)
    if hasattr(asyncio.events, "_ThreadSafeHandle"):
        # Since Python 3.14 a handle for other threads has a lock while its callback runs, and that may block.
        own = types.ModuleType("threading")
        vars(own).update(vars(asyncio.events.threading))  # type: ignore[attr-defined]
        own.RLock = RLock
        _replace(asyncio.events, "threading", own, undo)
    _replace(policy, "_loop_factory", staticmethod(factories.default_loop), undo)
    _replace(policy, "_Local", _CurrentLoop, undo)
    for module in (asyncio, unix_events):
        if hasattr(module, "EventLoop"):
            _replace(module, "EventLoop", FacadeLoop, undo)
    _replace(asyncio.BaseEventLoop, "run_forever", _letting_others_run(asyncio.BaseEventLoop.run_forever), undo)
    made = getattr(asyncio.events, "_event_loop_policy", None)
    if made is not None and hasattr(made, "_local"):
        _replace(made, "_local", _CurrentLoop(), undo)


def uninstall() -> None:
    """Undo `install()`. Loops that exist keep their class."""
    undo, _Installed.undo = _Installed.undo, None
    for step in reversed(undo or []):
        step()


def _replace(owner: Any, name: str, value: Any, undo: list[Callable[[], None]]) -> None:
    if name in vars(owner):
        old = vars(owner)[name]
        undo.append(lambda: setattr(owner, name, old))
    else:
        undo.append(lambda: delattr(owner, name))
    setattr(owner, name, value)


def _letting_others_run(run_forever: Callable[[Any], None]) -> Callable[[Any], None]:
    """Let green threads run between the iterations of a loop whose selector does not."""

    def run(self: Any) -> None:
        from oneloop.green import selectors

        green = (ParkingSelector, selectors.EpollSelector, selectors.PollSelector, selectors.SelectSelector)
        if isinstance(getattr(self, "_selector", None), green) or isinstance(self, Loop):
            run_forever(self)
            return
        once = self._run_once

        def run_once() -> None:
            _native.call_hidden(_let_others_run)
            once()

        self._run_once = run_once
        try:
            run_forever(self)
        finally:
            del self._run_once

    run.__name__, run.__qualname__, run.__doc__ = "run_forever", "BaseEventLoop.run_forever", run_forever.__doc__
    return run


def _let_others_run() -> None:
    if has_hub():
        get_hub().pause()


class _CurrentLoop(local):
    """asyncio's record of the current loop, per greenlet instead of per thread."""

    _loop: asyncio.AbstractEventLoop | None = None
    _set_called = False
