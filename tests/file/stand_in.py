"""`StandIn`: the native `Files` in Python, for what no kernel does on demand: short transfers, faults, late answers.

With `mode="now"` every operation is done at once, with "later" each waits for a tick, "mixed" is now and later in turn,
and with "held" operations wait until the test calls `release()`. A blocking read is asked for again and again.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from typing import Any

POLL_S = 0.001


def _at(dir_fd: int) -> int | None:
    return None if dir_fd == -100 else dir_fd


class StandIn:
    engine = "stand-in"

    def __init__(self, loop: asyncio.AbstractEventLoop, mode: str = "now") -> None:
        self.loop = loop
        self.mode = mode
        self._turns: Iterator[bool] = cycle([True, False])
        self.held: list[tuple[str, Callable[[], None]]] = []
        self.log: list[str] = []
        # At most so many bytes per transfer.
        self.limit_bytes: int | None = None
        # What the next operations of a name raise.
        self.faults: dict[str, list[OSError]] = {}
        self.opened: list[int] = []
        # Operations under way on each descriptor, and closes that wait for their end.
        self.busy: Counter[int] = Counter()
        self.closings: dict[int, asyncio.Future[None] | None] = {}

    # -- when ------------------------------------------------------------------------------------

    def _run(
        self, name: str, operation: Callable[[], Any], late: Callable[[Any], None] | None = None, fd: int = -1
    ) -> Any:
        self.log.append(name)
        act = partial(self._act, name, operation)
        if self.mode == "now" or (self.mode == "mixed" and next(self._turns)):
            try:
                return act()
            except BlockingIOError:
                pass
        future: asyncio.Future[Any] = self.loop.create_future()
        self.busy[fd] += 1

        def land() -> None:
            if future.cancelled():
                # What was opened although nobody waits any more is closed.
                if late is not None:
                    late(act())
                self._has_ended(fd)
                return
            try:
                future.set_result(act())
            except BlockingIOError:
                self.loop.call_later(POLL_S, land)
                return
            except BaseException as exc:
                future.set_exception(exc)
            self._has_ended(fd)

        if self.mode == "held":
            self.held.append((name, land))
        else:
            self.loop.call_soon(land)
        return future

    def _has_ended(self, fd: int) -> None:
        self.busy[fd] -= 1
        if fd in self.closings and not self.busy[fd]:
            waiter = self.closings.pop(fd)
            self.log.append("close")
            os.close(fd)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _act(self, name: str, operation: Callable[[], Any]) -> Any:
        if self.faults.get(name):
            raise self.faults[name].pop(0)
        return operation()

    def release(self, count: int | None = None) -> None:
        """Let the oldest of the held operations happen now; all by default."""
        for _ in range(len(self.held) if count is None else count):
            self.held.pop(0)[1]()

    def info(self) -> dict[str, Any]:
        return {"engine": self.engine, "refused": {}, "operations": sum(self.busy.values()), "threads": 0}

    def _bounded(self, buffers: list[Any]) -> list[memoryview]:
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        left = self.limit_bytes
        if left is None:
            return views
        bounded = []
        for view in views:
            bounded.append(view[:left])
            left -= len(bounded[-1])
        return bounded

    @staticmethod
    def _await_readable(fd: int, offset: int) -> None:
        if offset < 0:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            if not poll.poll(0):
                raise BlockingIOError

    # -- what ------------------------------------------------------------------------------------

    def open(self, path: bytes, flags: int, mode: int, dir_fd: int) -> Any:
        def operation() -> int:
            return os.open(path, flags, mode, dir_fd=None if dir_fd == -100 else dir_fd)

        return self._run("open", operation, os.close)

    def open_at_once(self, path: bytes, flags: int, mode: int, dir_fd: int) -> None:
        """As of what is not in the cache."""

    def close(self, fd: int, clean: bool) -> Any:
        if self.busy[fd]:
            waiter = self.closings[fd] = self.loop.create_future()
            return waiter
        return self._run("close", lambda: os.close(fd))

    def forsake(self, fd: int) -> None:
        if self.busy[fd]:
            self.closings.setdefault(fd, None)
        else:
            os.close(fd)

    def forsake_name(self, path: bytes) -> None:
        os.unlink(path)

    def read(self, fd: int, size: int, offset: int, direct: bool) -> Any:
        if self.limit_bytes is not None:
            size = min(size, self.limit_bytes)

        def operation() -> bytes:
            self._await_readable(fd, offset)
            return os.read(fd, size) if offset < 0 else os.pread(fd, size, offset)

        return self._run("read", operation, fd=fd)

    def read_after(self, fd: int, head: bytes, size: int, offset: int) -> Any:
        return self._run("read", lambda: head + os.pread(fd, size, offset), fd=fd)

    def readv(self, fd: int, buffers: list[Any], offset: int, direct: bool) -> Any:
        def operation() -> int:
            self._await_readable(fd, offset)
            views = self._bounded(buffers)
            return os.readv(fd, views) if offset < 0 else os.preadv(fd, views, offset)

        return self._run("read", operation, fd=fd)

    def writev(self, fd: int, buffers: list[Any], offset: int, direct: bool) -> Any:
        def operation() -> int:
            views = self._bounded(buffers)
            return os.writev(fd, views) if offset < 0 else os.pwritev(fd, views, offset)

        return self._run("write", operation, fd=fd)

    def fsync(self, fd: int, datasync: bool) -> Any:
        return self._run("fsync", lambda: os.fdatasync(fd) if datasync else os.fsync(fd), fd=fd)

    def ftruncate(self, fd: int, size: int) -> Any:
        return self._run("truncate", lambda: os.ftruncate(fd, size), fd=fd)

    def read_file(self, path: bytes) -> Any:
        self.log.append("read_file")
        if self.mode != "now" or not os.path.isfile(path) or not os.path.getsize(path):
            return None
        with open(path, "rb") as file:
            return file.read()

    def status(self, fd: int) -> Any:
        def operation() -> tuple[int, int, int, bool]:
            status = os.fstat(fd)
            return status.st_mode, status.st_size, status.st_blksize, True

        return self._run("status", operation, fd=fd)

    def write_file(self, path: bytes, data: Any, flags: int, mode: int) -> Any:
        """It goes step by step here, as for what is no regular file."""
        future: asyncio.Future[None] = self.loop.create_future()
        future.set_result(None)
        return future

    def stat(self, path: bytes, follow_symlinks: bool, dir_fd: int) -> Any:
        self.log.append("stat")
        return os.stat(path, dir_fd=_at(dir_fd), follow_symlinks=follow_symlinks) if self.mode == "now" else None

    def is_local(self, fd: int) -> bool:
        return True

    def is_spent(self) -> bool:
        return False

    def fallocate(self, fd: int, mode: int, offset: int, size: int) -> Any:
        assert mode == 0
        return self._run("fallocate", lambda: os.posix_fallocate(fd, offset, size), fd=fd)

    def rename(self, src: bytes, dst: bytes, src_dir_fd: int, dst_dir_fd: int, flags: int) -> Any:
        at = {"src_dir_fd": _at(src_dir_fd), "dst_dir_fd": _at(dst_dir_fd)}
        return self._run("rename", lambda: os.rename(src, dst, **at))

    def unlink(self, path: bytes, is_dir: bool, dir_fd: int) -> Any:
        return self._run("unlink", lambda: (os.rmdir if is_dir else os.unlink)(path, dir_fd=_at(dir_fd)))

    def mkdir(self, path: bytes, mode: int, dir_fd: int) -> Any:
        return self._run("mkdir", lambda: os.mkdir(path, mode, dir_fd=_at(dir_fd)))

    def link(self, src: bytes, dst: bytes, src_dir_fd: int, dst_dir_fd: int, follow_symlinks: bool) -> Any:
        # Before Python 3.14 os.link() follows only if it is given a directory's descriptor.
        here = os.open(".", os.O_PATH) if src_dir_fd == -100 else None
        at = {"src_dir_fd": src_dir_fd if here is None else here, "dst_dir_fd": _at(dst_dir_fd)}

        def operation() -> None:
            try:
                os.link(src, dst, **at, follow_symlinks=follow_symlinks)
            finally:
                if here is not None:
                    os.close(here)

        return self._run("link", operation)

    def symlink(self, target: bytes, path: bytes, dir_fd: int) -> Any:
        return self._run("symlink", lambda: os.symlink(target, path, dir_fd=_at(dir_fd)))

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        mode, self.mode = self.mode, "later" if self.mode in ("now", "mixed") else self.mode
        try:
            return self._run("call", lambda: function(*args, **kwargs))
        finally:
            self.mode = mode

    call_long = call_copy = call_removal = call

    def shut(self) -> None:
        self.held.clear()
