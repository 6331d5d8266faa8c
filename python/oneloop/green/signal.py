"""`signal`: the standard library's functions, which need few changes, and `signal_handler`.

Handlers run in the main thread, as usual: in the green thread that is running, or on the hub if all are waiting. On the
hub, a handler must not block. SIGCHLD belongs to the program: children are waited for without it.
"""

from __future__ import annotations

import signal as _stock
from typing import TYPE_CHECKING, Any

from oneloop.green.greenlet import Greenlet
from oneloop.green.hub import get_hub, has_hub

if TYPE_CHECKING:
    from collections.abc import Callable

__implements__ = ["getsignal", "set_wakeup_fd", "signal"]
__extensions__ = ["signal_handler"]
__all__ = [*__implements__, *__extensions__]  # noqa: PLE0604 - strings all

_set_wakeup_fd = _stock.set_wakeup_fd
getsignal = _stock.getsignal
signal = _stock.signal


def set_wakeup_fd(fd: int, /, *, warn_on_full_buffer: bool = True) -> int:
    """Like `signal.set_wakeup_fd`. Setting -1 restores the descriptor that the loop uses.

    While the program's own descriptor is set, a signal that arrives immediately before the loop goes to sleep is
    handled when the loop wakes next.
    """
    loops = _loops_fd()
    old = _set_wakeup_fd(loops if fd == -1 else fd, warn_on_full_buffer=warn_on_full_buffer and fd != -1)
    return -1 if old == loops else old


# Programs use the function's module name (CPython's own tests do).
set_wakeup_fd.__module__ = "signal"


def _loops_fd() -> int:
    """The wakeup descriptor of this thread's running loop; -1 if there is none."""
    if not has_hub():
        return -1
    loop = get_hub().asyncio_loop
    csock = loop._csock
    return csock.fileno() if csock is not None and loop.is_running() else -1


class signal_handler:  # noqa: N801 - gevent's name
    """Call a function in a new green thread each time a signal arrives. Use it in the main thread.

    A signal can have several handlers. They replace the signal's previous handler, which is restored when the last of
    them is cancelled. They do not keep the hub waiting.

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
            signal(signalnum, _come)
            chain = _chains[signalnum] = _Chain(old)
        elif _stock.getsignal(signalnum) is not _come:
            # The program has installed another handler in the meantime.
            chain.old = signal(signalnum, _come)
        chain.handlers.append(self)

    def cancel(self) -> None:
        """Remove the handler."""
        self._call = None
        chain = _chains.get(self.signalnum)
        if chain is None or self not in chain.handlers:
            return
        chain.handlers.remove(self)
        if not chain.handlers:
            del _chains[self.signalnum]
            if _stock.getsignal(self.signalnum) is _come:
                signal(self.signalnum, _stock.SIG_DFL if chain.old is None else chain.old)

    def handle(self) -> None:
        """Call the function now, in a new green thread."""
        if self._call is not None:
            handler, args, kwargs = self._call
            self.greenlet_class.spawn(handler, *args, **kwargs)


class _Chain:
    """The handlers of a signal, and the handler that they replaced."""

    __slots__ = ("handlers", "old")

    def __init__(self, old: Any) -> None:
        self.old = old
        self.handlers: list[signal_handler] = []


_chains: dict[int, _Chain] = {}


def _come(signalnum: int, frame: object) -> None:
    chain = _chains.get(signalnum)
    for handler in list(chain.handlers) if chain is not None else ():
        # This can run at any point, even during a tick, so the loop must be woken.
        get_hub().run_callback_threadsafe(handler.handle)


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
