"""`FacadeLoop`: an asyncio loop that a green thread runs, beside others, on the hub's loop. See docs/design/0016."""

from __future__ import annotations

import asyncio
import inspect
import types
from asyncio import selector_events, unix_events
from typing import TYPE_CHECKING, Any, TypeVar, cast

from greenlet import getcurrent

from oneloop import _native, factories
from oneloop.green.hub import get_hub
from oneloop.green.local import local
from oneloop.green.parking_selector import ParkingSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
__all__ = ["FacadeLoop", "install", "is_wanted", "run", "uninstall"]

T = TypeVar("T")


class FacadeLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, whose waits are those of the green thread that runs it: others go on meanwhile.

    It is made by `oneloop.green.run`, by `oneloop.run` in a green thread, and by everything of asyncio's that makes a
    loop once `install()` was called. Any number of them run at once in a thread, each in a green thread of its own.
    In a thread without green threads it waits in the kernel.

    It differs from asyncio's in that signals come by way of the hub's loop.
    """

    def __init__(self) -> None:
        super().__init__(ParkingSelector())

    def run_green(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, T]:
        """As `oneloop.Loop.run_green`, in a green thread of the same hub."""
        from oneloop.green.bridge import run_green

        return run_green(function, *args, **kwargs)

    # -- signals -------------------------------------------------------------------------------------

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        """Call callback(*args) on this loop when the signal arrives. Main thread only.

        Raises ValueError for a signal that does not exist, RuntimeError for one that cannot be caught or from another
        thread, TypeError for a coroutine.
        """
        given: object = callback
        if asyncio.iscoroutine(given) or inspect.iscoroutinefunction(given):
            raise TypeError("coroutines cannot be used with add_signal_handler()")
        loop: Any = self
        loop._check_closed()
        hub_loop = _hub_loop()
        hub_loop.add_signal_handler(sig, self._pass_on, sig)
        loop._signal_handlers[sig] = (asyncio.Handle(callback, args, self), hub_loop)

    def remove_signal_handler(self, sig: int) -> bool:
        """Take a handler back; True if there was one."""
        handlers: dict[int, Any] = cast("Any", self)._signal_handlers
        handle, hub_loop = handlers.pop(sig, (None, None))
        if handle is None:
            return False
        if not hub_loop.is_closed():
            hub_loop.remove_signal_handler(sig)
        return True

    def _pass_on(self, sig: int) -> None:
        handle, _ = cast("Any", self)._signal_handlers.get(sig, (None, None))
        if handle is not None and not handle.cancelled():
            cast("Any", self)._add_callback_signalsafe(handle)

    # -- asyncio's hooks -----------------------------------------------------------------------------

    def _write_to_self(self) -> None:
        selector: ParkingSelector | None = cast("Any", self)._selector
        if selector is None or not selector.wake():
            # It waits in the kernel, or not at all.
            super()._write_to_self()  # type: ignore[misc]


def _hub_loop() -> Any:
    return get_hub().asyncio_loop


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """As `asyncio.run`, while other green threads of this thread go on; they may do the same.

    Raises:
        RuntimeError: a loop is running here: a coroutine can await `main`.
        BaseException: what the coroutine raises.
    """
    if asyncio._get_running_loop() is not None:
        main.close()
        raise RuntimeError("green.run() cannot be called from a running event loop: a coroutine can be awaited there")
    with asyncio.Runner(debug=debug, loop_factory=FacadeLoop) as runner:
        return runner.run(main)


# -- in the place of asyncio's own -------------------------------------------------------------------


class _Installed:
    """What `install()` has replaced; None where it has not."""

    undo: list[Callable[[], None]] | None = None


def is_wanted() -> bool:
    """Whether what the caller runs asyncio on is to be a `FacadeLoop`: in a green thread; after `install()` always."""
    if _Installed.undo is not None:
        return True
    hub = _native.active_hub()
    return hub is not None and hub.is_away and getcurrent().parent is not None


def install() -> None:
    """Have asyncio make a `FacadeLoop` wherever nobody names a loop, and have its own loops park their green threads.

    For monkey patching: `asyncio.run`, `asyncio.Runner` and `asyncio.new_event_loop` in any greenlet; the current loop
    (`asyncio.set_event_loop`) is each greenlet's own. Does nothing the second time.
    """
    if _Installed.undo is not None:
        return
    policy: Any = unix_events._UnixDefaultEventLoopPolicy
    undo: list[Callable[[], None]] = []
    _Installed.undo = undo
    own: Any = types.ModuleType("selectors")
    vars(own).update(vars(selector_events.selectors))  # type: ignore[attr-defined]
    own.DefaultSelector = own.EpollSelector = ParkingSelector
    _replace(selector_events, "selectors", own, undo)
    _replace(policy, "_loop_factory", staticmethod(factories.default_loop), undo)
    _replace(policy, "_Local", _CurrentLoop, undo)
    for module in (asyncio, unix_events):
        if hasattr(module, "EventLoop"):
            _replace(module, "EventLoop", FacadeLoop, undo)
    made = getattr(asyncio.events, "_event_loop_policy", None)
    if made is not None and hasattr(made, "_local"):
        _replace(made, "_local", _CurrentLoop(), undo)


def uninstall() -> None:
    """Take back what `install()` has done; loops that were made stay what they are."""
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


class _CurrentLoop(local):
    """asyncio's note of a thread's current loop, for each greenlet."""

    _loop: asyncio.AbstractEventLoop | None = None
    _set_called = False
