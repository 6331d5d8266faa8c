"""Whole files: reading and writing one in a single call.

A small file that the kernel has cached is read before `read_file` first waits. Everything else goes through the
engine, at explicit offsets.

Replacing a file atomically is one job on the pool, which undoes what it began when it fails. The new content goes into
an unnamed file (O_TMPFILE), which the kernel frees whatever happens, also to this process; where the filesystem has
none, into a named one beside the target. It gets the target's owner, rights and attributes, reaches the disk, gets a
name, and takes the target's place in one rename. What of these cannot be kept may only narrow who has access, never
widen it. Lost are: hard links, the file's number and its times; capabilities, and for all but the superuser the
set-user-ID and set-group-ID bits, as after any write (write(2)).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import secrets
import stat
import struct
import weakref
from typing import TYPE_CHECKING

from oneloop._native import learn_filesystem
from oneloop.files.coding import decoded, decoder_of, encoder_of, ended, pieces_of, style_of
from oneloop.files.engine import bounded, check_timeout, current, encoded, named, opened, run_job, undisturbed, within
from oneloop.files.views import advance

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from oneloop._native import Files
    from oneloop.files.engine import AnyPath, Job

__all__ = ["read_file", "read_text", "write_file", "write_text"]

# Whole files that are open at a time, on one loop: enough to keep a disk busy.
OPEN_AT_ONCE = 32
_PLACES: weakref.WeakKeyDictionary[Files, asyncio.Semaphore] = weakref.WeakKeyDictionary()

# What one read asks for at most, when the file's size says nothing.
PIECE_BYTES = 256 * 1024
# The kernel takes no more in one call (read(2)).
LARGEST_BYTES = 0x7FFF_F000
# writev(2): IOV_MAX.
MOST_BUFFERS = 1024
WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


async def read_file(path: AnyPath, *, timeout: float | None = None) -> bytes:
    """The content of a file.

    Reads until the end of what is there: of /proc and /sys, of pipes, of a file that grows or
    shrinks meanwhile. Any number at once: what cannot be read out of the kernel's cache is done for some files at a
    time, so that they never use up the process's descriptors.

    Args:
        path: str, bytes or PathLike.
        timeout: seconds, or None.

    Raises:
        OSError: what `open(path, "rb").read()` raises, with `filename`.
        TimeoutError: the time is up.
        TypeError: `timeout` is no number.
        ValueError: a NUL in the path.
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
    """What is not had at once."""
    mode = await files.call(_look_up, name)
    if not stat.S_ISREG(mode):
        # It may wait for ever, and holds up nobody else.
        return await _read_opened(files, name)
    places = _places(files)
    async with places:
        # The kernel knows the path now, and perhaps the content too.
        content = files.read_file(name)
        if isinstance(content, asyncio.Future):
            content = await content
        return await _read_opened(files, name) if content is None else content


def _look_up(name: bytes) -> int:
    """What the path leads to, on a thread: the mode. Afterwards the kernel has it in its cache."""
    fd = os.open(name, os.O_PATH | os.O_CLOEXEC)
    try:
        learn_filesystem(fd)
        return os.fstat(fd).st_mode
    finally:
        os.close(fd)


def _places(files: Files) -> asyncio.Semaphore:
    """For so many whole files at once may a loop hold descriptors."""
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
    looked = files.look(fd)
    mode, size, _, _ = looked if isinstance(looked, tuple) else await looked
    # The content has positions: not in pipes, terminals, sockets.
    has_offsets = stat.S_ISREG(mode) or stat.S_ISBLK(mode)
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
    # Before the file is read: what open() refuses, this refuses.
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
    name = encoded(path)
    if atomic:
        return await run_job(replace_content, path, view, mode)
    files = current()
    try:
        written = await files.write_file(name, view, WRITING, mode)
        return await _write([view], files, name, mode) if written is None else written
    except OSError as error:
        named(error, path)
        raise


async def _write(views: list[memoryview], files: Files, name: bytes, mode: int) -> int:
    """Step by step: into what may wait for ever, such as a FIFO; and what is in pieces."""
    fd = await opened(files, name, WRITING, mode)
    written = 0
    try:
        looked = files.look(fd)
        file_mode, _, _, _ = looked if isinstance(looked, tuple) else await looked
        has_offsets = stat.S_ISREG(file_mode) or stat.S_ISBLK(file_mode)
        while views:
            count = files.writev(fd, [*views[:MOST_BUFFERS]], written if has_offsets else -1, False)
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


async def _close_failed(files: Files, fd: int, path: AnyPath, error: BaseException) -> None:
    """Close after `error`, which is the one to tell of; another one is noted on it."""
    if isinstance(error, OSError):
        named(error, path)
    try:
        await _close(files, fd, path, clean=False)
    except OSError as late:
        error.add_note(f"and closing failed: {late}")


# -- atomic replacement ----------------------------------------------------------------------------

# Between two pieces a job looks whether it was abandoned.
_JOB_PIECE_BYTES = 4 * 1024 * 1024
# How filesystems and old kernels say that they have no unnamed files (open(2)).
_NO_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


def replace_content(job: Job, path: AnyPath, data: memoryview, mode: int) -> int:
    """Make `data` the content of `path`, entirely or not at all; returns its length in bytes.

    Runs on a thread of the pool.

    Raises:
        OSError: with `filename`; EINVAL if the target is no regular file.
        AbandonedError: before the rename; nothing has changed.
    """
    try:
        if not os.fspath(path):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        folder, name = os.path.split(os.path.realpath(os.fsencode(path)))
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _replace(job, folder, folder_fd, name, data, mode)
        finally:
            os.close(folder_fd)
    except OSError as error:
        named(error, path)
        raise
    return len(data)


def _replace(job: Job, folder: bytes, folder_fd: int, name: bytes, data: memoryview, mode: int) -> None:
    old = _replaced(folder_fd, name)
    # Nobody may read the new content whom the old file would keep out.
    fd, temporary = _new_file(folder_fd, mode if old is None else 0o600)
    try:
        try:
            _write_pieces(job, fd, data)
            if old is not None:
                resemble(fd, os.path.join(folder, name), old)
            os.fsync(fd)
            job.check()
            if temporary is None:
                temporary = _give_name(folder_fd, fd)
        finally:
            os.close(fd)
        job.check()
        os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder_fd)
        raise
    os.fsync(folder_fd)


def _replaced(folder_fd: int, name: bytes) -> os.stat_result | None:
    """The target's status, or None if there is none yet."""
    if not name:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    try:
        status = os.stat(name, dir_fd=folder_fd)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "only regular files can be replaced atomically")
    return status


def _new_file(folder_fd: int, mode: int) -> tuple[int, bytes | None]:
    """An empty file in the folder: its descriptor, and its name if it has to have one."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    # Without /proc an unnamed file could not get its name later.
    if os.path.exists("/proc/self/fd"):
        try:
            return os.open(".", flags | os.O_TMPFILE, mode, dir_fd=folder_fd), None
        except OSError as error:
            if error.errno not in _NO_TMPFILE:
                raise
    while True:
        name = _fresh_name()
        with contextlib.suppress(FileExistsError):
            return os.open(name, flags | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder_fd), name


def _fresh_name() -> bytes:
    return b".oneloop-" + secrets.token_hex(8).encode()


def _write_pieces(job: Job, fd: int, data: memoryview) -> None:
    written = 0
    while written < len(data):
        job.check()
        written += os.write(fd, data[written : written + _JOB_PIECE_BYTES])


def _give_name(folder_fd: int, fd: int) -> bytes:
    """Link an unnamed file into its folder under a name of its own (open(2), O_TMPFILE)."""
    while True:
        name = _fresh_name()
        with contextlib.suppress(FileExistsError):
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder_fd, follow_symlinks=True)
            return name


# -- owner, rights and attributes of the replaced file ---------------------------------------------

ACL = "system.posix_acl_access"
# Written into files that gain privileges by it; a new content has none (capabilities(7)).
CAPABILITY = "security.capability"
# A file system without such attributes, or without this one.
_NONE = (errno.ENOTSUP, errno.ENODATA)
_GROUP_SHIFT = 3

# An access control list as an attribute (acl(5), linux/posix_acl_xattr.h): a version, then tag, rights and id of each.
_ACL_VERSION = struct.Struct("<I")
_ACL_ENTRY = struct.Struct("<HHI")
_GROUP_OBJ, _OTHER = 0x04, 0x20


def resemble(fd: int, path: bytes, old: os.stat_result) -> None:
    """Make the new, empty or written file `fd` look like the one at `path`, whose status is `old`.

    Raises:
        OSError: an access control list cannot be kept; what it forbids would be allowed.
    """
    new = os.fstat(fd)
    keeps_owner = new.st_uid == old.st_uid or _gave(fd, old.st_uid, -1)
    keeps_group = new.st_gid == old.st_gid or _gave(fd, -1, old.st_gid)
    acl = _attribute(path, ACL)
    if acl is None:
        # One that the folder gives to its new files may let somebody in whom the old file kept out.
        _remove_attribute(fd, ACL)
    os.fchmod(fd, _narrowed(stat.S_IMODE(old.st_mode), keeps_owner, keeps_group))
    if acl is not None:
        os.setxattr(fd, ACL, acl if keeps_group else _without_group(acl))
    _copy_attributes(fd, path)


def _gave(fd: int, owner: int, group: int) -> bool:
    """Each by itself: a program may give files to its other groups, though not to another owner."""
    try:
        os.fchown(fd, owner, group)
    except PermissionError:
        return False
    return True


def _narrowed(mode: int, keeps_owner: bool, keeps_group: bool) -> int:
    user, group, other = mode >> 6 & 7, mode >> _GROUP_SHIFT & 7, mode & 7
    special = mode & ~0o777
    if os.geteuid() != 0:
        special &= ~(stat.S_ISUID | stat.S_ISGID)
    if not keeps_owner:
        # The old owner is one of the group or of the others now.
        special &= ~stat.S_ISUID
        group, other = group & user, other & user
    if not keeps_group:
        # The old group's members are among the others now, and the new group was never let in.
        special &= ~stat.S_ISGID
        group, other = 0, other & group
    return special | user << 6 | group << _GROUP_SHIFT | other


def _without_group(acl: bytes) -> bytes:
    """The same list, in which the file's own group, another one now, has no rights."""
    version, entries = acl[: _ACL_VERSION.size], list(_ACL_ENTRY.iter_unpack(acl[_ACL_VERSION.size :]))
    group = next((rights for tag, rights, _ in entries if tag == _GROUP_OBJ), 0)
    narrowed = {_GROUP_OBJ: 0, _OTHER: group}
    return version + b"".join(
        _ACL_ENTRY.pack(tag, rights & narrowed.get(tag, 7), number) for tag, rights, number in entries
    )


def _attribute(path: bytes, name: str) -> bytes | None:
    try:
        return os.getxattr(path, name)
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise


def _remove_attribute(fd: int, name: str) -> None:
    try:
        os.removexattr(fd, name)
    except OSError as error:
        if error.errno not in _NONE:
            raise


def _copy_attributes(fd: int, path: bytes) -> None:
    """All that this process may set."""
    try:
        names = os.listxattr(path)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return
        raise
    for name in names:
        if name in (ACL, CAPABILITY):
            continue
        # Of the system's own, or of a security module's: not this program's to give.
        with contextlib.suppress(PermissionError):
            value = _attribute(path, name)
            if value is not None:
                os.setxattr(fd, name, value)
