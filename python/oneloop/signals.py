"""Signals: `add_signal_handler`, and a Ctrl-C that always wakes the loop.

While a loop runs in the main thread, the interpreter writes the number of each signal to a socket
that the loop watches (`signal.set_wakeup_fd`). A signal therefore always interrupts the poll.
A wakeup descriptor that the program has set is not replaced.

This module binds the interpreter's functions at import, before monkey patching (`oneloop.green.monkey` or gevent's)
can replace them.
"""

from __future__ import annotations

import _socket
import _thread
import asyncio
import errno
import os
import signal
import sys
from asyncio.log import logger
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


_set_handler = signal.signal
_set_wakeup_fd = signal.set_wakeup_fd


def is_main_thread() -> bool:
    """Return True in the thread that runs signal handlers. `threading` gives wrong answers in a patched program."""
    return _thread.get_native_id() == os.getpid()


def _noop(signum: int, frame: object) -> None:
    """Do nothing: the interpreter writes a signal's number only if the signal has a Python handler."""


def _nothing() -> None:
    """Do nothing: there is no wakeup descriptor to restore."""


class SignalMixin:
    """`add_signal_handler` and `remove_signal_handler` of `oneloop.Loop`."""

    __slots__ = ()

    def _init_signals(self: Any) -> None:
        self._signal_handlers: dict[int, asyncio.Handle] = {}
        self._ssock: _socket.socket | None = None
        self._csock: _socket.socket | None = None

    def _wakeup_socket(self: Any) -> _socket.socket:
        """Return the socket that the interpreter writes to, and create it on first use."""
        if self._csock is None:
            self._ssock, self._csock = _socket.socketpair()
            self._ssock.setblocking(False)
            self._csock.setblocking(False)
            self._add_reader(self._ssock.fileno(), self._read_signals)
            self._note_signal_fd(self._ssock.fileno())
        csock: _socket.socket = self._csock
        return csock

    def _arm_wakeup_fd(self: Any) -> Callable[[], None]:
        """Route signals to this loop while it runs. Return a function that undoes it."""
        if not is_main_thread():
            return _nothing
        fd = self._wakeup_socket().fileno()
        old = _set_wakeup_fd(fd, warn_on_full_buffer=False)
        if old in (-1, fd):

            def restore() -> None:
                # As in asyncio, it stays set while the loop has signal handlers.
                if not self._signal_handlers and not self.is_closed():
                    _set_wakeup_fd(-1)

            return restore
        _set_wakeup_fd(old)
        return _nothing

    def _read_signals(self: Any) -> None:
        while True:
            try:
                data = self._ssock.recv(4096)
            except (BlockingIOError, InterruptedError):
                return
            for signum in data:
                # Zero is not a signal: some code wrote it only to wake the loop.
                if signum:
                    self._handle_signal(signum)
            if len(data) < 4096:
                return

    def _handle_signal(self: Any, sig: int) -> None:
        handle = self._signal_handlers.get(sig)
        if handle is None:
            return
        if handle._cancelled:
            self.remove_signal_handler(sig)
        else:
            self._push_ready(handle)

    def add_signal_handler(self: Any, sig: int, callback: Callable[..., Any], *args: Any) -> None:
        """Call `callback(*args)` in the loop when the signal arrives. Main thread only.

        Args:
            sig: a signal number. A handler that is already set for it is replaced.
            callback: a plain function, not a coroutine function.
            *args: arguments for the callback.

        Raises:
            ValueError: there is no such signal.
            RuntimeError: the signal cannot be caught, or this is not the main thread.
            TypeError: `sig` is not an int, or `callback` is a coroutine or a coroutine function.
        """
        given: object = callback
        if asyncio.iscoroutine(given) or _is_coroutine_function(given):
            raise TypeError("coroutines cannot be used with add_signal_handler()")
        self._check_signal(sig)
        self._check_closed()
        try:
            # Raises ValueError outside the main thread, before anything has changed.
            _set_wakeup_fd(self._wakeup_socket().fileno(), warn_on_full_buffer=False)
        except (ValueError, OSError) as exc:
            raise RuntimeError(str(exc)) from exc
        self._signal_handlers[sig] = asyncio.Handle(callback, args, self, None)
        try:
            _set_handler(sig, _noop)
            signal.siginterrupt(sig, False)
        except OSError as exc:
            del self._signal_handlers[sig]
            self._drop_wakeup_fd()
            if exc.errno == errno.EINVAL:
                raise RuntimeError(f"sig {sig} cannot be caught") from exc
            raise

    def remove_signal_handler(self: Any, sig: int) -> bool:
        """Remove the signal's handler and restore the default action (SIGINT: KeyboardInterrupt).

        Returns:
            True if there was a handler.

        Raises:
            ValueError: there is no such signal.
            TypeError: `sig` is not an int.
        """
        self._check_signal(sig)
        if self._signal_handlers.pop(sig, None) is None:
            return False
        try:
            _set_handler(sig, signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL)
        except OSError as exc:
            if exc.errno == errno.EINVAL:
                raise RuntimeError(f"sig {sig} cannot be caught") from exc
            raise
        self._drop_wakeup_fd()
        return True

    def _drop_wakeup_fd(self: Any) -> None:
        # A running loop still needs it for Ctrl-C.
        if self._signal_handlers or self.is_running():
            return
        try:
            _set_wakeup_fd(-1)
        except (ValueError, OSError) as exc:
            logger.info("set_wakeup_fd(-1) failed: %s", exc)

    def _check_signal(self: Any, sig: int) -> None:
        if not isinstance(sig, int):
            raise TypeError(f"sig must be an int, not {sig!r}")
        if sig not in signal.valid_signals():
            raise ValueError(f"invalid signal number {sig}")

    def _close_signals(self: Any) -> None:
        if sys.is_finalizing():
            self._signal_handlers.clear()
        else:
            for sig in list(self._signal_handlers):
                self.remove_signal_handler(sig)
        if self._csock is not None:
            self._remove_reader(self._ssock.fileno())
            self._ssock.close()
            self._csock.close()


def _is_coroutine_function(callback: Any) -> bool:
    import inspect

    return inspect.iscoroutinefunction(callback)
