"""`FileObject`: files whose operations park the calling green thread, so that other green threads run.

One green thread uses a file at a time; others wait for their turn. In a coroutine or a callback that may not block,
operations that would have to wait raise BlockingSwitchOutError; use `oneloop.files` there.
"""

from __future__ import annotations

import builtins
import io
import os
from errno import EBADF
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from greenlet import getcurrent

from oneloop.green.file_layers import raw_of, stacked
from oneloop.green.hub import Waiter, get_hub
from oneloop.green.raw_file import RawFile
from oneloop.green.settings import config
from oneloop.green.steps import wait_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from oneloop.green.threadpool import ThreadPool

__all__ = [
    "FileObject",
    "FileObjectBase",
    "FileObjectBlock",
    "FileObjectClosed",
    "FileObjectPosix",
    "FileObjectThread",
    "open",
]

_stock_open: Any = builtins.open


class FileObjectClosed(OSError, ValueError):  # noqa: N818 - gevent's name
    """The file was closed."""

    def __init__(self) -> None:
        super().__init__(EBADF, "Bad file descriptor (FileObject was closed)")


class FileObjectBase:
    """The common part of all file objects: arguments, turns, and the methods of io.

    Args:
        fobj: a descriptor, a file object that has one, or a path as in `open`.
        mode: as in `open`; it also applies to a file object, whatever mode that has.
        bufsize: another name of `buffering`.
        close: whether `close()` closes the given descriptor or file object.
        encoding, errors, newline: as in `open`.
        buffering: the buffer size in bytes. 0: no buffer. 1: line buffering, for text. -1: as in `open`.
        closefd: another name of `close`.

    Raises:
        TypeError, ValueError, LookupError, OSError: as in `open`.
    """

    _io: Any = None
    _holder: Any = None

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Create a file without a holder of the turn."""
        made = super().__new__(cls)
        made._waiting = []
        return made

    def __init__(
        self,
        fobj: Any,
        mode: str = "r",
        bufsize: int | None = None,
        close: bool | None = None,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        buffering: int | None = None,
        closefd: bool | None = None,
    ) -> None:
        if (bufsize is not None and buffering is not None) or (close is not None and closefd is not None):
            raise TypeError("pass only one of bufsize and buffering, and only one of close and closefd")
        size = bufsize if buffering is None else buffering
        closes = closefd if close is None else close
        size = -1 if size is None or (size == 0 and "b" not in mode) else size
        self._io = self._make(fobj, mode, size, closes is not False, (encoding, errors, newline))
        self._name = fobj if isinstance(fobj, int | str | bytes | os.PathLike) else getattr(fobj, "name", ...)

    _waiting: list[Waiter]
    _name: Any = ...

    @property
    def name(self) -> Any:
        """What was opened, or the name of the file object that was passed; the same after `close`."""
        if self._name is ...:
            raise AttributeError("the file has no name")
        return self._name

    def _make(self, fobj: Any, mode: str, buffering: int, closes: bool, style: Any) -> Any:
        raise NotImplementedError

    # -- turns -----------------------------------------------------------------------------------------

    def _enter(self) -> bool:
        """Take the turn after the earlier waiters. False if the caller has it already."""
        current = getcurrent()
        if self._holder is None:
            self._holder = current
            return True
        if self._holder is current:
            return False
        waiter = Waiter(get_hub())
        self._waiting.append(waiter)
        try:
            waiter.get()
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:
                # The caller was given the turn before the exception: pass it on.
                self._leave()
            raise
        self._holder = current
        return True

    def _leave(self) -> None:
        while self._waiting:
            # Hand the turn over directly, so that no other caller can take it in between.
            self._holder = self._waiting.pop(0)
            if self._holder.wake():
                return
        self._holder = None

    def _do(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the io file during the caller's turn."""
        is_first = self._enter()
        try:
            if self._io is None:
                raise FileObjectClosed
            return self._call(getattr(self._io, name), *args, **kwargs)
        finally:
            if is_first:
                self._leave()

    def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    # -- reading and writing -------------------------------------------------------------------------

    def read(self, *args: Any) -> Any:
        """See `io`."""
        return self._do("read", *args)

    @property
    def read1(self) -> Callable[..., Any]:
        """See `io`. Files in text mode do not have it."""
        if isinstance(self._io, io.TextIOBase):
            raise AttributeError(f"{type(self).__name__!r} object in text mode has no attribute 'read1'")
        return partial(self._do, "read1")

    @property
    def fileio(self) -> Any:
        """The raw file below the buffer."""
        return raw_of(self.io)

    def readall(self) -> Any:
        """See `io`."""
        return self._do("readall")

    def peek(self, *args: Any) -> Any:
        """See `io`."""
        return self._do("peek", *args)

    def readinto(self, buffer: Any) -> Any:
        """See `io`."""
        return self._do("readinto", buffer)

    def readinto1(self, buffer: Any) -> Any:
        """See `io`."""
        return self._do("readinto1", buffer)

    def readline(self, *args: Any) -> Any:
        """See `io`."""
        return self._do("readline", *args)

    def readlines(self, *args: Any) -> Any:
        """See `io`."""
        return self._do("readlines", *args)

    def write(self, data: Any) -> Any:
        """Like io's `write`, but it always writes all of the data, even without a buffer."""
        return self._do("write", data)

    def writelines(self, lines: Any) -> None:
        """See `io`."""
        self._do("writelines", lines)

    def seek(self, *args: Any) -> Any:
        """See `io`."""
        return self._do("seek", *args)

    def tell(self) -> Any:
        """See `io`."""
        return self._do("tell")

    def truncate(self, *args: Any) -> Any:
        """See `io`."""
        return self._do("truncate", *args)

    def flush(self) -> None:
        """See `io`."""
        self._do("flush")

    def detach(self) -> Any:
        """See `io`."""
        return self._do("detach")

    def reconfigure(self, **kwargs: Any) -> None:
        """See `io.TextIOWrapper`."""
        self._do("reconfigure", **kwargs)

    def __next__(self) -> Any:
        if self._holder is None and self._io is not None and type(self)._call is FileObjectBase._call:
            # A faster equivalent of `_do("readline")`, for reading many lines.
            self._holder = getcurrent()
            try:
                line = self._io.readline()
            finally:
                self._leave()
        else:
            line = self._do("readline")
        if not line:
            raise StopIteration
        return line

    next = __next__

    def __iter__(self) -> Iterator[Any]:
        if self._io is None:
            raise FileObjectClosed
        return self

    # -- properties ------------------------------------------------------------------------------------

    @property
    def io(self) -> Any:
        """The underlying file of module io. It does not take turns: the caller must prevent concurrent use."""
        if self._io is None:
            raise FileObjectClosed
        return self._io

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self._io is None or self._io.closed

    def fileno(self) -> int:
        """The descriptor."""
        number: int = self.io.fileno()
        return number

    def isatty(self) -> bool:
        """Whether the file is a terminal."""
        return bool(self.io.isatty())

    def readable(self) -> bool:
        """Whether the file was opened for reading."""
        return bool(self.io.readable())

    def writable(self) -> bool:
        """Whether the file was opened for writing."""
        return bool(self.io.writable())

    def seekable(self) -> bool:
        """Whether the file has a position."""
        return bool(self.io.seekable())

    def __getattr__(self, name: str) -> Any:
        # Attributes that do not wait: mode, encoding, buffer, raw and others.
        if name.startswith("__") or name in {"_io", "name", "read1"}:
            raise AttributeError(name)
        return getattr(self.io, name)

    def __repr__(self) -> str:
        what = "closed" if self._io is None else f"_fobj={self._io!r}"
        return f"<{type(self).__name__} at {id(self):#x} {what}>"

    # -- closing ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush the buffers and close the file. No effect if it is closed.

        Green threads that wait in an operation of the file get FileObjectClosed.
        """
        # Callers that wait for their turn will find the file closed.
        opened, self._io = self._io, None
        if opened is None:
            return
        try:
            self._wake_waiting(opened)
            is_first = self._enter()
        except BaseException:
            self._io = opened
            raise
        try:
            self._call(self._end, opened)
        finally:
            if is_first:
                self._leave()

    def _wake_waiting(self, opened: Any) -> None:
        """Wake the green threads that wait for the descriptor, because it will be closed."""

    def _end(self, opened: Any) -> None:
        opened.close()

    def __enter__(self) -> Self:
        if self._io is None:
            raise FileObjectClosed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class FileObjectPosix(FileObjectBase):
    """A file object that uses the best method for its descriptor.

    Files on a disk use the engine of `oneloop.files`. For pipes, terminals and sockets, the green thread waits until
    they are ready. Anything else is read and written in an OS thread.
    """

    default_bufsize: ClassVar[int] = io.DEFAULT_BUFFER_SIZE

    def _make(self, fobj: Any, mode: str, buffering: int, closes: bool, style: Any) -> Any:
        return stacked(fobj, mode, buffering, style, closes, None)

    def write(self, data: Any) -> Any:
        """Like io's `write`, but it always writes all of the data, even without a buffer."""
        if not isinstance(self._io, RawFile):
            return self._do("write", data)
        is_first = self._enter()
        try:
            with memoryview(data).cast("B") as view:
                done = 0
                while done < len(view):
                    done += self.io.write(view[done:])
                return done
        finally:
            if is_first:
                self._leave()

    def _wake_waiting(self, opened: Any) -> None:
        if self._holder is not None and self._holder is not getcurrent():
            raw = raw_of(opened)
            if raw is not None:
                raw.wake_waiting(FileObjectClosed())


class FileObjectThread(FileObjectBase):
    """Any file object; each call is made in an OS thread.

    Args:
        lock: whether green threads take turns. If false, they can use the file at the same time.
        threadpool: the pool of OS threads; None means the hub's pool.
    """

    def __init__(self, *args: Any, lock: bool = True, threadpool: ThreadPool | None = None, **kwargs: Any) -> None:
        self.threadpool = get_hub().threadpool if threadpool is None else threadpool
        self._takes_turns = lock
        self._closes = True
        super().__init__(*args, **kwargs)

    def _make(self, fobj: Any, mode: str, buffering: int, closes: bool, style: Any) -> Any:
        self._closes = closes or not hasattr(fobj, "read")
        return self._call(_stock, fobj, mode, buffering, closes, style)

    def _enter(self) -> bool:
        return self._takes_turns and super()._enter()

    def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return wait_here(lambda: self.threadpool.spawn(method, *args, **kwargs).get())

    def _end(self, opened: Any) -> None:
        _end_stock(opened, self._closes)


class FileObjectBlock(FileObjectBase):
    """The standard library's file object. Its operations block the event loop."""

    def _make(self, fobj: Any, mode: str, buffering: int, closes: bool, style: Any) -> Any:
        self._closes = closes or not hasattr(fobj, "read")
        return _stock(fobj, mode, buffering, closes, style)

    def _end(self, opened: Any) -> None:
        _end_stock(opened, self._closes)


if TYPE_CHECKING:
    FileObject = FileObjectPosix
else:
    FileObject = config.fileobject


def open(  # noqa: A001 - the green counterpart of the built-in
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
) -> FileObjectPosix:
    """Like the built-in `open`, but opening, reading, writing and closing let other green threads run.

    Raises:
        TypeError, ValueError, LookupError, OSError: as in the built-in.
        BlockingSwitchOutError: called in a coroutine that may not block; use `oneloop.files.open` there.
    """
    if not isinstance(file, int):
        file = os.fspath(file)
    opened = FileObjectPosix.__new__(FileObjectPosix)
    opened._io = stacked(file, mode, buffering, (encoding, errors, newline), closefd, opener)
    opened._name = file
    return opened


def _stock(fobj: Any, mode: str, buffering: int, closes: bool, style: Any) -> Any:
    if hasattr(fobj, "read") or hasattr(fobj, "write") or hasattr(fobj, "fileno"):
        return fobj
    closefd = closes if isinstance(fobj, int) else True
    return _stock_open(fobj, mode, buffering, *style, closefd)


def _end_stock(opened: Any, closes: bool) -> None:
    if closes:
        opened.close()
    elif hasattr(opened, "flush"):
        opened.flush()
