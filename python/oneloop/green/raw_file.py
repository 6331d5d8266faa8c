"""`RawFile`: a descriptor without a buffer, whose operations park the green thread instead of blocking the loop.

What io's buffered and text files stand on. Three kinds: `RegularFile` goes through the loop's file engine, `PolledFile`
waits until the kernel tells that the descriptor is ready, `PooledFile` asks a thread. `raw_file()` knows which is for
what.

The memory that io hands to `readinto` and `write` is io's own, and may be gone when a killed green thread has left:
nothing but copies of it outlive the call (S3).
"""

from __future__ import annotations

import errno
import io
import os
import select as _select
import stat
import warnings
from asyncio import Future
from typing import TYPE_CHECKING, Any, TypeVar

from oneloop import _native
from oneloop.files.engine import AT_FDCWD, encoded, files_of, named
from oneloop.green.hub import Waiter, get_hub, is_in_green_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer, WriteableBuffer

    from oneloop.files.opening import Mode

__all__ = ["PolledFile", "PooledFile", "RawFile", "RegularFile", "open_descriptor", "raw_file"]

T = TypeVar("T")

LARGEST_STEP_BYTES = 1024 * 1024
"""So much is copied for one operation."""

# The standard library's own, whatever is patched later.
_read, _write, _close, _poll = os.read, os.write, os.close, _select.poll


class RawFile(io.RawIOBase):
    """A descriptor; for the green threads of one OS thread, one at a time.

    Args:
        number: the descriptor.
        mode: what it was opened for.
        name: the path, or the number.
        closefd: whether it is closed with this file.
        source: a file object that has the descriptor; it is kept, and closed instead of the descriptor.
    """

    _is_abandoned = False

    def __init__(self, number: int, mode: Mode, name: Any, closefd: bool, source: Any = None) -> None:
        self._number = number
        self._mode = mode
        self._closes = closefd
        self._source = source
        self.name = name
        self._seekable: bool | None = None

    # -- what the kinds do ---------------------------------------------------------------------------

    def _fetch(self, size: int) -> bytes:
        raise NotImplementedError

    def _store(self, data: bytes) -> int:
        raise NotImplementedError

    def _give_back(self) -> None:
        """Close the descriptor."""
        _close(self._number)

    # -- io.RawIOBase --------------------------------------------------------------------------------

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read into a buffer, as much as there is at once; how many bytes."""
        self._check(self._mode.is_reading, "readable")
        with memoryview(buffer).cast("B") as view:
            data = _read(self._number, len(view)) if self._is_abandoned else self._fetch(len(view))
            view[: len(data)] = data
            return len(data)

    def write(self, data: ReadableBuffer) -> int:
        """Write as much as goes at once; how many bytes."""
        self._check(self._mode.is_writing, "writable")
        with memoryview(data).cast("B") as view:
            if self._is_abandoned:
                return self._write_blocking(view)
            return self._store(bytes(view[:LARGEST_STEP_BYTES]))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the descriptor's position in the kernel; the new one."""
        return os.lseek(self.fileno(), offset, whence)

    def tell(self) -> int:
        """The descriptor's position in the kernel."""
        return os.lseek(self.fileno(), 0, os.SEEK_CUR)

    def truncate(self, size: int | None = None) -> int:
        """Cut or extend the file to so many bytes; to its position if that is None."""
        self._check(self._mode.is_writing, "writable")
        size = self.tell() if size is None else size
        self._cut(size)
        return size

    def _cut(self, size: int) -> None:
        os.ftruncate(self._number, size)

    def close(self) -> None:
        """Close it; nothing the second time."""
        if self.closed:
            return
        if getattr(self, "_finalizing", False):
            self._dealloc_warn(self)
        try:
            super().close()
        finally:
            source, self._source = self._source, None
            try:
                if self._closes and source is not None:
                    source.close()
                elif self._closes:
                    self._give_back()
            finally:
                self._number = -1

    def _dealloc_warn(self, source: object) -> None:
        """Called by io when a file is collected that was not closed: from here on nobody may be parked."""
        self._is_abandoned = True
        if self._closes and self._number >= 0:
            warnings.warn(f"unclosed file {source!r}", ResourceWarning, stacklevel=2, source=source)

    def fileno(self) -> int:
        """The descriptor. ValueError if it is closed."""
        if self._number < 0:
            raise ValueError("I/O operation on closed file")
        return self._number

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self.fileno())

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        self.fileno()
        return self._mode.is_reading

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        self.fileno()
        return self._mode.is_writing

    def seekable(self) -> bool:
        """Whether it has a position."""
        if self._seekable is None:
            try:
                self.tell()
            except OSError:
                self._seekable = False
            else:
                self._seekable = True
        return self._seekable

    @property
    def mode(self) -> str:
        """As `open()` has it: rb, wb, rb+, …"""
        return self._mode.of_bytes

    @property
    def closefd(self) -> bool:
        """Whether the descriptor is closed with it."""
        return self._closes

    def __repr__(self) -> str:
        if self.closed:
            return f"<{type(self).__name__} [closed]>"
        return f"<{type(self).__name__} name={self.name!r} mode={self.mode!r} closefd={self._closes}>"

    def wake_waiting(self, error: BaseException) -> None:
        """Have an exception raised in a green thread that waits for the descriptor, if one does."""

    def _check(self, is_allowed: bool, what: str) -> None:
        self.fileno()
        if not is_allowed:
            raise io.UnsupportedOperation(f"File or stream is not {what}.")

    def _write_blocking(self, view: memoryview) -> int:
        while True:
            try:
                return _write(self._number, view)
            except BlockingIOError:
                _ready(self._number, _select.POLLOUT, None)


class RegularFile(RawFile):
    """A file on a disk. A green thread that is killed while it writes leaves the write under way."""

    # What a killed green thread was writing.
    _flight: tuple[Future[int], bytes] | None = None
    _was_written = False

    def __init__(self, number: int, mode: Mode, name: Any, closefd: bool, source: Any = None) -> None:
        super().__init__(number, mode, name, closefd, source)
        # Know the number, and close it where nobody can wait.
        self._files = _files_here()

    def _fetch(self, size: int) -> bytes:
        self._settle()
        files = _files_here()
        offset = os.lseek(self._number, 0, os.SEEK_CUR)
        data = _outcome(files.read(self._number, size, offset, False))
        if data:
            os.lseek(self._number, offset + len(data), os.SEEK_SET)
        return data

    def readall(self) -> bytes:
        """All that is left."""
        self._check(self._mode.is_reading, "readable")
        pieces = []
        left = max(0, os.fstat(self._number).st_size - self.tell())
        while True:
            # One more than there should be shows that it was all.
            size = min(left + 1, LARGEST_STEP_BYTES) if left > 0 else io.DEFAULT_BUFFER_SIZE
            data = _read(self._number, size) if self._is_abandoned else self._fetch(size)
            if not data:
                return b"".join(pieces)
            pieces.append(data)
            left -= len(data)

    def _store(self, data: bytes) -> int:
        flown = self._settle()
        if flown is not None and data.startswith(flown[0][: flown[1]]):
            # The killed write that is tried again has happened.
            return flown[1]
        files = _files_here()
        self._was_written = True
        offset = -1 if self._mode.is_appending else os.lseek(self._number, 0, os.SEEK_CUR)
        written = files.writev(self._number, [data], offset, False)
        if isinstance(written, Future):
            try:
                written = _outcome(written, is_kept=True)
            except BaseException:
                if not written.done():
                    self._flight = (written, data)
                raise
        if offset >= 0:
            os.lseek(self._number, offset + written, os.SEEK_SET)
        return written

    def _settle(self) -> tuple[bytes, int] | None:
        """Wait for what a killed green thread was writing; what, and how much of it."""
        if self._flight is None:
            return None
        flight, data = self._flight
        if not flight.done():
            try:
                _outcome(flight, is_kept=True)
            except OSError:
                # Whoever writes it again is told.
                self._flight = None
                return None
        self._flight = None
        if flight.exception() is not None:
            return None
        if not self._mode.is_appending:
            os.lseek(self._number, flight.result(), os.SEEK_CUR)
        return data, flight.result()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the descriptor's position in the kernel; the new one."""
        if not self._is_abandoned:
            self._settle()
        return super().seek(offset, whence)

    def _cut(self, size: int) -> None:
        self._settle()
        self._was_written = True
        _outcome(_files_here().ftruncate(self._number, size))

    def _give_back(self) -> None:
        if self._is_abandoned or not is_in_green_thread():
            self._files.forsake(self._number)
            return
        try:
            self._settle()
        finally:
            _outcome(_files_here().close(self._number, not self._was_written))


class PolledFile(RawFile):
    """A pipe, a terminal, a socket, or what else the kernel tells the readiness of.

    Its descriptor is made non-blocking, unless it is a terminal, which other programs have too. One that is not closed
    with it is blocking again when the last file on it is closed.
    """

    def __init__(self, number: int, mode: Mode, name: Any, closefd: bool, source: Any = None) -> None:
        super().__init__(number, mode, name, closefd, source)
        self._is_terminal = os.isatty(number)
        self._borrows = False
        if not self._is_terminal and (number in _borrowed or os.get_blocking(number)):
            os.set_blocking(number, False)
            self._borrows = not closefd
            if self._borrows:
                _borrowed[number] = _borrowed.get(number, 0) + 1

    def _fetch(self, size: int) -> bytes:
        while True:
            if self._is_terminal and not _ready(self._number, _select.POLLIN, 0):
                _native.green_wait(self, False, None)
            try:
                return _read(self.fileno(), size)
            except BlockingIOError:
                _native.green_wait(self, False, None)

    def _store(self, data: bytes) -> int:
        while True:
            if self._is_terminal:
                data = data[: _select.PIPE_BUF]
                if not _ready(self._number, _select.POLLOUT, 0):
                    _native.green_wait(self, True, None)
            try:
                return _write(self.fileno(), data)
            except BlockingIOError:
                _native.green_wait(self, True, None)

    def wake_waiting(self, error: BaseException) -> None:
        """Have an exception raised in a green thread that waits for the descriptor, if one does."""
        _native.green_cancel_wait(self, error)

    def close(self) -> None:
        """Close it; nothing the second time."""
        number, borrows, self._borrows = self._number, self._borrows, False
        try:
            super().close()
        finally:
            if borrows:
                _borrowed[number] -= 1
                if not _borrowed[number]:
                    del _borrowed[number]
                    _make_blocking(number)


class PooledFile(RawFile):
    """What may block, and says nothing of when: a thread of the hub's pool does it."""

    def _fetch(self, size: int) -> bytes:
        return _in_thread(_read, self._number, size)

    def _store(self, data: bytes) -> int:
        return _in_thread(_write, self._number, data)

    def _give_back(self) -> None:
        if self._is_abandoned or not is_in_green_thread():
            _close(self._number)
        else:
            _in_thread(_close, self._number)


# How many open files have made a number non-blocking that is not theirs.
_borrowed: dict[int, int] = {}


def raw_file(number: int, mode: Mode, name: Any, closefd: bool, source: Any = None) -> RawFile:
    """The file for a descriptor, of the kind that it needs.

    Raises:
        IsADirectoryError: it is a directory.
        OSError: it is no open descriptor.
    """
    look = _outcome(_files_here().look(number))
    kind = stat.S_IFMT(look[0])
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if kind in (stat.S_IFREG, stat.S_IFBLK):
        made: type[RawFile] = RegularFile
    else:
        made = PolledFile if _can_be_polled(number) else PooledFile
    raw = made(number, mode, name, closefd, source)
    if mode.is_appending and raw.seekable():
        raw.seek(0, os.SEEK_END)
    return raw


def open_descriptor(path: Any, flags: int, creation_mode: int = 0o666) -> int:
    """`os.open` in a green thread, which waits meanwhile; the descriptor is not inherited.

    Raises:
        OSError: as `os.open`.
    """
    name = encoded(path)
    files = _files_here()
    try:
        opening = files.open(name, flags | os.O_CLOEXEC, creation_mode, AT_FDCWD)
        return opening if isinstance(opening, int) else _opened(files, opening)
    except OSError as error:
        named(error, path)
        raise


def _opened(files: _native.Files, opening: Future[int]) -> int:
    def close_late(_: object) -> None:
        if not opening.cancelled() and opening.exception() is None:
            files.forsake(opening.result())

    try:
        return _outcome(opening)
    except BaseException:
        opening.add_done_callback(close_late)
        raise


def _files_here() -> _native.Files:
    """The file operations of the hub whose green thread calls.

    Raises:
        BlockingSwitchOutError: in a coroutine or a callback.
    """
    hub = get_hub()
    if not is_in_green_thread():
        raise hub._parking_refused()
    files = files_of(hub.asyncio_loop)
    if files.is_spent():
        # What is in memory has had this tick for long enough.
        _outcome(files.later())
    return files


def _outcome(operation: T | Future[T], is_kept: bool = False) -> T:
    """What an operation of `Files` gives. If the green thread is killed meanwhile, it is cancelled, unless it is kept."""
    if not isinstance(operation, Future):
        return operation
    waiter = Waiter(get_hub())
    operation.add_done_callback(waiter.wake)
    try:
        waiter.get()
    except BaseException:
        operation.remove_done_callback(waiter.wake)
        if is_kept:
            # Nobody may ever ask for its error.
            operation.add_done_callback(Future.exception)
        else:
            operation.cancel()
        raise
    return operation.result()


def _in_thread(function: Callable[..., T], *args: Any) -> T:
    hub = get_hub()
    if not is_in_green_thread():
        raise hub._parking_refused()
    result: T = hub.threadpool.spawn(function, *args).get()
    return result


def _can_be_polled(number: int) -> bool:
    with _select.epoll() as epoll:
        try:
            epoll.register(number, 0)
        except PermissionError:
            return False
    return True


def _ready(number: int, events: int, timeout_ms: int | None) -> bool:
    poll = _poll()
    poll.register(number, events)
    return bool(poll.poll(timeout_ms))


def _make_blocking(number: int) -> None:
    try:
        os.set_blocking(number, True)
    except OSError:
        # Its owner has closed it before.
        return
