"""Whole files: reading and writing one in a single call.

A small file that the kernel has cached is read before `read_file` first waits. Everything else goes
through the engine, at explicit offsets. Replacing a file atomically is one job on the pool
(`replacing`).
"""

from __future__ import annotations

import asyncio
import io
import os
import stat
from typing import TYPE_CHECKING

from oneloop.files import jobs
from oneloop.files.deadline import bounded, within
from oneloop.files.engine import current
from oneloop.files.kernel_path import encoded, named, opened
from oneloop.files.raw import undisturbed
from oneloop.files.replacing import replace_content

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from oneloop._native import Files
    from oneloop.files.kernel_path import AnyPath

__all__ = ["read_file", "read_text", "write_file", "write_text"]

# What one read asks for at most, when the file's size says nothing.
PIECE_BYTES = 256 * 1024
# The kernel takes no more in one call (read(2)).
LARGEST_BYTES = 0x7FFF_F000


async def read_file(path: AnyPath, *, timeout: float | None = None) -> bytes:
    """The content of a file.

    Reads until the end of what is there: of /proc and /sys, of pipes, of a file that grows or
    shrinks meanwhile.

    Args:
        path: str, bytes or PathLike.
        timeout: seconds, or None.

    Raises:
        OSError: what `open(path, "rb").read()` raises, with `filename`.
        TimeoutError: the time is up.
        ValueError: a NUL in the path.
    """
    files = current()
    name = encoded(path)
    try:
        content = files.read_file(name)
    except OSError as error:
        named(error, path)
        raise
    if content is not None:
        return content
    if timeout is not None:
        return await within(timeout, _read(files, path))
    return await _read(files, path)


async def _read(files: Files, path: AnyPath) -> bytes:
    fd = await opened(files, path, os.O_RDONLY)
    try:
        content = await _read_all(files, fd)
    except BaseException as error:
        await _close_failed(files, fd, path, error, clean=True)
        raise
    await _close(files, fd, path, clean=True)
    return content


async def _read_all(files: Files, fd: int) -> bytes:
    status = os.fstat(fd)
    size = status.st_size
    has_offsets = _has_offsets(status)
    pieces: list[bytes] = []
    done = 0
    while True:
        # One byte more than there should be: a short read then is the end, with no further call.
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
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _has_offsets(status: os.stat_result) -> bool:
    """True if the content has positions: not in pipes, terminals, sockets."""
    return stat.S_ISREG(status.st_mode) or stat.S_ISBLK(status.st_mode)


@bounded
async def read_text(
    path: AnyPath,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *,
    timeout: float | None = None,
) -> str:
    r"""The content of a text file, decoded as `open(path, encoding=…, errors=…, newline=…)` does.

    Args:
        path: str, bytes or PathLike.
        encoding: `None` is the locale's, as for `open`.
        errors: how to treat what cannot be decoded.
        newline: as for `open`; `None` makes every line end in `\n`.
        timeout: seconds, or None.

    Raises:
        OSError: as `read_file`.
        UnicodeDecodeError: the content is not in that encoding.
        LookupError: there is no such encoding.
        ValueError: of `newline`.
    """
    encoding = io.text_encoding(encoding, 3)
    # Before the file is read: what open() refuses, this refuses.
    text = io.TextIOWrapper(io.BytesIO(), encoding, errors, newline)
    text.buffer.write(await read_file(path))
    text.seek(0)
    return text.read()


@bounded
async def write_file(
    path: AnyPath,
    data: ReadableBuffer,
    *,
    mode: int = 0o666,
    atomic: bool = False,
    timeout: float | None = None,
) -> int:
    """Make `data` the content of a file; returns its length in bytes.

    Args:
        path: str, bytes or PathLike.
        data: bytes-like; it may not change until the call returns.
        mode: permissions of a new file, before the umask.
        atomic: write beside the target, flush to the disk, then rename. Readers and a crash find the
            old content or the new, never a mixture. Owner, group, permissions, access control lists and
            extended attributes stay; what may not be kept narrows who has access. Lost are hard links,
            times, capabilities, set-ID bits (save for the superuser). A symbolic link stays, its target is
            replaced; hard links keep the old content. On any failure the old file is as it was and nothing else
            is left. A
            cancellation that arrives while the rename runs may find the new content in place.
        timeout: seconds, or None.

    Raises:
        OSError: with `filename`; what `open(path, "wb")` and `write` raise. With `atomic`, EINVAL for
            a target that is no regular file.
        TypeError: `data` is not bytes-like.
    """
    view = memoryview(data).cast("B")
    if atomic:
        encoded(path)
        return await jobs.run(replace_content, path, view, mode)
    files = current()
    fd = await opened(files, path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        await _write_all(files, fd, view)
    except BaseException as error:
        await _close_failed(files, fd, path, error, clean=False)
        raise
    await _close(files, fd, path, clean=False)
    return len(view)


async def _write_all(files: Files, fd: int, view: memoryview) -> None:
    has_offsets = _has_offsets(os.fstat(fd))
    written = 0
    while written < len(view):
        count = files.writev(fd, [view[written:]], written if has_offsets else -1, False)
        written += count if isinstance(count, int) else await count


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
    """Make `text` the content of a file, encoded as `open(path, "w", …)` does; returns its characters.

    Args:
        path: str, bytes or PathLike.
        text: the content.
        encoding: `None` is the locale's, as for `open`.
        errors: how to treat what cannot be encoded.
        newline: as for `open`.
        mode: as for `write_file`.
        atomic: as for `write_file`.
        timeout: seconds, or None.

    Raises:
        OSError: as `write_file`.
        UnicodeEncodeError: that encoding has no place for a character; nothing was written.
        TypeError: `text` is no str.
    """
    if not isinstance(text, str):
        raise TypeError(f"data must be str, not {type(text).__name__}")
    buffer = io.BytesIO()
    writer = io.TextIOWrapper(buffer, io.text_encoding(encoding, 3), errors, newline)
    count = writer.write(text)
    writer.flush()
    await write_file(path, buffer.getvalue(), mode=mode, atomic=atomic)
    return count


async def _close(files: Files, fd: int, path: AnyPath, *, clean: bool) -> None:
    """Close; a flush that fails late is the caller's error. A cancellation does not stop it."""
    try:
        closing = files.close(fd, clean)
        if closing is not None:
            try:
                await undisturbed(closing)
            except asyncio.CancelledError:
                # It goes on; what it says then, nobody waits for.
                closing.add_done_callback(_forget)
                raise
            closing.result()
    except OSError as error:
        named(error, path)
        raise


def _forget(closing: asyncio.Future[None]) -> None:
    if not closing.cancelled():
        closing.exception()


async def _close_failed(files: Files, fd: int, path: AnyPath, error: BaseException, *, clean: bool) -> None:
    """Close after `error`, which is the one to tell of; another one is noted on it."""
    if isinstance(error, OSError):
        named(error, path)
    try:
        await _close(files, fd, path, clean=clean)
    except OSError as late:
        error.add_note(f"and closing failed: {late}")
