"""Waiting for child processes without blocking the loop, and without using SIGCHLD.

A pidfd on the loop reports the end of one child. Other changes (any child, a process group, a child that stops or
continues) are waited for in an OS thread with waitid(2), which does not collect the child's status. The thread is also
used if there are no pidfds (Linux before 5.3, a sandbox, no free descriptor). The waiter then collects the status
itself.
"""

from __future__ import annotations

import os
from _thread import RLock, start_new_thread
from typing import TYPE_CHECKING, Any

from oneloop.green.hub import TIMED_OUT, Countdown, Waiter, get_hub, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.green.hub import Hub

__all__ = ["wait_changed", "when_ended"]

_close = os.close
_getpgrp = os.getpgrp
_waitid = os.waitid

_IN_WAITID = {0: os.WEXITED, os.WUNTRACED: os.WSTOPPED, os.WCONTINUED: os.WCONTINUED}


def wait_changed(pid: int, options: int, poll: Callable[[], Any], timeout: float | None = None) -> Any:
    """Wait until `poll()` returns a true value. It is called after each change of a child that matches.

    Args:
        pid: as in `os.waitpid`: a child, -1 for any child, 0 or less than -1 for a process group.
        options: `os.WUNTRACED` and `os.WCONTINUED`, to wait for more changes than the end of a child.
        poll: checks the state without waiting.
        timeout: the maximum time in seconds; None means no limit.

    Returns:
        The result of `poll`; a false value if the timeout expired.

    Raises:
        BlockingSwitchOutError: called in a coroutine or a callback that may not block, and it would have to wait.
        OSError: raised by `poll`.
    """
    left = Countdown(timeout)
    while not (found := poll()):
        hub = get_hub()
        waiter = Waiter(hub)
        watch = _watch(hub, pid, options, waiter)
        try:
            # The child may have changed before the watch started.
            if found := poll():
                return found
            if wait_for(waiter, left.seconds()) is TIMED_OUT:
                return poll()
        finally:
            watch.stop()
    return found


def when_ended(hub: Hub, pid: int, call: Callable[[], object]) -> Callable[[], None]:
    """Call a function once on the hub when a child has ended; return a function that cancels this."""
    watch: _Pidfd | _Listener

    def tell(_: object = None) -> None:
        watch.stop()
        call()

    watch = _watch(hub, pid, 0, _Called(hub, tell))
    return watch.stop


class _Called:
    """A function with the interface of a `Waiter`."""

    __slots__ = ("_call", "_hub")

    def __init__(self, hub: Hub, call: Callable[[], object]) -> None:
        self._hub = hub
        self._call = call

    def wake(self) -> None:
        self._hub.run_callback_threadsafe(self._call)


def _watch(hub: Hub, pid: int, options: int, waiter: Any) -> _Pidfd | _Listener:
    if pid > 0 and not options & (os.WUNTRACED | os.WCONTINUED):
        try:
            return _Pidfd(hub, os.pidfd_open(pid), waiter)
        except (OSError, AttributeError):
            # The process is not our child, which waitid reports too; or pidfds are not available.
            pass
    return _Listener(pid, options, waiter)


class _Pidfd:
    """Wakes its waiter when a child has ended."""

    __slots__ = ("_fd", "_hub")

    def __init__(self, hub: Hub, fd: int, waiter: Any) -> None:
        self._hub = hub
        self._fd = fd
        hub.asyncio_loop._add_reader(fd, waiter.wake)

    def stop(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._hub.asyncio_loop._remove_reader(fd)
            _close(fd)


class _Listener:
    """Wakes its waiter when an OS thread has seen a change. Waits for the same change share one thread."""

    __slots__ = ("_key", "_waiter")

    def __init__(self, pid: int, options: int, waiter: Any) -> None:
        self._key = _key(pid, options)
        self._waiter = waiter
        _threads.add(self._key, waiter)

    def stop(self) -> None:
        _threads.remove(self._key, self._waiter)


class _Threads:
    """The threads that call waitid, and their waiters. An unused thread continues until the next change."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._lock = RLock()
        self._waiting: dict[tuple[int, int, int], list[Any]] = {}

    def add(self, key: tuple[int, int, int], waiter: Any) -> None:
        with self._lock:
            if key not in self._waiting:
                start_new_thread(self._listen, (key,))
                self._waiting[key] = []
            self._waiting[key].append(waiter)

    def remove(self, key: tuple[int, int, int], waiter: Any) -> None:
        with self._lock:
            waiting = self._waiting.get(key, [])
            if waiter in waiting:
                waiting.remove(waiter)

    def _listen(self, key: tuple[int, int, int]) -> None:
        try:
            _waitid(*key)
        except ChildProcessError:
            # There is no such child. The waiters must check that too.
            pass
        finally:
            with self._lock:
                waiting = self._waiting.pop(key)
            for waiter in waiting:
                waiter.wake()


_threads = _Threads()
# In a forked child: forget the threads, which belong to the parent.
os.register_at_fork(after_in_child=_threads.reset)


def _key(pid: int, options: int) -> tuple[int, int, int]:
    flags = os.WNOWAIT | os.WEXITED
    for option, flag in _IN_WAITID.items():
        flags |= flag if options & option else 0
    if pid > 0:
        return os.P_PID, pid, flags
    if pid == -1:
        return os.P_ALL, 0, flags
    return os.P_PGID, _getpgrp() if pid == 0 else -pid, flags
