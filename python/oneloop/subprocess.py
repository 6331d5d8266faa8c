"""Subprocesses, watched with pidfds: no SIGCHLD handler and no thread per child.

The transport is the standard library's. This file only starts the child and detects its exit.
`subprocess.Popen` uses vfork where possible, so the cost does not grow with the size of the parent.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from asyncio import base_subprocess
from asyncio.log import logger
from typing import Any


class SubprocessTransport(base_subprocess.BaseSubprocessTransport):
    """A child process; has the interface of `asyncio.SubprocessTransport`."""

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
        # The pidfds of the watched children.
        self._pidfds: set[int] = set()

    def _close_pidfds(self: Any) -> None:
        for pidfd in self._pidfds:
            self._remove_reader(pidfd)
            os.close(pidfd)
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
            await transport._wait()
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
        self._pidfds.add(pidfd)

    def _watch_in_thread(self: Any, pid: int, transport: Any) -> None:
        threading.Thread(
            target=_wait_in_thread, args=(self, pid, transport), name=f"waitpid-{pid}", daemon=True
        ).start()

    def _child_ended(self: Any, pid: int, pidfd: int, transport: Any) -> None:
        if _is_running(pid):
            return  # a readiness without a cause; waiting for the child here would stop the loop
        self._pidfds.discard(pidfd)
        self._remove_reader(pidfd)
        os.close(pidfd)
        # Reap the child and tell the transport in one step: between the two, a signal could go to another process
        # that has got the same pid.
        transport._process_exited(_returncode(pid))


def _is_running(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _returncode(pid: int) -> int:
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        # Other code has reaped the child: the status is lost.
        logger.warning("child process pid %d exit status already read: will report returncode 255", pid)
        return 255
    return os.waitstatus_to_exitcode(status)


def _wait_in_thread(loop: Any, pid: int, transport: Any) -> None:
    # WNOWAIT does not reap the child, so the pid stays valid until the loop has read its status.
    with contextlib.suppress(ChildProcessError):  # other code has reaped it; `_returncode` logs that
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    if loop.is_closed():
        logger.warning("Loop %r that handles pid %r is closed", loop, pid)
    else:
        loop.call_soon_threadsafe(_publish_exit, pid, transport)


def _publish_exit(pid: int, transport: Any) -> None:
    transport._process_exited(_returncode(pid))
