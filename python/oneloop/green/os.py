"""`os`: forking, waiting for children, and descriptors, so that other green threads and coroutines go on meanwhile.

Children are waited for without SIGCHLD, which stays the program's. Their statuses are taken by whoever waits, as with
the standard library's functions; asyncio's children, and those of the standard library's subprocess, are left alone.
Names that are not defined here are those of the standard library's module.
"""

from __future__ import annotations

import fcntl
import os as _stock
import select as _select
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from oneloop import _native
from oneloop.green import children
from oneloop.green.hub import get_hub, has_hub, reinit
from oneloop.green.socket import cancel_wait_ex

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.green.hub import Hub

__implements__ = ["close", "fork", "forkpty", "posix_spawn", "posix_spawnp", "waitpid"]
__extensions__ = [
    "ChildWatcher",
    "fork_and_watch",
    "fork_gevent",
    "forkpty_and_watch",
    "forkpty_gevent",
    "make_nonblocking",
    "nb_read",
    "nb_write",
    "posix_spawn_and_watch",
    "posix_spawnp_and_watch",
    "tp_read",
    "tp_write",
]
__all__ = [*__implements__, *__extensions__]  # noqa: PLE0604 - strings all

_close = _stock.close
_fork = _stock.fork
_forkpty = _stock.forkpty
_posix_spawn = _stock.posix_spawn
_posix_spawnp = _stock.posix_spawnp
_read = _stock.read
_waitpid = _stock.waitpid
_poll = _select.poll
_write = _stock.write

# So many statuses of watched children are kept for a `waitpid` that may never come.
_KEPT_STATUSES = 1024


# -- descriptors -------------------------------------------------------------------------------------


class _Number:
    """A descriptor, for those who wait for it: the same object for all who wait at a time."""

    __slots__ = ("__weakref__", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd


_waited: weakref.WeakValueDictionary[int, _Number] = weakref.WeakValueDictionary()


def _wait(fd: int, for_writing: bool) -> None:
    """Wait until a descriptor may be read from or written to; it has said EAGAIN before."""
    if not has_hub():
        # No green thread is here that could run meanwhile.
        poll = _poll()
        poll.register(fd, _select.POLLOUT if for_writing else _select.POLLIN)
        poll.poll()
        return
    number = _waited.get(fd)
    if number is None:
        number = _waited[fd] = _Number(fd)
    _native.green_wait(number, for_writing, None)


def wait_readable(fd: int) -> None:
    """Wait until a descriptor that may block can be read from.

    Raises:
        cancel_wait_ex: it was closed meanwhile, by `close`.
    """
    _wait_level(fd, False)


def wait_writable(fd: int) -> None:
    """The same for writing."""
    _wait_level(fd, True)


def _wait_level(fd: int, for_writing: bool) -> None:
    # The loop tells of changes alone: what is so already, the kernel is asked for.
    poll = _poll()
    poll.register(fd, _select.POLLOUT if for_writing else _select.POLLIN)
    while not poll.poll(0):
        _wait(fd, for_writing)


def make_nonblocking(fd: int) -> bool | None:
    """Have a descriptor never block; True if it could before, None otherwise."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    if flags & _stock.O_NONBLOCK:
        return None
    fcntl.fcntl(fd, fcntl.F_SETFL, flags | _stock.O_NONBLOCK)
    return True


def nb_read(fd: int, n: int) -> bytes:
    """Read at most `n` bytes from a non-blocking descriptor, waiting for the first; none at its end.

    Raises:
        cancel_wait_ex: it was closed meanwhile, by `close`.
    """
    while True:
        try:
            return _read(fd, n)
        except BlockingIOError:
            _wait(fd, False)


def nb_write(fd: int, buf: Any) -> int:
    """Write to a non-blocking descriptor, waiting until there is room; how many bytes it has taken. As `nb_read`."""
    while True:
        try:
            return _write(fd, buf)
        except BlockingIOError:
            _wait(fd, True)


def tp_read(fd: int, n: int) -> bytes:
    """Read from any descriptor, in a real thread."""
    data: bytes = get_hub().threadpool.apply(_read, (fd, n))
    return data


def tp_write(fd: int, buf: Any) -> int:
    """Write to any descriptor, in a real thread."""
    count: int = get_hub().threadpool.apply(_write, (fd, buf))
    return count


def close(fd: Any) -> None:
    """See `os.close`. Green threads of this thread that wait for the descriptor get `cancel_wait_ex`."""
    if has_hub() and isinstance(fd, int) and fd >= 0:
        _native.green_cancel_wait(_waited.get(fd) or _Number(fd), cancel_wait_ex())
    _close(fd)


# -- making children ---------------------------------------------------------------------------------


def fork() -> int:
    """See `os.fork`. The child has no green threads but the one that calls, and a hub when it needs one.

    In the child of a green thread, end with `os._exit`: what the thread would return to is the parent's. SystemExit
    ends the child as well; any other end of the thread is a RuntimeError in the main greenlet.
    """
    pid = _fork()
    if not pid:
        reinit()
    return pid


def forkpty() -> tuple[int, int]:
    """See `os.forkpty`, and `fork`."""
    pid, fd = _forkpty()
    if not pid:
        reinit()
    return pid, fd


fork_gevent = fork
forkpty_gevent = forkpty
posix_spawn = _posix_spawn
posix_spawnp = _posix_spawnp


class ChildWatcher:
    """A child that the hub waits for; what a callback of `fork_and_watch` gets. For the hub's thread.

    Attributes:
        pid: the child.
        rpid: the child once it has ended, 0 before.
        rstatus: its status, as `os.waitpid` has it; 0 if a foreign function has taken that.
    """

    def __init__(self, hub: Hub, pid: int, callback: Callable[[ChildWatcher], object]) -> None:
        self.pid = pid
        self.rpid = 0
        self.rstatus = 0
        self._hub = hub
        self._callback = callback
        self._undo = children.when_ended(hub, pid, self._ended)
        _watchers[pid] = self

    def stop(self) -> None:
        """Do not wait for it: its status is left to others."""
        if _watchers.get(self.pid) is self:
            del _watchers[self.pid]
        self._undo()

    close = stop

    def _ended(self) -> None:
        """The hub has heard of the child's end."""
        if self.rpid:
            # From `waitpid` too.
            return
        try:
            rpid, status = _waitpid(self.pid, _stock.WNOHANG)
        except ChildProcessError:
            rpid, status = self.pid, 0
        else:
            if not rpid:
                # Not the end after all.
                self._undo = children.when_ended(self._hub, self.pid, self._ended)
                return
            _statuses[self.pid] = status
            while len(_statuses) > _KEPT_STATUSES:
                _statuses.popitem(last=False)
        self.stop()
        self.rpid, self.rstatus = rpid, status
        self._callback(self)

    def tell(self, status: int) -> None:
        """`waitpid` has had the status."""
        self.stop()
        self.rpid, self.rstatus = self.pid, status
        self._hub.run_callback_threadsafe(self._callback, self)


_watchers: dict[int, ChildWatcher] = {}
# Of children that were watched: what their `waitpid` gives, once.
_statuses: OrderedDict[int, int] = OrderedDict()


def fork_and_watch(
    callback: Callable[[ChildWatcher], object] | None = None,
    loop: Any = None,
    ref: bool = False,
    fork: Callable[[], int] = fork,
) -> int:
    """Fork, and have the hub call `callback(watcher)` when the child has ended; the callback may not block.

    The hub takes the child's status, tells it in the watcher's `rstatus`, and keeps it for `waitpid`. Without a
    callback it is a `fork`.

    Args:
        callback: gets a `ChildWatcher`.
        loop: the loop, or the hub, that watches; None: that of the calling thread.
        ref: taken for gevent's sake; a child that is watched always keeps its hub waiting.
        fork: the function that forks.
    """
    pid = fork()
    _watch(pid, callback, loop)
    return pid


def forkpty_and_watch(
    callback: Callable[[ChildWatcher], object] | None = None,
    loop: Any = None,
    ref: bool = False,
    forkpty: Callable[[], tuple[int, int]] = forkpty,
) -> tuple[int, int]:
    """See `os.forkpty` and `fork_and_watch`."""
    pid, fd = forkpty()
    _watch(pid, callback, loop)
    return pid, fd


def posix_spawn_and_watch(
    *args: Any, callback: Callable[[ChildWatcher], object] | None = None, loop: Any = None, **kwargs: Any
) -> int:
    """See `os.posix_spawn` and `fork_and_watch`."""
    pid = _posix_spawn(*args, **kwargs)
    _watch(pid, callback, loop)
    return pid


def posix_spawnp_and_watch(
    *args: Any, callback: Callable[[ChildWatcher], object] | None = None, loop: Any = None, **kwargs: Any
) -> int:
    """See `os.posix_spawnp` and `fork_and_watch`."""
    pid = _posix_spawnp(*args, **kwargs)
    _watch(pid, callback, loop)
    return pid


def _watch(pid: int, callback: Callable[[ChildWatcher], object] | None, loop: Any) -> None:
    if pid:
        # The number was another child's before.
        _statuses.pop(pid, None)
        if callback is not None:
            ChildWatcher(_hub_of(loop), pid, callback)


def _hub_of(loop: Any) -> Hub:
    hub: Any = loop if hasattr(loop, "asyncio_loop") else getattr(loop, "hub", None)
    return get_hub() if hub is None else hub


# -- waiting for children ----------------------------------------------------------------------------


def waitpid(pid: int, options: int, /) -> tuple[int, int]:
    """See `os.waitpid`. Children that were watched by `fork_and_watch` are told as if they had not been.

    In a thread without green threads it blocks the thread.

    Raises:
        ChildProcessError: there is no such child, or somebody else has had its status.
        BlockingSwitchOutError: in a coroutine, of a child that runs.
    """

    def poll() -> tuple[int, int] | None:
        try:
            found = _waitpid(pid, options | _stock.WNOHANG)
        except ChildProcessError:
            if not (pid in _statuses or (pid == -1 and _statuses)):
                raise
        else:
            if found[0]:
                watcher = _watchers.get(found[0])
                if watcher is not None and not (_stock.WIFSTOPPED(found[1]) or _stock.WIFCONTINUED(found[1])):
                    watcher.tell(found[1])
                return found
        ended = next(iter(_statuses), 0) if pid == -1 else pid
        return (ended, _statuses.pop(ended)) if ended in _statuses else None

    if options & _stock.WNOHANG:
        return poll() or (0, 0)
    if not has_hub():
        return _waitpid(pid, options)
    found: tuple[int, int] = children.wait_changed(pid, options, poll)
    return found


_stock.register_at_fork(after_in_child=_statuses.clear)
_stock.register_at_fork(after_in_child=_watchers.clear)


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
