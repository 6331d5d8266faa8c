"""`RegularFile`: a file on a disk, which uses the loop's file engine; see `oneloop.files`."""

from __future__ import annotations

import io
import os
import stat
from asyncio import Future
from typing import TYPE_CHECKING, Any, TypeVar

from oneloop.files.engine import AT_FDCWD, encoded, files_of, named
from oneloop.green.hub import Waiter, get_hub
from oneloop.green.raw_file import LARGEST_STEP_BYTES, RawFile, read_now
from oneloop.green.steps import may_block

if TYPE_CHECKING:
    from oneloop import _native
    from oneloop.files.request import Mode

__all__ = ["RegularFile", "files_here", "open_descriptor", "outcome_of", "waited"]

T = TypeVar("T")


class RegularFile(RawFile):
    """A file on a disk. If a green thread is killed while it writes, the write continues."""

    # The write that a killed green thread has started, and its data.
    _flight: tuple[Future[int], bytes] | None = None
    _was_written = False

    def __init__(self, number: int, mode: Mode, name: Any, closefd: bool, source: Any = None) -> None:
        super().__init__(number, mode, name, closefd, source)
        # This registers the descriptor, and can close it where waiting is impossible.
        self._files = files_here()

    def _fetch(self, size: int) -> bytes:
        self._settle()
        files = files_here()
        offset = os.lseek(self._number, 0, os.SEEK_CUR)
        data = outcome_of(files.read(self._number, size, offset, False))
        if data:
            os.lseek(self._number, offset + len(data), os.SEEK_SET)
        return data

    def readall(self) -> bytes:
        """Read the rest of the file."""
        self._check(self._mode.is_reading, "readable")
        pieces: list[bytes] = []
        left = max(0, self._size() - self.tell())
        while True:
            # Reading one byte more than expected detects the end of the file.
            size = min(left + 1, LARGEST_STEP_BYTES) if left > 0 else io.DEFAULT_BUFFER_SIZE
            data = read_now(self._number, size) if self._is_abandoned else self._fetch(size)
            if not data:
                return b"".join(pieces)
            pieces.append(data)
            left -= len(data)

    def _store(self, data: bytes) -> int:
        flown = self._settle()
        if flown is not None and data.startswith(flown[0][: flown[1]]):
            # The same data as in the killed write: that write has succeeded, so do not repeat it.
            return flown[1]
        files = files_here()
        self._was_written = True
        # At the kernel's position, which other processes may write at too.
        writing = files.writev(self._number, [data], -1, False)
        return writing if isinstance(writing, int) else self._landed(writing, data)

    def _landed(self, writing: Future[int], data: bytes) -> int:
        try:
            return waited(writing, is_kept=True)
        except BaseException:
            if not writing.done() or writing.exception() is None:
                self._flight = (writing, data)
            raise

    def _settle(self) -> tuple[bytes, int] | None:
        """Wait for the write of a killed green thread. Return its data and the number of bytes written."""
        if self._flight is None:
            return None
        flight, data = self._flight
        if not flight.done():
            try:
                waited(flight, is_kept=True)
            except OSError:
                # A repeated write reports the error.
                self._flight = None
                return None
        self._flight = None
        return None if flight.exception() is not None else (data, flight.result())

    def tell(self) -> int:
        """The descriptor's position in the kernel."""
        if not self._is_abandoned:
            # Meanwhile the kernel would let nobody ask.
            self._settle()
        return super().tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the descriptor's position in the kernel. Return the new position."""
        if not self._is_abandoned:
            self._settle()
            if whence == os.SEEK_END:
                mode, size, *_ = self._status()
                if stat.S_ISREG(mode):
                    offset, whence = size + offset, os.SEEK_SET
        return super().seek(offset, whence)

    def _size(self) -> int:
        return os.fstat(self._number).st_size if self._is_abandoned else self._status()[1]

    def _status(self) -> tuple[int, int, int, bool]:
        # On a network file system, this may need a request to the server.
        return outcome_of(files_here().status(self._number))

    def isatty(self) -> bool:
        """Return False."""
        self.fileno()
        return False

    def _cut(self, size: int) -> None:
        self._settle()
        self._was_written = True
        outcome_of(files_here().ftruncate(self._number, size))

    def _give_back(self) -> None:
        if self._is_abandoned or not may_block():
            self._files.forsake(self._number)
            return
        try:
            self._settle()
        finally:
            try:
                files = files_here()
            except BaseException:
                # Nobody else would close it.
                self._files.forsake(self._number)
                raise
            outcome_of(files.close(self._number, not self._was_written))


def open_descriptor(path: Any, flags: int, creation_mode: int = 0o666) -> int:
    """Like `os.open`, but it lets other green threads run. The descriptor is not inheritable.

    Raises:
        OSError: as in `os.open`.
    """
    name = encoded(path)
    files = files_here()
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
        return waited(opening)
    except BaseException:
        opening.add_done_callback(close_late)
        raise


def files_here() -> _native.Files:
    """The file operations of the calling green thread's hub.

    Raises:
        BlockingSwitchOutError: called in a coroutine or a callback that may not block.
    """
    hub = get_hub()
    if not may_block():
        raise hub._parking_refused()
    files = files_of(hub.asyncio_loop)
    if files.is_spent():
        # Operations on cached data have used up their share of this tick: continue in the next one.
        waited(files.later())
    return files


def outcome_of(operation: T | Future[T]) -> T:
    """The result of an operation of `Files`; waits if needed. If the green thread is killed, it is cancelled."""
    return waited(operation) if isinstance(operation, Future) else operation


def waited(operation: Future[T], is_kept: bool = False) -> T:
    """Wait for a future of the hub's loop and return its result.

    If the green thread is killed, the future is cancelled, unless `is_kept` is true.
    """
    waiter = Waiter(get_hub())
    operation.add_done_callback(waiter.wake)
    try:
        waiter.get()
    except BaseException:
        operation.remove_done_callback(waiter.wake)
        if is_kept:
            # The exception might never be retrieved: mark it as retrieved.
            operation.add_done_callback(Future.exception)
        else:
            operation.cancel()
        raise
    return operation.result()
