"""`PolledFile`: a descriptor whose readiness the kernel reports; and `PooledFile`, for other descriptors."""

from __future__ import annotations

import os
import select as _select
from typing import TYPE_CHECKING, Any, TypeVar

from oneloop import _native
from oneloop.green.hub import get_hub
from oneloop.green.raw_file import RawFile, close_now, is_ready, read_now, write_now
from oneloop.green.steps import may_block, wait_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.files.request import Mode

__all__ = ["PolledFile", "PooledFile", "can_be_polled"]

T = TypeVar("T")

# The original function, even if patching replaces it later.
_epoll = _select.epoll


class PolledFile(RawFile):
    """A pipe, a terminal, a socket, or any other descriptor whose readiness the kernel reports.

    The descriptor is put into non-blocking mode, except for terminals, which are shared with other programs. If
    `closefd` is false, blocking mode is restored when the last file on the descriptor is closed.
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
            if self._is_terminal and not is_ready(self._number, _select.POLLIN, 0):
                _native.green_wait(self, False, None)
            try:
                return read_now(self.fileno(), size)
            except BlockingIOError:
                _native.green_wait(self, False, None)

    def _store(self, data: bytes) -> int:
        while True:
            if self._is_terminal:
                data = data[: _select.PIPE_BUF]
                if not is_ready(self._number, _select.POLLOUT, 0):
                    _native.green_wait(self, True, None)
            try:
                return write_now(self.fileno(), data)
            except BlockingIOError:
                _native.green_wait(self, True, None)

    def wake_waiting(self, error: BaseException) -> None:
        """Raise an exception in the green thread that waits for the descriptor, if there is one."""
        _native.green_cancel_wait(self, error)

    def close(self) -> None:
        """Close the file. No effect if it is closed."""
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
    """A descriptor that may block and does not report readiness. A thread of the hub's pool reads and writes it."""

    def _fetch(self, size: int) -> bytes:
        return _in_thread(read_now, self._number, size)

    def _store(self, data: bytes) -> int:
        return _in_thread(write_now, self._number, data)

    def _give_back(self) -> None:
        if self._is_abandoned or not may_block():
            close_now(self._number)
        else:
            numbers = [self._number]
            try:
                closing = wait_here(get_hub().threadpool.spawn, _close_once, numbers)
            except BaseException:
                # A thread may have it nevertheless.
                _close_once(numbers)
                raise
            wait_here(closing.get)


def _close_once(numbers: list[int]) -> None:
    """Close the descriptor in the list, if no other thread has taken it."""
    try:
        number = numbers.pop()
    except IndexError:
        return
    close_now(number)


# The number of open files that have put a descriptor they do not own into non-blocking mode.
_borrowed: dict[int, int] = {}


def _in_thread(function: Callable[..., T], *args: Any) -> T:
    result: T = wait_here(lambda: get_hub().threadpool.spawn(function, *args).get())
    return result


def can_be_polled(number: int) -> bool:
    """Whether the kernel reports the readiness of a descriptor."""
    with _epoll() as epoll:
        try:
            epoll.register(number, 0)
        except PermissionError:
            return False
    return True


def _make_blocking(number: int) -> None:
    try:
        os.set_blocking(number, True)
    except OSError:
        # Its owner has closed it.
        return
