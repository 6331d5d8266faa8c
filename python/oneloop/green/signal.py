"""`signal`: the standard library's functions, which need few changes, and `signal_handler`.

Handlers run in the main thread, as usual: in the green thread that is running, or on the hub if all are waiting. On the
hub, a handler must not block. SIGCHLD belongs to the program: children are waited for without it.
"""

from __future__ import annotations

import signal as _stock
from itertools import count
from typing import TYPE_CHECKING, Any

from oneloop.green.greenlet import Greenlet
from oneloop.green.hub import get_hub, has_hub
from oneloop.green.steps import may_block
from oneloop.green.wakers import ignore_handler

if TYPE_CHECKING:
    from collections.abc import Callable

__implements__ = ["getsignal", "raise_signal", "set_wakeup_fd", "signal"]
__extensions__ = ["signal_handler"]
__all__ = [*__implements__, *__extensions__]  # noqa: PLE0604 - strings all

set_wakeup_fd = _stock.set_wakeup_fd
_getsignal = _stock.getsignal
_raise_signal = _stock.raise_signal
_signal = _stock.signal

_PATIENCE = 100
"""The number of calls after which other green threads run: loops of threads that only make these would never end."""
_calls = count(1)


def _count_call() -> None:
    if not next(_calls) % _PATIENCE and may_block() and has_hub():
        get_hub().pause()


class _ChildHandler:
    """A program's handler of SIGCHLD, which may wait: a green thread runs it, as in gevent."""

    __slots__ = ("handler",)

    def __init__(self, handler: Callable[..., object]) -> None:
        self.handler = handler

    def __call__(self, signalnum: int, frame: object) -> None:
        if has_hub():
            # This can run at any point, even during a tick, so the loop must be woken.
            get_hub().run_callback_threadsafe(Greenlet.spawn, self.handler, signalnum, None)
        else:
            self.handler(signalnum, frame)


def signal(signalnum: int, handler: Any) -> Any:
    """Like `signal.signal`. A handler of SIGCHLD may wait."""
    chosen: Any = handler
    if signalnum == _stock.SIGCHLD and callable(handler) and not isinstance(handler, _stock.Handlers):
        chosen = _ChildHandler(handler)
    before = _given(_signal(signalnum, chosen))
    _count_call()
    return before


def raise_signal(signalnum: int, /) -> None:
    """Like `signal.raise_signal`."""
    _raise_signal(signalnum)
    _count_call()


def getsignal(signalnum: int) -> Any:
    """Like `signal.getsignal`."""
    return _given(_getsignal(signalnum))


def _given(handler: Any) -> Any:
    return handler.handler if isinstance(handler, _ChildHandler) else handler


class signal_handler:  # noqa: N801 - gevent's name
    """Call a function in a new green thread each time a signal arrives. Use it in the main thread.

    An exception of the function is printed, and raised in the main greenlet. A signal can have several handlers. They
    replace the signal's previous handler, which is restored when the last of them is cancelled. They do not keep the
    hub waiting, unless `ref` is set.

    Args:
        signalnum: the signal number.
        handler: the function to call.
        *args: its arguments.
        **kwargs: its keyword arguments.

    Raises:
        TypeError: `handler` is not callable.
        ValueError: called in another thread, or there is no such signal.
    """

    greenlet_class = Greenlet
    _ref = False

    def __init__(self, signalnum: int, handler: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        if not callable(handler):
            raise TypeError(f"signal handler must be callable, not {handler!r}")
        # Create the hub now. A thread without one blocks in the kernel, and then the function could not run.
        get_hub()
        self.signalnum = signalnum
        self._call: tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]] | None = (handler, args, kwargs)
        chain = _chains.get(signalnum)
        if chain is None:
            old = _stock.getsignal(signalnum)
            signal(signalnum, call_handlers)
            chain = _chains[signalnum] = _Chain(old)
        elif _stock.getsignal(signalnum) is not call_handlers:
            # The program has installed another handler in the meantime.
            chain.old = signal(signalnum, call_handlers)
        chain.handlers.append(self)

    @property
    def ref(self) -> bool:
        """Whether the hub waits for the signal as long as the handler is there; False by default."""
        return self._ref

    @ref.setter
    def ref(self, ref: bool) -> None:
        if bool(ref) != self._ref:
            self._ref = not self._ref
            loop = get_hub().loop
            (loop.ref if self._ref else loop.unref)()

    def cancel(self) -> None:
        """Remove the handler."""
        self.ref = False
        self._call = None
        chain = _chains.get(self.signalnum)
        if chain is None or self not in chain.handlers:
            return
        chain.handlers.remove(self)
        if not chain.handlers:
            del _chains[self.signalnum]
            if _stock.getsignal(self.signalnum) is call_handlers:
                signal(self.signalnum, _stock.SIG_DFL if chain.old is None else chain.old)

    def handle(self) -> None:
        """Call the function now, in a new green thread."""
        if self._call is not None:
            self.greenlet_class.spawn(self._run, *self._call)

    @staticmethod
    def _run(handler: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            handler(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - raised in the main greenlet, as that of any handler
            get_hub().handle_error(None, type(error), error, error.__traceback__)


class _Chain:
    """The handlers of a signal, and the handler that they replaced."""

    __slots__ = ("handlers", "old")

    def __init__(self, old: Any) -> None:
        self.old = old
        self.handlers: list[signal_handler] = []


_chains: dict[int, _Chain] = {}


def call_handlers(signalnum: int, frame: object) -> None:
    chain = _chains.get(signalnum)
    for handler in list(chain.handlers) if chain is not None else ():
        # This can run at any point, even during a tick, so the loop must be woken.
        get_hub().run_callback_threadsafe(handler.handle)


ignore_handler(call_handlers)


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
