"""`stacked`: builds io's buffered or text file on the raw file class that fits the descriptor."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from typing import TYPE_CHECKING, Any

from oneloop.files.request import Request, request
from oneloop.green.polled_file import PolledFile, PooledFile, can_be_polled
from oneloop.green.raw_file import RawFile, close_now
from oneloop.green.regular_file import RegularFile, files_here, open_descriptor, outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from oneloop.files.request import Mode

__all__ = ["raw_file", "raw_of", "stacked"]


def stacked(
    fobj: Any, mode: str, buffering: int, style: Any, closes: bool, opener: Callable[[str, int], int] | None
) -> Any:
    """Create an io file for a path, a descriptor or a file object with a descriptor. The arguments are those of `open`.

    Raises:
        TypeError, ValueError, LookupError, OSError: as in `open`.
    """
    source = fobj if hasattr(fobj, "fileno") else None
    if source is not None:
        fobj = source.fileno()
    encoding, errors, newline = style
    name = fobj if isinstance(fobj, int) else os.fspath(fobj)
    checked = request(name, mode, buffering, encoding, errors, newline, closes, opener)
    if not isinstance(fobj, int):
        number = opener(fobj, checked.mode.flags) if opener is not None else open_descriptor(fobj, checked.mode.flags)
        _check_opened(number, opener is not None)
    else:
        number = fobj
        if source is not None:
            _synchronize(source, number)
    raw: RawFile | None = None
    try:
        name = fobj if source is None else getattr(source, "name", number)
        raw = raw_file(number, checked.mode, name, checked.closefd, source)
        return _layers(raw, checked)
    except BaseException:
        if raw is not None:
            raw.close()
        elif not isinstance(fobj, int):
            close_now(number)
        raise


def _check_opened(number: object, is_others: bool) -> None:
    if not isinstance(number, int):
        raise TypeError("expected integer from opener")
    if number < 0:
        raise ValueError(f"opener returned {number}")
    if is_others:
        os.set_inheritable(number, False)


def _layers(raw: RawFile, checked: Request) -> Any:
    mode, buffering = checked.mode, checked.buffering
    if buffering == 0:
        return raw
    is_by_line = buffering == 1 or (buffering < 0 and raw.isatty())
    size = buffering if buffering > 1 else max(io.DEFAULT_BUFFER_SIZE, raw.block_bytes)
    buffered: Any
    if mode.is_reading and mode.is_writing:
        buffered = io.BufferedRandom(raw, size)
    elif mode.is_writing:
        buffered = io.BufferedWriter(raw, size)
    else:
        buffered = io.BufferedReader(raw, size)
    if checked.style is None:
        return buffered
    style = checked.style
    text: Any = io.TextIOWrapper(buffered, style.encoding, style.errors, style.newline, is_by_line)
    text.mode = mode.given
    return text


def raw_of(opened: Any) -> RawFile | None:
    """The raw file below an io file; None if it is not a `RawFile`."""
    while opened is not None and not isinstance(opened, RawFile):
        opened = getattr(opened, "buffer", None) or getattr(opened, "raw", None)
    return opened


def _synchronize(source: Any, number: int) -> None:
    """Flush a file object's write buffers, and set the descriptor to the file object's position."""
    if hasattr(source, "flush"):
        source.flush()
    with contextlib.suppress(AttributeError, OSError):
        position = source.tell()
        if position < 2**63:
            os.lseek(number, position, os.SEEK_SET)


def raw_file(number: int, mode: Mode, name: Any, closefd: bool, source: Any = None) -> RawFile:
    """Create the raw file for a descriptor, of the class that fits it.

    Raises:
        IsADirectoryError: the descriptor is a directory.
        OSError: the descriptor is not open.
    """
    status = outcome_of(files_here().status(number))
    kind = stat.S_IFMT(status[0])
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if kind in (stat.S_IFREG, stat.S_IFBLK):
        made: type[RawFile] = RegularFile
    else:
        made = PolledFile if can_be_polled(number) else PooledFile
    raw = made(number, mode, name, closefd, source)
    raw.block_bytes = status[2]
    if mode.is_appending and raw.seekable():
        raw.seek(0, os.SEEK_END)
    return raw
