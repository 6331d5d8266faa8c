"""multiprocessing in green threads of a patched program: others run while one waits for a process.

Connections, queues and listeners, locks and their relatives, `wait`, `Process.start` and `join`, proxies of managers.
`real_threads.py` has the waits for its OS threads. In OS threads without green threads, and in coroutines and callbacks
that may not block, they wait as without patching. The locks of other processes tell nobody that they are free, so they
are asked again and again, every 20 ms at the latest.
"""

from __future__ import annotations

import os
import selectors as _stock
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from greenlet import getcurrent

from oneloop.green import os as green_os
from oneloop.green import selectors
from oneloop.green.blocking import blocking, may_wait
from oneloop.green.hub import Countdown
from oneloop.green.local import local
from oneloop.green.socket import socket
from oneloop.green.threadlock import LockType
from oneloop.green.time import sleep

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = [
    "adapt_connection",
    "adapt_context",
    "adapt_executor",
    "adapt_forkserver",
    "adapt_locks",
    "adapt_managers",
    "adapt_popen",
    "adapt_queues",
    "adapt_sharer",
    "adapt_start",
    "adapt_util",
]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.000_5, 0.02


def adapt_connection(module: Any) -> None:
    """Adapt `multiprocessing.connection`: connections, listeners, clients and `wait`."""
    module.Connection._recv.__defaults__ = (green_os.read,)
    module.Connection._send.__defaults__ = (green_os.write,)
    module._WaitSelector = _selector
    accept = module.SocketListener.accept

    def accept_green(self: Any) -> Any:
        green_os.wait_if_blocking(self._socket.fileno(), False, accepts=True)
        return accept(self)

    module.SocketListener.accept = accept_green
    connect = module.SocketClient

    def connect_green(address: Any) -> Any:
        if not may_wait():
            return connect(address)
        with socket(getattr(module.socket, module.address_type(address))) as sock:
            sock.connect(address)
            fd = sock.detach()
        os.set_blocking(fd, True)
        return module.Connection(fd)

    module.SocketClient = connect_green


def _selector() -> _stock.BaseSelector:
    return selectors.PollSelector() if may_wait() else _stock.PollSelector()


def adapt_locks(module: Any) -> None:
    """Adapt `multiprocessing.synchronize`: Lock, RLock, Semaphore, BoundedSemaphore, and what is made of them."""
    make_methods = module.SemLock._make_methods

    def _make_methods(self: Any) -> None:
        make_methods(self)
        if self._semlock.kind == module.RECURSIVE_MUTEX:
            lock = _Recursive(self._semlock)
            self.acquire, self.release = lock.acquire, lock.release
        else:
            self.acquire = partial(_acquire, self._semlock)

    def __enter__(self: Any) -> bool:  # noqa: N807 - of a class
        return bool(self.acquire())

    def __exit__(self: Any, *_: object) -> None:  # noqa: N807 - of a class
        self.release()

    module.SemLock._make_methods = _make_methods
    module.SemLock.__enter__ = __enter__
    module.SemLock.__exit__ = __exit__


class _Recursive:
    """The methods of a process's recursive lock, which takes all green threads of an OS thread for one holder."""

    __slots__ = ("_holder", "_lock")

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._holder: object = None

    def _is_of_another(self) -> bool:
        """Whether another green thread of this OS thread holds it."""
        return bool(self._lock._is_mine()) and self._holder is not getcurrent()

    def _take(self) -> bool:
        if self._is_of_another() or not self._lock.acquire(False):
            return False
        self._holder = getcurrent()
        return True

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Take the lock; see `multiprocessing.RLock`.

        Raises:
            BlockingSwitchOutError: called in a coroutine that may not block, and a green thread of this OS thread holds
                the lock.
        """
        if not block:
            return self._take()
        if may_wait() or self._is_of_another():
            return _poll(self._take, timeout)
        taken = bool(self._lock.acquire(True, timeout))
        if taken:
            self._holder = getcurrent()
        return taken

    def release(self) -> None:
        """Give the lock back.

        Raises:
            AssertionError: the calling green thread does not hold it.
        """
        if self._is_of_another():
            raise AssertionError("attempt to release recursive lock not owned by thread")
        if self._lock._count() == 1:
            self._holder = None
        self._lock.release()


def _acquire(lock: Any, block: bool = True, timeout: float | None = None) -> bool:
    if not block or not may_wait():
        return bool(lock.acquire(block, timeout))
    return _poll(partial(lock.acquire, False), timeout)


def _poll(take: Callable[[], bool], timeout: float | None) -> bool:
    left, pause_s = Countdown(None if timeout is None else max(timeout, 0)), _FIRST_PAUSE_S
    while not take():
        seconds = left.seconds()
        if seconds is not None and seconds <= 0:
            return False
        sleep(pause_s if seconds is None else min(pause_s, seconds))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return True


def adapt_managers(module: Any) -> None:
    """Adapt `multiprocessing.managers`: a call that is killed or times out leaves no answer to the next one.

    The answer would still come on the green thread's connection to the manager, which is closed instead.
    """
    connection_class, proxy = module.connection.Connection, module.BaseProxy
    send, receive, call = connection_class._send_bytes, connection_class._recv_bytes, proxy._callmethod

    def _send_bytes(self: Any, data: Any) -> None:
        self._awaits_answer = True
        send(self, data)

    def _recv_bytes(self: Any, maxsize: int | None = None) -> Any:
        received = receive(self, maxsize)
        self._awaits_answer = False
        return received

    def _callmethod(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(self, *args, **kwargs)
        except BaseException as error:
            # A connection that has its answer stays, even if that cannot be unpickled: the manager may keep a lock
            # for it. So does one that has failed itself: the next call fails too.
            connection = self._tls.__dict__.get("connection")
            has_failed = isinstance(error, (EOFError, ConnectionError))
            if connection is not None and connection._awaits_answer and not has_failed:
                del self._tls.connection
                connection.close()
            raise

    connection_class._awaits_answer = False
    connection_class._send_bytes, connection_class._recv_bytes = _send_bytes, _recv_bytes
    proxy._callmethod = _callmethod


def adapt_util(module: Any) -> None:
    """Adapt `multiprocessing.util`: each green thread has its own connection to a manager, as each thread has.

    On one connection, green threads would read each other's answers.
    """

    class ForkAwareLocal(local):
        def __init__(self) -> None:
            module.register_after_fork(self, lambda here: here.__dict__.clear())

        def __reduce__(self) -> tuple[type, tuple[()]]:
            return type(self), ()

    module.ForkAwareLocal = ForkAwareLocal


def adapt_context(module: Any) -> None:
    """Adapt `multiprocessing.context`: which process a green thread starts."""
    module._tls = local()


def adapt_start(module: Any) -> None:
    """Adapt `multiprocessing.popen_spawn_posix` and `popen_forkserver`: the child gets its objects through a pipe."""
    module.open = _open


class _Pipe:
    """The writing end of a pipe, in a green thread."""

    __slots__ = ("_fd", "_owns_fd")

    def __init__(self, fd: int, owns_fd: bool) -> None:
        self._fd, self._owns_fd = fd, owns_fd

    def write(self, data: memoryview) -> None:
        while data:
            data = data[green_os.write(self._fd, data) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_fd:
            os.close(self._fd)


def _open(fd: int, mode: str, *, closefd: bool) -> Any:
    return _Pipe(fd, closefd) if may_wait() else open(fd, mode, closefd=closefd)


def adapt_forkserver(module: Any) -> None:
    """Adapt `multiprocessing.forkserver`: the server tells the pid of a new process, and later its status."""
    read = module.read_signed

    def read_green(fd: int) -> Any:
        green_os.wait_if_blocking(fd, False)
        return read(fd)

    module.read_signed = read_green


def adapt_queues(module: Any) -> None:
    """Adapt `multiprocessing.queues`: `JoinableQueue.put` takes its locks in another order.

    One of them is an OS thread's, the other is another process's, for which a green thread is parked. It must not hold
    the first one then: the next green thread that puts would stop the OS thread for good.
    """

    def put(self: Any, obj: object, block: bool = True, timeout: float | None = None) -> None:
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        if not self._sem.acquire(block, timeout):
            raise module.Full
        with self._cond, self._notempty:
            if self._thread is None:
                self._start_thread()
            self._buffer.append(obj)
            self._unfinished_tasks.release()
            self._notempty.notify()

    put.__qualname__ = "JoinableQueue.put"
    module.JoinableQueue.put = put


def adapt_sharer(module: Any) -> None:
    """Adapt `multiprocessing.resource_sharer`: its `stop` holds a lock while it is parked."""
    module._resource_sharer._lock = LockType()


def adapt_executor(module: Any) -> None:
    """Adapt `concurrent.futures.process`: it starts threads and processes, and wakes them, while it holds its locks."""
    module._ThreadWakeup.wakeup = blocking(module._ThreadWakeup.wakeup)
    module.ProcessPoolExecutor.submit = blocking(module.ProcessPoolExecutor.submit)


def adapt_popen(module: Any) -> None:
    """Adapt `multiprocessing.popen_fork`, whose class those of `fork` and `spawn` are derived from."""
    poll = module.Popen.poll

    def poll_green(self: Any, flag: int = os.WNOHANG) -> int | None:
        if flag != os.WNOHANG and self.returncode is None and may_wait():
            try:
                pid, status = green_os.waitpid(self.pid, flag)
            except OSError:
                # As the original: somebody else has collected it.
                return None
            if pid == self.pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        code: int | None = poll(self, flag)
        return code

    module.Popen.poll = poll_green
