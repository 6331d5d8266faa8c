"""Waiting for child processes without blocking the loop, and without taking SIGCHLD from the program.

The end of one child is told by a pidfd on the loop. What a pidfd cannot tell (any child, a process group, a child that
stops or goes on) a real thread waits for, with waitid(2), which leaves the child's status where it is; so does it where
there are no pidfds (Linux before 5.3, a sandbox, no descriptor left). Whoever waits takes the status itself afterwards,
as it would have without us.
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
    """Wait until `poll()` gives something true, asking it after each change of a child that may be meant.

    Args:
        pid: as `os.waitpid` has it: a child, -1 for any, 0 or less than -1 for a process group.
        options: `os.WUNTRACED` and `os.WCONTINUED`, for what counts as a change beside a child's end.
        poll: asks for the state, without waiting.
        timeout: at most so many seconds.

    Returns:
        What `poll` has given; something false if the time is up.

    Raises:
        BlockingSwitchOutError: in a coroutine or a callback, if `poll` gives nothing at once.
        OSError: what `poll` raises.
    """
    left = Countdown(timeout)
    while not (found := poll()):
        hub = get_hub()
        waiter = Waiter(hub)
        watch = _watch(hub, pid, options, waiter)
        try:
            # It may have changed before anybody watched.
            if found := poll():
                return found
            if wait_for(waiter, left.seconds()) is TIMED_OUT:
                return poll()
        finally:
            watch.stop()
    return found


def when_ended(hub: Hub, pid: int, call: Callable[[], object]) -> Callable[[], None]:
    """Have the hub call a function, once, when a child has ended; what undoes it. Its status stays where it is."""
    watch: _Pidfd | _Listener

    def tell(_: object = None) -> None:
        watch.stop()
        call()

    watch = _watch(hub, pid, 0, _Called(hub, tell))
    return watch.stop


class _Called:
    """A function in the place of a `Waiter`."""

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
            # None of our children any more, which waitid tells too, or no pidfds here.
            pass
    return _Listener(pid, options, waiter)


class _Pidfd:
    """Wakes when a child has ended."""

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
    """Wakes when a thread has seen a change. One thread listens for all who wait for the same."""

    __slots__ = ("_key", "_waiter")

    def __init__(self, pid: int, options: int, waiter: Any) -> None:
        self._key = _key(pid, options)
        self._waiter = waiter
        _threads.add(self._key, waiter)

    def stop(self) -> None:
        _threads.remove(self._key, self._waiter)


class _Threads:
    """The threads that listen, and for whom. One whom nobody needs any more goes on until something changes."""

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
            # There is no such child, which is a change as well.
            pass
        finally:
            with self._lock:
                waiting = self._waiting.pop(key)
            for waiter in waiting:
                waiter.wake()


_threads = _Threads()
# In a forked child: they are the parent's.
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
