"""Signals: `add_signal_handler`, and a Ctrl-C that always wakes the loop.

A signal interrupts a poll, but not one that is about to begin. So while a loop sleeps in the main thread, the
interpreter writes the number of each signal to a socket that the loop watches (the wakeup descriptor: see
`signal.set_wakeup_fd`). The native core sets it before a sleep and resets it afterwards, so the program does not see
it. (Before Python 3.13 that is impossible: a loop then looks for signals every second.) It stays set only while the
loop has signal handlers, as in asyncio. A wakeup descriptor that the program has set is not replaced by a sleep.

There is one such descriptor and one handler of each signal, but several loops may have signal handlers: one may
run inside a callback of another. The loop that runs (the innermost, or else the one that comes last) is told of all
signals, and passes on those that are others'; while it runs, a loop without handlers stands in for those that have
them. When a loop has no handlers any more, or has run in the place of others, what it found is restored: another loop's
descriptor, or the program's.

This module binds the interpreter's functions at import, before monkey patching (`oneloop.green.monkey` or gevent's)
can replace them.
"""

from __future__ import annotations

import _socket
import asyncio
import contextlib
import errno
import itertools
import os
import signal
import sys
import weakref
from typing import TYPE_CHECKING, Any

from oneloop.interrupts import do_nothing, is_main_thread

if sys.version_info >= (3, 13):
    from oneloop._native import swap_wakeup_fd

if TYPE_CHECKING:
    from collections.abc import Callable, Container


_SOCKET_TYPE = _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK
_set_handler = signal.signal
_set_wakeup_fd = signal.set_wakeup_fd


_wakeup_fds: set[int] = set()
"""The wakeup descriptors of all loops of this process."""
_told: list[weakref.ref[Any]] = []
"""The loops that are told of signals, in the order in which they have set the process's wakeup descriptor.

Those with signal handlers, and those without any that run inside of one of them: a signal must wake these, too.
"""
_runs = itertools.count(1)
os.register_at_fork(after_in_child=_told.clear)


def _swap_wakeup_fd(fd: int) -> int:
    """Set the process's wakeup descriptor, and return the one before. Before Python 3.13: only in the main thread.

    In one step: a signal that came between two of them would be lost. The program's `warn_on_full_buffer` cannot be
    read; most programs turn that off. A warning that is missing does less harm than one on stderr that the program did
    not want.
    """
    try:
        return _set_wakeup_fd(fd, warn_on_full_buffer=False)
    except (ValueError, OSError):
        # Another thread, or the program has closed it.
        return swap_wakeup_fd(fd) if sys.version_info >= (3, 13) else _set_wakeup_fd(-1)


class FoundFd:
    """A wakeup descriptor of the program, which was set when a loop set its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._file = _identity(number)

    def is_still_open(self) -> bool:
        """Return False if it was closed, even if the number belongs to another file by now."""
        return self._file is not None and _identity(self.number) == self._file


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _reset_wakeup_fd(own: Container[int], found: FoundFd | None = None) -> None:
    """Replace the process's wakeup descriptor if it is one of `own`. Before Python 3.13: only in the main thread.

    Args:
        own: descriptors that are no longer used.
        found: the program's, which is set again. Otherwise that of another loop that is told of signals is.
    """
    if found is not None and found.is_still_open():
        new = found.number
    else:
        told = _told_of_signals(None)
        new = -1 if told is None else told._csock.fileno()
    current = _swap_wakeup_fd(new)
    if current != -1 and current not in own:
        _swap_wakeup_fd(current)


def _told_of_signals(besides: Any) -> Any:
    """Return the loop whose descriptor should be the process's; None if there is none."""
    loops = _loops_told(besides)
    running = [loop for loop in loops if loop.is_running()]
    if running:
        return max(running, key=lambda loop: loop._run_number)
    return loops[0] if loops else None


def _loops_told(besides: Any = None) -> list[Any]:
    """Return the loops that are told of signals, the last one first; without `besides`, which asks for the others."""
    loops = [loop() for loop in reversed(_told)]
    return [loop for loop in loops if loop is not None and loop is not besides]


def _forget(loop: Any) -> None:
    """The loop is not told of signals any more. What it had found is restored by the loop that has found it."""
    above = None
    for other in _loops_told():
        if other is loop:
            break
        above = other
    _told[:] = [other for other in _told if other() is not None and other() is not loop]
    if above is not None:
        if above._found_wakeup_fd is None:
            above._found_wakeup_fd = loop._found_wakeup_fd
        loop._found_wakeup_fd = None


if sys.version_info < (3, 12):
    # Otherwise a signal of the child would reach its parent's loop. Later versions do this in asyncio.
    os.register_at_fork(after_in_child=lambda: _reset_wakeup_fd(_wakeup_fds))


class SignalMixin:
    """`add_signal_handler` and `remove_signal_handler` of `oneloop.Loop`."""

    __slots__ = ()

    def _init_signals(self: Any) -> None:
        self._signal_handlers: dict[int, asyncio.Handle] = {}
        self._ssock: _socket.socket | None = None
        self._csock: _socket.socket | None = None
        self._watches_signals = False
        self._found_wakeup_fd: FoundFd | None = None
        # The wakeup descriptor of the loop in whose place this one is told; -1: none.
        self._found_loops_fd = -1
        self._run_number = 0
        # Set before anything that `_leave_wakeup_fd` undoes, and cleared after it: an interrupt may come in between.
        self._may_be_told = False
        if is_main_thread():
            # A run may have no descriptors left for them.
            self._make_wakeup_sockets()

    def _make_wakeup_sockets(self: Any) -> None:
        # Neither of them blocks.
        self._ssock, self._csock = _socket.socketpair(_socket.AF_UNIX, _SOCKET_TYPE)
        _wakeup_fds.add(self._csock.fileno())

    def _wakeup_socket(self: Any) -> _socket.socket:
        """Return the socket that the interpreter writes to; the loop watches the other end from now on."""
        if self._csock is None:
            self._make_wakeup_sockets()
        if not self._watches_signals:
            # Not in the constructor: a subclass may have its own `_add_reader`, which needs what it has not set yet.
            self._watches_signals = True
            try:
                self._add_reader(self._ssock.fileno(), self._read_signals)
            except BaseException:
                self._watches_signals = False
                raise
            self._note_signal_fd(self._ssock.fileno())
        csock: _socket.socket = self._csock  # pyright: ignore[reportAssignmentType]
        return csock

    def _prepare_for_signals(self: Any) -> None:
        """Let signals wake the loop if it is about to run in the main thread."""
        fd = -1
        # The descriptor of a loop with handlers is set already.
        if is_main_thread() and not self._signal_handlers:
            # If another thread has made the loop, and no descriptor is left, a signal interrupts its sleep only as it
            # interrupts asyncio's.
            with contextlib.suppress(OSError):
                fd = self._wakeup_socket().fileno()
        self._note_wakeup_fd(fd)

    def _begin_run(self: Any) -> None:
        """Called when the loop is about to run."""
        # A loop in another thread is told only if none runs in this one: nobody takes the descriptor back when it ends.
        self._run_number = next(_runs) if is_main_thread() else 0
        self._prepare_for_signals()
        if self._signal_handlers and is_main_thread():
            self._be_told_of_signals()

    def _end_run(self: Any) -> None:
        """Called when the loop has run: another one, which it has run in, is told of signals again."""
        if not is_main_thread():
            return
        if not self._signal_handlers:
            if self._may_be_told:
                # In the place of another loop.
                found, self._found_loops_fd = self._found_loops_fd, -1
                self._leave_wakeup_fd()
                if found in _wakeup_fds and _told_of_signals(None) is None:
                    # It has no handlers, and sleeps: this one has run in a handler of a signal.
                    _swap_wakeup_fd(found)
            return
        told = _told_of_signals(self)
        if told is not None and told.is_running():
            told._be_told_of_signals()

    def _be_told_of_signals(self: Any) -> None:
        """Take the wakeup descriptor over from another loop, with what that one was told of and has not read."""
        current = _swap_wakeup_fd(self._csock.fileno())
        if current in _wakeup_fds:
            for other in _loops_told(self):
                other._read_signals()
        elif current != -1:
            # The program has set it since.
            _swap_wakeup_fd(current)

    def _keep_wakeup_fd(self: Any, fd: int) -> None:
        """Called by the native core, which has found the program's wakeup descriptor, or another loop's."""
        if fd in _wakeup_fds and self._csock is not None and fd != self._csock.fileno():
            # A signal must wake this loop, the innermost from now on. It passes on those that are the other's.
            if not self._may_be_told:
                number = next(_runs)
                self._may_be_told, self._run_number, self._found_loops_fd = True, number, fd
            if self not in _loops_told():
                _told.append(weakref.ref(self))
            fd = self._csock.fileno()
        _swap_wakeup_fd(fd)

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
            # Another loop's: this one runs in a callback of that one, or between its runs.
            for other in _loops_told(self):
                if sig in other._signal_handlers:
                    other._handle_signal(sig)
                    return
            return
        if handle._cancelled:
            self.remove_signal_handler(sig)
        else:
            # It may sleep in another thread.
            self._push_threadsafe(handle)

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
        was_told, self._may_be_told = self._may_be_told, True
        try:
            # Raises ValueError outside the main thread, before anything has changed.
            found = _set_wakeup_fd(self._wakeup_socket().fileno(), warn_on_full_buffer=False)
            self._note_wakeup_fd(-1)
        except BaseException as exc:
            self._may_be_told = was_told
            if isinstance(exc, (ValueError, OSError)):
                raise RuntimeError(str(exc)) from exc
            raise
        if self not in _loops_told():
            # Its first handler, or the first one in the child of a fork.
            self._found_wakeup_fd = None if found == -1 or found in _wakeup_fds else FoundFd(found)
            _told.append(weakref.ref(self))
        self._signal_handlers[sig] = asyncio.Handle(callback, args, self, None)
        try:
            _set_handler(sig, do_nothing)
            signal.siginterrupt(sig, False)
        except OSError as exc:
            del self._signal_handlers[sig]
            self._leave_wakeup_fd()
            if exc.errno == errno.EINVAL:
                raise RuntimeError(f"sig {sig} cannot be caught") from exc
            raise
        told = _told_of_signals(None)
        if told is not self:
            # That one runs, and this one does not yet.
            told._be_told_of_signals()

    def _swap_signal_handle(self: Any, sig: int, handle: asyncio.Handle) -> None:
        """Let a signal that has a handler call another one from now on. For `oneloop.green.facade_signals`."""
        self._signal_handlers[sig] = handle

    def _signal_handle(self: Any, sig: int) -> asyncio.Handle | None:
        """Return what a signal calls. For `oneloop.green.facade_signals`."""
        handle: asyncio.Handle | None = self._signal_handlers.get(sig)
        return handle

    def remove_signal_handler(self: Any, sig: int) -> bool:
        """Remove the signal's handler, and restore the default action (SIGINT: KeyboardInterrupt).

        If another loop has a handler for the signal, that one gets the signal from now on.

        Returns:
            True if there was a handler.

        Raises:
            ValueError: there is no such signal.
            TypeError: `sig` is not an int.
        """
        self._check_signal(sig)
        if sig not in self._signal_handlers:
            return False
        try:
            if not any(sig in other._signal_handlers for other in _loops_told(self)):
                _set_handler(sig, signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL)
        except OSError as exc:
            if exc.errno == errno.EINVAL:
                raise RuntimeError(f"sig {sig} cannot be caught") from exc
            raise
        # Only now: until then `close` would do it again.
        self._signal_handlers.pop(sig, None)
        self._leave_wakeup_fd()
        return True

    def _ignore_signal(self: Any, sig: int) -> None:
        """Ignore a signal from now on, also after the loop is closed. For `oneloop.http.process`.

        `remove_signal_handler` restores the default action first, and a signal at that moment would end the process:
        blocking it in this thread does not help, because another thread would get it.
        """
        _set_handler(sig, signal.SIG_IGN)
        if self._signal_handlers.pop(sig, None) is not None:
            self._leave_wakeup_fd()

    def _leave_wakeup_fd(self: Any) -> None:
        if self._signal_handlers:
            return
        _forget(self)
        found, self._found_wakeup_fd = self._found_wakeup_fd, None
        _reset_wakeup_fd((self._csock.fileno(),), found)
        if _loops_told(self):
            # What has come last may be theirs. Otherwise it is left for a handler that this loop may get.
            self._read_signals()
        self._may_be_told = False
        if self.is_running():
            self._prepare_for_signals()

    def _check_signal(self: Any, sig: int) -> None:
        if not isinstance(sig, int):
            raise TypeError(f"sig must be an int, not {sig!r}")
        if sig not in signal.valid_signals():
            raise ValueError(f"invalid signal number {sig}")

    def _close_signals(self: Any, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Remove all handlers, and close the sockets even if that fails (ValueError in another thread)."""
        try:
            # The interpreter clears this module's names before it frees the last loops.
            if is_finalizing():
                self._signal_handlers.clear()
            else:
                for sig in list(self._signal_handlers):
                    self.remove_signal_handler(sig)
                if self._may_be_told:
                    # An interrupt has come in the midst of a removal.
                    self._leave_wakeup_fd()
        except BaseException:
            _forget(self)
            if sys.version_info >= (3, 13):
                _reset_wakeup_fd((self._csock.fileno(),), self._found_wakeup_fd)
            raise
        finally:
            self._close_wakeup_socket()

    def _close_wakeup_socket(self: Any, fds: set[int] = _wakeup_fds) -> None:
        if self._csock is not None:
            fds.discard(self._csock.fileno())
            if self._watches_signals:
                self._remove_reader(self._ssock.fileno())
            self._ssock.close()
            self._csock.close()


def _is_coroutine_function(callback: Any) -> bool:
    import inspect

    return inspect.iscoroutinefunction(callback)
