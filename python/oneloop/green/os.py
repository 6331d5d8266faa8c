"""`os`: fork, wait for children, and use descriptors while other green threads and coroutines run.

Waiting for children does not use SIGCHLD; the program can use it. A waiter collects the child's status, as with the
standard library's functions. Children of asyncio and of the standard library's subprocess are not touched. Names that
are not defined here come from the standard library's module.
"""

from __future__ import annotations

import fcntl
import os as _stock
import select as _select
import socket as _socket
import stat
import weakref
from collections import OrderedDict
from contextlib import contextmanager
from select import PIPE_BUF
from typing import TYPE_CHECKING, Any, TypeVar

from oneloop import _native
from oneloop.green import children
from oneloop.green.blocking import may_wait
from oneloop.green.hub import get_hub, has_hub, reinit
from oneloop.green.readiness import note_closing
from oneloop.green.socket import cancel_wait_ex, is_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oneloop.green.hub import Hub

T = TypeVar("T")

__implements__ = ["close", "eventfd_read", "eventfd_write", "fork", "forkpty", "posix_spawn", "posix_spawnp", "read"]
__implements__ += ["readv", "sendfile", "splice", "waitpid", "write", "writev"]
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
_eventfd_read = _stock.eventfd_read
_eventfd_write = _stock.eventfd_write
_fork = _stock.fork
_forkpty = _stock.forkpty
_posix_spawn = _stock.posix_spawn
_posix_spawnp = _stock.posix_spawnp
_read = _stock.read
_readv = _stock.readv
_sendfile = _stock.sendfile
_splice = _stock.splice
_waitpid = _stock.waitpid
_poll = _select.poll
_write = _stock.write
_writev = _stock.writev

# The maximum number of kept statuses of watched children. A `waitpid` for a kept status might never come.
_KEPT_STATUSES = 1024


# -- descriptors -------------------------------------------------------------------------------------


class _Number:
    """A file descriptor as an object. All simultaneous waits for a descriptor share one object."""

    __slots__ = ("__weakref__", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd


_waited: weakref.WeakValueDictionary[int, _Number] = weakref.WeakValueDictionary()


def _wait(fd: int, for_writing: bool) -> None:
    """Wait until a descriptor is readable or writable. The caller has got EAGAIN from it."""
    if not has_hub():
        # Blocking is fine: this OS thread has no green threads.
        poll = _poll()
        poll.register(fd, _select.POLLOUT if for_writing else _select.POLLIN)
        poll.poll()
        return
    number = _waited.get(fd)
    if number is None:
        number = _waited[fd] = _Number(fd)
    _native.green_wait(number, for_writing, None)


def wait_readable(fd: int) -> None:
    """Wait until a descriptor is readable. It may be in blocking mode.

    Raises:
        cancel_wait_ex: the descriptor was closed by `close` during the wait.
    """
    _wait_level(fd, False)


def wait_writable(fd: int) -> None:
    """Like `wait_readable`, for writing."""
    _wait_level(fd, True)


def _wait_level(fd: int, for_writing: bool) -> None:
    # The loop reports changes only. Ask the kernel whether the descriptor is ready already.
    while not _is_ready(fd, for_writing):
        _wait(fd, for_writing)


def read(fd: int, length: int, /) -> bytes:
    """Like `os.read`: other green threads run while a pipe, a socket or a terminal in blocking mode has no data.

    Raises:
        OSError: as `os.read`.
    """
    if type(length) is int and length <= 0:
        return _read(fd, length)
    return _call(fd, False, _read, fd, length)


def readv(fd: int, buffers: Any, /) -> int:
    """Like `os.readv`; see `read`."""
    if not _size(buffers, writable=True):
        return _readv(fd, buffers)
    return _call(fd, False, _readv, fd, buffers)


def write(fd: int, data: Any, /) -> int:
    """Like `os.write`: other green threads run while a pipe or a socket in blocking mode has no room.

    Raises:
        OSError: as `os.write`; if a part was written before it, the size of that part is returned.
    """
    view = memoryview(data)
    if not view.nbytes and _is_stream(fd):
        # Nothing that needs room. An empty datagram does.
        return _write(fd, data)
    if view.nbytes <= PIPE_BUF or not may_wait() or not _is_stream(fd):
        return _call(fd, True, _write, fd, data)
    # What is left after this has room in whatever is writable, so that the kernel does not wait.
    view, written = view.cast("B"), 0
    while written < len(view):
        try:
            count = _call(fd, True, _write, fd, view[written : written + PIPE_BUF])
        except OSError:
            if not written:
                raise
            break
        written += count
        if count < PIPE_BUF:
            break
    return written


def _call(fd: int, for_writing: bool, function: Callable[..., T], *args: Any) -> T:
    """Call a function of the kernel's when it does not block."""
    while True:
        wait_if_blocking(fd, for_writing)
        try:
            return function(*args)
        except BlockingIOError:
            # A socket for whose program it blocks. Another green thread was faster.
            if not (may_wait() and is_blocking(fd)):
                raise
            get_hub().pause()


def writev(fd: int, buffers: Any, /) -> int:
    """Like `os.writev`; see `write`."""
    size = _size(buffers)
    if not size and _is_stream(fd):
        return _writev(fd, buffers)
    if size > PIPE_BUF and may_wait() and _is_stream(fd):
        return write(fd, b"".join(buffers))
    return _call(fd, True, _writev, fd, buffers)


def _size(buffers: Any, *, writable: bool = False) -> int:
    """How many bytes there are in a sequence of buffers; 0 too if the kernel's call says what is wrong with them."""
    if not hasattr(type(buffers), "__getitem__"):
        return 0
    try:
        views = [memoryview(buffer) for buffer in buffers]
    except TypeError:
        return 0
    return 0 if writable and any(view.readonly for view in views) else sum(view.nbytes for view in views)


def eventfd_read(fd: int) -> int:
    """Like `os.eventfd_read`; see `read`."""
    wait_if_blocking(fd, False)
    return _eventfd_read(fd)


def eventfd_write(fd: int, value: int) -> None:
    """Like `os.eventfd_write`; see `write`."""
    wait_if_blocking(fd, True)
    _eventfd_write(fd, value)


def splice(src: int, dst: int, count: int, *args: Any, **kwargs: Any) -> int:
    """Like `os.splice`: other green threads run while the source has no data, or the other end no room."""
    flags = args[2] if len(args) > 2 else kwargs.get("flags", 0)
    # SPLICE_F_NONBLOCK is about the pipes only (splice(2)).
    waits = [
        (fd, for_writing)
        for fd, for_writing in ((src, False), (dst, True))
        if not (flags & _stock.SPLICE_F_NONBLOCK and _is_pipe(fd))
    ]
    if count <= 0 or any(_is_other_way(fd, for_writing) for fd, for_writing in waits):
        return _splice(src, dst, count, *args, **kwargs)
    while True:
        for fd, for_writing in waits:
            wait_if_blocking(fd, for_writing)
        try:
            return _splice(src, dst, count, *args, **kwargs)
        except BlockingIOError:
            # A socket for whose program it blocks, and somebody else was faster. EAGAIN does not say which side it is.
            if not (may_wait() and any(is_blocking(fd) and not _is_ready(fd, side) for fd, side in waits)):
                raise


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(_stock.fstat(fd).st_mode)
    except OSError:
        # The call itself says what is wrong.
        return False


def _is_ready(fd: int, for_writing: bool) -> bool:
    poll = _poll()
    poll.register(fd, _select.POLLOUT if for_writing else _select.POLLIN)
    return bool(poll.poll(0))


def sendfile(out_fd: int, in_fd: int, offset: int | None, count: int) -> int:
    """Like `os.sendfile`: other green threads run while the receiver has no room. It may send less than `count`."""
    if _is_other_way(in_fd, False):
        return _sendfile(out_fd, in_fd, offset, count)
    if may_wait() and not fcntl.fcntl(out_fd, fcntl.F_GETFL) & _stock.O_NONBLOCK and _is_stream(out_fd):
        # What is writable has room for this, so that the kernel does not wait.
        count = min(count, PIPE_BUF)
    return _call(out_fd, True, _sendfile, out_fd, in_fd, offset, count)


def wait_if_blocking(fd: int, for_writing: bool, *, accepts: bool = False) -> None:
    """Wait until the kernel's call on a descriptor would not block. No effect if it is not a green thread's to wait.

    Args:
        fd: the descriptor.
        for_writing: whether the call writes; otherwise it reads.
        accepts: the call is `accept`, which waits for what is an error in any other call.
    """
    if not may_wait():
        return
    poll = _poll()
    try:
        poll.register(fd, _select.POLLOUT if for_writing else _select.POLLIN)
    except (TypeError, ValueError, OverflowError):
        # The call itself says what is wrong.
        return
    # Also ready: regular files, closed descriptors, the end of a file.
    if poll.poll(0):
        return
    if fcntl.fcntl(fd, fcntl.F_GETFL) & _stock.O_NONBLOCK and not is_blocking(fd):
        return
    if not accepts and _fails_at_once(fd, for_writing):
        return
    try:
        _wait_level(fd, for_writing)
    except PermissionError:
        # A device that epoll does not know: the call blocks.
        return


def _fails_at_once(fd: int, for_writing: bool) -> bool:
    """Whether the kernel's call on a descriptor that is not ready is an error that it would not wait for."""
    if _is_other_way(fd, for_writing):
        return True
    mode = _stock.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        with _as_socket(fd) as known:
            return bool(known.getsockopt(_socket.SOL_SOCKET, _socket.SO_ACCEPTCONN))
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return False
    # The kernel's own kinds: some can only be polled.
    try:
        kind = _stock.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - avoids importing pathlib
    except OSError:
        # Without /proc nobody knows.
        return False
    return "[eventfd]" not in kind if for_writing else any(one in kind for one in ("eventpoll", "pidfd", "io_uring"))


def _is_other_way(fd: int, for_writing: bool) -> bool:
    """Whether a descriptor is open for the other direction only, or is none."""
    try:
        access = fcntl.fcntl(fd, fcntl.F_GETFL) & _stock.O_ACCMODE
    except (OSError, TypeError, ValueError, OverflowError):
        return True
    return access == (_stock.O_RDONLY if for_writing else _stock.O_WRONLY)


def _is_stream(fd: int) -> bool:
    """Whether a descriptor takes any part of what is written: a pipe, or a stream socket."""
    mode = _stock.fstat(fd).st_mode
    if not stat.S_ISSOCK(mode):
        return stat.S_ISFIFO(mode)
    with _as_socket(fd) as known:
        return bool(known.type == _socket.SOCK_STREAM)


@contextmanager
def _as_socket(fd: int) -> Iterator[_socket.socket]:
    """A socket object for a descriptor, which stays in the mode in which it is."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    with _socket.socket(fileno=_stock.dup(fd)) as known:
        if known.gettimeout() is not None:
            # The program has set a default, for which the object has made the descriptor non-blocking.
            known.settimeout(None)
            fcntl.fcntl(fd, fcntl.F_SETFL, flags)
        yield known


def make_nonblocking(fd: int) -> bool | None:
    """Put a descriptor into non-blocking mode. True if it was in blocking mode, otherwise None."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    if flags & _stock.O_NONBLOCK:
        return None
    fcntl.fcntl(fd, fcntl.F_SETFL, flags | _stock.O_NONBLOCK)
    return True


def nb_read(fd: int, n: int) -> bytes:
    """Read at most `n` bytes from a non-blocking descriptor; wait until there is data.

    Returns:
        The data; empty at the end of the file.

    Raises:
        cancel_wait_ex: the descriptor was closed by `close` during the wait.
    """
    while True:
        try:
            return _read(fd, n)
        except BlockingIOError:
            _wait(fd, False)


def nb_write(fd: int, buf: Any) -> int:
    """Write to a non-blocking descriptor; wait until it accepts data.

    Returns:
        The number of bytes written.

    Raises:
        cancel_wait_ex: the descriptor was closed by `close` during the wait.
    """
    while True:
        try:
            return _write(fd, buf)
        except BlockingIOError:
            _wait(fd, True)


def tp_read(fd: int, n: int) -> bytes:
    """Read at most `n` bytes from any descriptor, in an OS thread of the hub's pool."""
    data: bytes = get_hub().threadpool.apply(_read, (fd, n))
    return data


def tp_write(fd: int, buf: Any) -> int:
    """Write to any descriptor, in an OS thread of the hub's pool. Return the number of bytes written."""
    count: int = get_hub().threadpool.apply(_write, (fd, buf))
    return count


def close(fd: Any) -> None:
    """Like `os.close`. It raises `cancel_wait_ex` in green threads of this OS thread that wait for the descriptor."""
    if has_hub() and isinstance(fd, int) and fd >= 0:
        _native.green_cancel_wait(_waited.get(fd) or _Number(fd), cancel_wait_ex())
        note_closing(fd)
    _close(fd)


# -- creating children -------------------------------------------------------------------------------


def fork() -> int:
    """Like `os.fork`. The child has only the calling green thread, and gets a new hub when it needs one.

    If a green thread forks, end the child with `os._exit`, because the hub that the green thread would return to
    belongs to the parent. SystemExit also ends the child. Any other end of the green thread raises RuntimeError in the
    main greenlet.
    """
    pid = _fork()
    if not pid:
        reinit()
    return pid


def forkpty() -> tuple[int, int]:
    """Like `os.forkpty`; see also `fork`."""
    pid, fd = _forkpty()
    if not pid:
        reinit()
    return pid, fd


fork_gevent = fork
forkpty_gevent = forkpty
posix_spawn = _posix_spawn
posix_spawnp = _posix_spawnp


class ChildWatcher:
    """A child that the hub waits for; the argument of the callback of `fork_and_watch`. Use it in the hub's thread.

    Attributes:
        pid: the child's process id.
        rpid: the child's process id once it has ended, 0 before.
        rstatus: its status in the form of `os.waitpid`; 0 if other code has collected the status.
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
        """Stop waiting for the child. Its status can then be collected by other code."""
        if _watchers.get(self.pid) is self:
            del _watchers[self.pid]
        self._undo()

    close = stop

    def _ended(self) -> None:
        """Collect the status. Called on the hub when the child has ended."""
        if self.rpid:
            # `waitpid` has reported it already.
            return
        try:
            rpid, status = _waitpid(self.pid, _stock.WNOHANG)
        except ChildProcessError:
            rpid, status = self.pid, 0
        else:
            if not rpid:
                # The child has not ended after all: wait again.
                self._undo = children.when_ended(self._hub, self.pid, self._ended)
                return
            _statuses[self.pid] = status
            while len(_statuses) > _KEPT_STATUSES:
                _statuses.popitem(last=False)
        self.stop()
        self.rpid, self.rstatus = rpid, status
        self._callback(self)

    def tell(self, status: int) -> None:
        """Called when `waitpid` has collected the status."""
        self.stop()
        self.rpid, self.rstatus = self.pid, status
        self._hub.run_callback_threadsafe(self._callback, self)


_watchers: dict[int, ChildWatcher] = {}
# The statuses of watched children that have ended; `waitpid` returns each once.
_statuses: OrderedDict[int, int] = OrderedDict()


def fork_and_watch(
    callback: Callable[[ChildWatcher], object] | None = None,
    loop: Any = None,
    ref: bool = False,
    fork: Callable[[], int] = fork,
) -> int:
    """Fork, and make the hub call `callback(watcher)` when the child has ended. The callback must not block.

    The hub collects the child's status, stores it in the watcher's `rstatus`, and keeps it for `waitpid`. Without a
    callback, this is the same as `fork`.

    Args:
        callback: called with a `ChildWatcher`.
        loop: the loop or hub that watches; None means that of the calling thread.
        ref: ignored, accepted because gevent has it; a watched child always keeps the hub waiting.
        fork: the function that forks.

    Returns:
        The child's process id; 0 in the child.
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
    """Like `os.forkpty`, with a callback as in `fork_and_watch`."""
    pid, fd = forkpty()
    _watch(pid, callback, loop)
    return pid, fd


def posix_spawn_and_watch(
    *args: Any, callback: Callable[[ChildWatcher], object] | None = None, loop: Any = None, **kwargs: Any
) -> int:
    """Like `os.posix_spawn`, with a callback as in `fork_and_watch`."""
    pid = _posix_spawn(*args, **kwargs)
    _watch(pid, callback, loop)
    return pid


def posix_spawnp_and_watch(
    *args: Any, callback: Callable[[ChildWatcher], object] | None = None, loop: Any = None, **kwargs: Any
) -> int:
    """Like `os.posix_spawnp`, with a callback as in `fork_and_watch`."""
    pid = _posix_spawnp(*args, **kwargs)
    _watch(pid, callback, loop)
    return pid


def _watch(pid: int, callback: Callable[[ChildWatcher], object] | None, loop: Any) -> None:
    if pid:
        # The process id may be reused: drop the status of an earlier child.
        _statuses.pop(pid, None)
        if callback is not None:
            ChildWatcher(_hub_of(loop), pid, callback)


def _hub_of(loop: Any) -> Hub:
    hub: Any = loop if hasattr(loop, "asyncio_loop") else getattr(loop, "hub", None)
    return get_hub() if hub is None else hub


# -- waiting for children ----------------------------------------------------------------------------


def waitpid(pid: int, options: int, /) -> tuple[int, int]:
    """Like `os.waitpid`. It also returns the statuses of children that `fork_and_watch` watched.

    In an OS thread without green threads, it blocks the thread.

    Raises:
        ChildProcessError: there is no such child, or its status was collected before.
        BlockingSwitchOutError: called in a coroutine that may not block, and it would have to wait.
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
