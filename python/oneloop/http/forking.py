"""`Child`: a forked process that does one piece of work, and the channel between it and its parent.

The channel is a pair of sockets. Either side sees the other's end by its closing, so that a parent that dies takes its
children along.
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

__all__ = ["Child", "fork", "reason_of"]

# What the parent handles; a terminal sends some of them to its children, too.
SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGCHLD,
)
# What the parent tells its children by the channel.
_LEFT_TO_PARENT = (signal.SIGINT, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU)


@dataclass(slots=True)
class Child:
    """A child as its parent sees it."""

    pid: int
    channel: socket.socket

    def tell(self, word: bytes) -> None:
        """Send it a word; one that has ended need not hear it."""
        with contextlib.suppress(OSError):
            self.channel.send(word)

    def kill(self, number: signal.Signals) -> None:
        """Send it a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Its wait status, once it has ended; asked for until then."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return status if pid else None


def fork(work: Callable[[socket.socket], int], close: Iterable[socket.socket]) -> Child:
    """Start a child, which ends with the status that `work` returns.

    Args:
        work: gets the child's end of the channel. It finds the usual handlers of signals, save those that are the
            parent's business and mean nothing to it.
        close: what is the parent's alone.
    """
    ours, theirs = socket.socketpair()
    for one in (sys.stdout, sys.stderr):
        # What is buffered is not to be written twice.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            one.flush()
    # A signal that came to the child before it has its own handlers would be taken for one of the parent's.
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
    """Do the work and end; never returns."""
    status = 1
    try:
        # What was to be done at the parent's end is the parent's; what the work adds is done below.
        atexit._clear()
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            # A function, since programs that a child starts would inherit that a signal is ignored.
            signal.signal(number, _leave_it if number in _LEFT_TO_PARENT else signal.SIG_DFL)
        for one in close:
            one.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        status = work(channel)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:  # noqa: BLE001 - there is nobody above
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


def _leave_it(number: int, frame: FrameType | None) -> None:
    """The parent does what is to be done."""


def reason_of(wait_status: int) -> str:
    """How a process has ended, in words."""
    code = os.waitstatus_to_exitcode(wait_status)
    if code >= 0:
        return f"ended with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the system may be out of memory)" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
