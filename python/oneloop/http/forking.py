"""`Child`: a forked process with one task, and the channel between it and its parent.

The channel is a socket pair. Each side detects the end of the other process when the channel is closed, so the children
end if the parent dies.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oneloop.interrupts import do_nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Child", "fork", "reason_of"]

# The signals that the parent handles. A terminal sends some of them to the children as well.
SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGCHLD,
)
# Signals that the children ignore: the parent tells them through the channel what to do.
_LEFT_TO_PARENT = (signal.SIGINT, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU)


@dataclass(slots=True)
class Child:
    """The parent's handle of a child process."""

    pid: int
    channel: socket.socket

    def tell(self, word: bytes) -> None:
        """Send a message through the channel. Does nothing if the child has ended."""
        with contextlib.suppress(OSError):
            self.channel.send(word)

    def kill(self, number: signal.Signals) -> None:
        """Send a signal. Does nothing if the child has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Return the child's wait status if it has ended, else None. Do not call it again afterwards."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return status if pid else None


def fork(work: Callable[[socket.socket], int], close: Iterable[socket.socket]) -> Child:
    """Fork a child process. Its exit status is the return value of `work`.

    Args:
        work: called in the child with its end of the channel. Signals have their default actions, except those that
            only the parent handles; these are ignored.
        close: the parent's sockets, which the child closes.
    """
    ours, theirs = socket.socketpair()
    for one in (sys.stdout, sys.stderr):
        # Flush, so that buffered output is not written by both processes.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            one.flush()
    # Block signals until the child has reset its handlers: before, a signal would reach the parent's wakeup socket.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            _be_child(work, theirs, [ours, *close])
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    theirs.close()
    ours.setblocking(False)
    return Child(pid, ours)


def _be_child(work: Callable[[socket.socket], int], channel: socket.socket, close: Iterable[socket.socket]) -> None:
    """Do the work and exit. Never returns."""
    status = 1
    try:
        # The parent's exit functions must not run in the child; those that `work` registers run in `_end`.
        atexit._clear()
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            # A function instead of SIG_IGN, because programs that the child executes would inherit SIG_IGN.
            signal.signal(number, do_nothing if number in _LEFT_TO_PARENT else signal.SIG_DFL)
        for one in close:
            one.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        status = work(channel)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:  # noqa: BLE001 - this is the outermost frame of the child
        traceback.print_exc()
    finally:
        _end(status)


def _end(status: int) -> None:
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        logging.shutdown()
        for one in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                one.flush()
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    finally:
        os._exit(status)


def reason_of(wait_status: int, *, is_killed: bool = False) -> str:
    """Describe how a process has ended. `is_killed`: this process has killed it, so nobody else is suspected."""
    code = os.waitstatus_to_exitcode(wait_status)
    if code >= 0:
        return f"ended with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the system may be out of memory)" if -code == signal.SIGKILL and not is_killed else ""
    return f"was killed by {name}{hint}"
