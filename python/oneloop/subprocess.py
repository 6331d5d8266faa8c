"""Subprocesses, watched with pidfds: no SIGCHLD handler and no thread per child.

The transport is the standard library's, without the faults of its older releases, which distributions still have:

- gh-119710, gh-125502, gh-133536 (until CPython 3.13.14 and 3.14.6): a child's exit wakes who waits for it only when
  all its pipes were connected and are closed. A start that is cancelled then waits for ever, and so does `wait()` while
  a grandchild has one of the pipes.
- gh-103847 and later (until 3.14.8): if a start is cancelled or fails half-way, pipes that are not connected yet stay
  open.
- gh-87744 (until 3.12.4; `close()` in all): before a signal is sent or the transport is closed, it asks whether the
  child has ended. That collects its status, so that the loop does not know it.
- gh-127049 (3.12.5 and 3.13.0 to 3.14.7): a signal goes to whichever process has the pid of a child that has ended.

This file starts the child, and detects its exit. Only the loop collects the status. `subprocess.Popen` uses vfork where
possible, so the cost does not grow with the size of the parent.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import signal
import subprocess
import threading
from asyncio import base_subprocess
from asyncio.log import logger
from typing import Any


class SubprocessTransport(base_subprocess.BaseSubprocessTransport):
    """A child process; has the interface of `asyncio.SubprocessTransport`."""

    _is_connecting = False

    def _start(
        self: Any, args: Any, shell: bool, stdin: Any, stdout: Any, stderr: Any, bufsize: int, **kwargs: Any
    ) -> None:
        self._proc = subprocess.Popen(
            args,
            shell=shell,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            universal_newlines=False,
            bufsize=bufsize,
            **kwargs,
        )

    async def _connect_pipes(self: Any, waiter: Any) -> None:
        self._is_connecting = True
        try:
            await super()._connect_pipes(waiter)
        finally:
            self._is_connecting = False
        if self._closed or None in self._pipes.values():
            # It was closed meanwhile, or could not connect all.
            self._close_all_pipes()

    def _close_all_pipes(self: Any) -> None:
        """Close also those that are not connected. `_connect_pipes` does that if it runs, but not if it never began."""
        if self._is_connecting or self._proc is None:
            return
        self._close_pipes()
        for pipe in (self._proc.stdin, self._proc.stdout, self._proc.stderr):
            if pipe is not None:
                pipe.close()

    def _close_pipes(self: Any) -> None:
        for protocol in self._pipes.values():
            if protocol is not None:
                protocol.pipe.close()

    def close(self: Any) -> None:
        """Close the pipes, and kill the child if it runs. Pipes that are not connected yet are closed when they are."""
        if self._closed:
            return
        self._closed = True
        # The end of the loop has closed them already.
        loop = self._loop
        if loop is not None and not loop.is_closed():
            self._close_pipes()
        # With PermissionError it has another user's rights.
        with contextlib.suppress(PermissionError, ProcessLookupError):
            if self._may_be_signalled() and _is_running(self._proc.pid):
                if loop is not None and loop.get_debug():
                    logger.warning("Close running child process: kill %r", self)
                self._proc.kill()

    def send_signal(self: Any, signal: int) -> None:
        """Send a signal to the child; no effect if the loop knows that it has ended.

        Raises:
            ProcessLookupError: the transport has ended.
        """
        self._check_proc()
        if self._may_be_signalled():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._proc.pid, signal)

    def terminate(self) -> None:
        """Send SIGTERM, see `send_signal`."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, see `send_signal`."""
        self.send_signal(signal.SIGKILL)

    def _may_be_signalled(self: Any) -> bool:
        """Whether nobody has collected the status, so that no other process can have the pid."""
        return self._proc is not None and self._returncode is None and self._proc.returncode is None

    def _process_exited(self: Any, returncode: int) -> None:
        super()._process_exited(returncode)
        waiters = self._exit_waiters
        if waiters is None:
            # This version has woken them.
            return
        self._exit_waiters = type(waiters)()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(returncode)

    def __del__(self) -> None:
        try:
            super().__del__()
        except RuntimeError:
            # The garbage collector has finalized the loop first. The pipes' destructors close open descriptors.
            if not self._loop.is_closed():
                raise


class SubprocessMixin:
    """How `oneloop.Loop` starts and watches child processes."""

    __slots__ = ()

    def _init_subprocesses(self: Any) -> None:
        # The pidfds of the watched children, and their transports.
        self._pidfds: dict[int, SubprocessTransport] = {}

    def _close_pidfds(self: Any) -> None:
        for pidfd, transport in self._pidfds.items():
            self._remove_reader(pidfd)
            os.close(pidfd)
            # Nobody else would collect the status of one that has ended. Its transport hears nothing any more.
            if transport._proc is not None:
                transport._proc.poll()
        self._pidfds.clear()

    async def _make_subprocess_transport(
        self: Any,
        protocol: Any,
        args: Any,
        shell: bool,
        stdin: Any,
        stdout: Any,
        stderr: Any,
        bufsize: int,
        extra: Any = None,
        **kwargs: Any,
    ) -> SubprocessTransport:
        waiter = self.create_future()
        transport = SubprocessTransport(
            self, protocol, args, shell, stdin, stdout, stderr, bufsize, waiter=waiter, extra=extra, **kwargs
        )
        self._watch_child(transport.get_pid(), transport)
        try:
            await waiter
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:
            transport.close()
            try:
                await transport._wait()
            finally:
                transport._close_all_pipes()
            raise
        return transport

    def _watch_child(self: Any, pid: int, transport: Any) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except (OSError, AttributeError):
            # No pidfds (Linux before 5.3, a sandbox, or a Python built with old headers): start a thread that waits for
            # this child.
            self._watch_in_thread(pid, transport)
            return
        try:
            self._add_reader(pidfd, self._child_ended, pid, pidfd, transport)
        except OSError:
            # The kernel has no memory for the registration (epoll_ctl(2)), and the child runs already.
            os.close(pidfd)
            self._watch_in_thread(pid, transport)
            return
        self._pidfds[pidfd] = transport

    def _watch_in_thread(self: Any, pid: int, transport: Any) -> None:
        arguments = (self, pid, transport, contextvars.copy_context())
        threading.Thread(target=_wait_in_thread, args=arguments, name=f"waitpid-{pid}", daemon=True).start()

    def _child_ended(self: Any, pid: int, pidfd: int, transport: Any) -> None:
        if _is_running(pid):
            return  # a readiness without a cause; waiting for the child here would stop the loop
        del self._pidfds[pidfd]
        self._remove_reader(pidfd)
        os.close(pidfd)
        # Reap the child and tell the transport in one step: between the two, a signal could go to another process
        # that has got the same pid.
        transport._process_exited(_returncode(pid, transport))


def _is_running(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _returncode(pid: int, transport: Any) -> int:
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        known = transport._proc.returncode
        if known is not None:
            # The program has asked the Popen object of the transport.
            return int(known)
        # Other code has reaped the child: the status is lost.
        logger.warning("child process pid %d exit status already read: will report returncode 255", pid)
        return 255
    return os.waitstatus_to_exitcode(status)


def _wait_in_thread(loop: Any, pid: int, transport: Any, context: contextvars.Context) -> None:
    # WNOWAIT does not reap the child, so the pid stays valid until the loop has read its status.
    with contextlib.suppress(ChildProcessError):  # other code has reaped it; `_returncode` logs that
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    try:
        loop.call_soon_threadsafe(_publish_exit, pid, transport, context=context)
    except RuntimeError:
        if not loop.is_closed():
            raise
        # Nobody else would collect the status.
        transport._proc.poll()
        logger.warning("Loop %r that handles pid %r is closed", loop, pid)


def _publish_exit(pid: int, transport: Any) -> None:
    transport._process_exited(_returncode(pid, transport))
