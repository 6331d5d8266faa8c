"""Reading and writing a whole file in one call.

A small file that the kernel has cached is read without waiting. Everything else goes through the engine, at explicit
offsets.
"""

from __future__ import annotations

import asyncio
import io
import os
import stat
import weakref
from typing import TYPE_CHECKING

from oneloop._native import learn_filesystem
from oneloop.files.borrowed import PIECE_BYTES as COPIED_BYTES
from oneloop.files.borrowed import copied, is_mutable
from oneloop.files.coding import decoded, decoder_of, encoder_of, ended, pieces_of, style_of
from oneloop.files.engine import (
    bounded,
    check_timeout,
    current,
    encoded,
    joined,
    named,
    opened,
    run_copy,
    run_job,
    undisturbed,
    within,
)
from oneloop.files.replacement import replace_content
from oneloop.files.views import advance

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from oneloop._native import Files
    from oneloop.files.engine import AnyPath

__all__ = ["read_file", "read_text", "write_file", "write_text"]

# How many whole files one loop has open at a time: enough to keep a disk busy.
OPEN_AT_ONCE = 32
_PLACES: weakref.WeakKeyDictionary[Files, asyncio.Semaphore] = weakref.WeakKeyDictionary()

# Size of one read if the file's size is not known.
PIECE_BYTES = 256 * 1024
# The most bytes of one system call (read(2)).
LARGEST_BYTES = 0x7FFF_F000
# writev(2): IOV_MAX.
MOST_BUFFERS = 1024
WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


async def read_file(path: AnyPath, *, timeout: float | None = None) -> bytes:
    """Return the content of a file as bytes.

    Reads up to the end, also for files in /proc and /sys, for pipes, and for a file that grows or shrinks meanwhile.
    Any number of calls can run concurrently: at most 32 files that are not cached are open at a time, so the process
    does not run out of descriptors.

    Args:
        path: str, bytes or PathLike.
        timeout: in seconds, or None.

    Raises:
        OSError: as `open(path, "rb").read()`, with `filename`.
        TimeoutError: the timeout has expired.
        TypeError: `timeout` is not a number.
        ValueError: the path contains a NUL.
    """
    if timeout is not None:
        check_timeout(timeout)
        return await within(timeout, read_file, path)
    files = current()
    name = encoded(path)
    try:
        content = files.read_file(name)
        if isinstance(content, asyncio.Future):
            content = await content
        if content is None:
            content = await _read(files, name)
    except OSError as error:
        named(error, path)
        raise
    return content


async def _read(files: Files, name: bytes) -> bytes:
    """Read a file that is not cached."""
    mode = await files.call(_look_up, name)
    if not stat.S_ISREG(mode):
        # A pipe or device can block forever, so do not let it occupy one of the places.
        return await _read_opened(files, name)
    places = _places(files)
    async with places:
        # The path is cached now, and perhaps the content too: try again without waiting.
        content = files.read_file(name)
        if isinstance(content, asyncio.Future):
            content = await content
        return await _read_opened(files, name) if content is None else content


def _look_up(name: bytes) -> int:
    """Return the file's mode. Runs on a thread, and leaves the path in the kernel's cache."""
    fd = os.open(name, os.O_PATH | os.O_CLOEXEC)
    try:
        learn_filesystem(fd)
        return os.fstat(fd).st_mode
    finally:
        os.close(fd)


def _places(files: Files) -> asyncio.Semaphore:
    """Return the semaphore that limits how many whole files the loop has open."""
    places = _PLACES.get(files)
    if places is None:
        places = _PLACES[files] = asyncio.Semaphore(OPEN_AT_ONCE)
    return places


async def _read_opened(files: Files, name: bytes) -> bytes:
    fd = await opened(files, name, os.O_RDONLY)
    try:
        content = await _read_all(files, fd)
    except BaseException as error:
        await _close_failed(files, fd, name, error)
        raise
    await _close(files, fd, name, clean=True)
    return content


async def _read_all(files: Files, fd: int) -> bytes:
    status = files.status(fd)
    mode, size, _, _ = status if isinstance(status, tuple) else await status
    # Pipes, terminals and sockets have no offsets.
    has_offsets = stat.S_ISREG(mode) or stat.S_ISBLK(mode)
    pieces: list[bytes] = []
    done = 0
    while True:
        # Ask for one byte more than the size: a short read then is the end, without another call.
        wanted = min(size - done + 1, LARGEST_BYTES) if done <= size and size else PIECE_BYTES
        piece = files.read(fd, wanted, done if has_offsets else -1, False)
        if not isinstance(piece, bytes):
            piece = await piece
        if not piece:
            break
        pieces.append(piece)
        done += len(piece)
        if done == size and len(piece) < wanted:
            break
    return pieces[0] if len(pieces) == 1 else await joined(files, pieces)


@bounded
async def read_text(
    path: AnyPath,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *,
    timeout: float | None = None,
) -> str:
    r"""Return the content of a text file, decoded as `open(path, encoding=…, errors=…, newline=…)` does.

    Args:
        path: str, bytes or PathLike.
        encoding: None: the locale's encoding, as for `open`.
        errors: how decoding errors are handled, as for `open`.
        newline: as for `open`; None: every line end becomes `\n`.
        timeout: in seconds, or None.

    Raises:
        OSError, TimeoutError: as `read_file`.
        UnicodeDecodeError: the content is not valid in this encoding.
        LookupError: there is no such encoding.
        ValueError: `newline` is invalid.
    """
    # Check the arguments before the file is read, as open() does.
    style = style_of(io.text_encoding(encoding, 3), errors, newline)
    return await decoded(current(), await read_file(path), decoder_of(style), style)


@bounded
async def write_file(
    path: AnyPath,
    data: ReadableBuffer,
    *,
    mode: int = 0o666,
    atomic: bool = False,
    timeout: float | None = None,
) -> int:
    """Write `data` to a file, replacing its content. Return the number of bytes.

    Args:
        path: str, bytes or PathLike.
        data: bytes-like; must not change until the call has returned or raised.
        mode: permissions of a new file, before the umask.
        atomic: write a new file, flush it to the disk, and rename it to `path`. Readers, also after a crash, see
            either the old or the new content. Owner, group, permissions, access control lists and extended
            attributes are preserved; where this is not possible, access becomes narrower. Not preserved are hard
            links (they keep the old content), times, inode flags (chattr(1)), capabilities, and set-ID bits (except
            for the superuser). If `path` is a symbolic link, its target is replaced. After a failure the old file is
            unchanged and no other file is left, except if only the last step failed, flushing the directory: then the
            new content is in place, and a note of the exception says so. If the call is cancelled during the rename,
            the new content may be in place.
        timeout: in seconds, or None.

    Raises:
        OSError: as `open(path, "wb")` and `write`, with `filename`. With `atomic`, EINVAL if the target is not a
            regular file.
        TimeoutError: the timeout has expired.
        TypeError: `data` is not bytes-like.
    """
    view = memoryview(data).cast("B")
    name = encoded(path)
    if atomic:
        run = run_copy if len(view) > COPIED_BYTES else run_job
        return await run(replace_content, path, view, mode)
    files = current()
    try:
        if is_mutable(view) and len(view) <= COPIED_BYTES:
            view = memoryview(bytes(view))
        writing = files.write_file(name, view, WRITING, mode)
        written = await writing if isinstance(writing, asyncio.Future) else writing
        return await _write([view], files, name, mode) if written is None else written
    except OSError as error:
        named(error, path)
        raise


async def _write(views: list[memoryview], files: Files, name: bytes, mode: int) -> int:
    """Write with separate open, write and close operations: for files that can block (a FIFO), and for several pieces.

    Returns the number of bytes.
    """
    fd = await opened(files, name, WRITING, mode)
    written = 0
    try:
        status = files.status(fd)
        file_mode, _, _, is_local = status if isinstance(status, tuple) else await status
        has_offsets = stat.S_ISREG(file_mode) or stat.S_ISBLK(file_mode)
        while views:
            given = views[:MOST_BUFFERS]
            lent = given if is_local and has_offsets else copied(given)
            count = files.writev(fd, lent, written if has_offsets else -1, False)
            count = count if isinstance(count, int) else await count
            written += count
            advance(views, count)
    except BaseException as error:
        await _close_failed(files, fd, name, error)
        raise
    await _close(files, fd, name, clean=False)
    return written


@bounded
async def write_text(
    path: AnyPath,
    text: str,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *,
    mode: int = 0o666,
    atomic: bool = False,
    timeout: float | None = None,
) -> int:
    """Write `text` to a file, encoded as `open(path, "w", …)` does. Return the number of characters.

    Args:
        path: str, bytes or PathLike.
        text: the new content.
        encoding: None: the locale's encoding, as for `open`.
        errors: how encoding errors are handled, as for `open`.
        newline: as for `open`.
        mode: as for `write_file`.
        atomic: as for `write_file`.
        timeout: in seconds, or None.

    Raises:
        OSError, TimeoutError: as `write_file`.
        UnicodeEncodeError: a character is not in this encoding; nothing was written.
        LookupError: there is no such encoding.
        ValueError: `newline` is invalid.
        TypeError: `text` is not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"data must be str, not {type(text).__name__}")
    style = style_of(io.text_encoding(encoding, 3), errors, newline)
    files = current()
    encode = encoder_of(style)
    pieces = await pieces_of(files, text, lambda piece: encode(ended(piece, style)))
    if len(pieces) == 1 or atomic:
        await write_file(path, b"".join(pieces), mode=mode, atomic=atomic)
        return len(text)
    name = encoded(path)
    try:
        await _write([memoryview(piece) for piece in pieces], files, name, mode)
    except OSError as error:
        named(error, path)
        raise
    return len(text)


async def _close(files: Files, fd: int, path: AnyPath, *, clean: bool) -> None:
    """Close a descriptor and raise a late write error. Cancelling the caller does not stop the close."""
    try:
        closing = files.close(fd, clean)
        if closing is not None:
            try:
                await undisturbed(closing)
            except asyncio.CancelledError:
                # The close continues; ignore its error, because no caller is left.
                closing.add_done_callback(_forget)
                raise
            closing.result()
    except OSError as error:
        named(error, path)
        raise


def _forget(closing: asyncio.Future[None]) -> None:
    if not closing.cancelled():
        closing.exception()


async def _close_failed(files: Files, fd: int, path: AnyPath, error: BaseException) -> None:
    """Close a descriptor after `error`, which the caller raises. An error of the close is added to it as a note."""
    if isinstance(error, OSError):
        named(error, path)
    try:
        await _close(files, fd, path, clean=False)
    except OSError as late:
        error.add_note(f"Closing the file failed as well: {late}")
