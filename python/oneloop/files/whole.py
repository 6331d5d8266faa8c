"""Reading and writing a whole file in one call.

A small file that the kernel has cached is read without waiting. Everything else goes through the engine, at explicit
offsets.

Replacing a file atomically is one job on the pool. If it fails, it removes what it has created. The new content is
written to an unnamed file (O_TMPFILE), which the kernel frees in any case, even if this process dies; if the filesystem
does not support that, to a named file in the same directory. It gets the target's owner, permissions and attributes, is
flushed to the disk, gets a name, and replaces the target with one rename. If one of these cannot be preserved, access
becomes narrower, never wider. Not preserved are: hard links, the inode number and the times; capabilities; and, except
for the superuser, the set-user-ID and set-group-ID bits, as after any write (write(2)).
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
    looked = files.look(fd)
    mode, size, _, _ = looked if isinstance(looked, tuple) else await looked
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
        data: bytes-like; must not change until the call returns.
        mode: permissions of a new file, before the umask.
        atomic: write a new file, flush it to the disk, and rename it to `path`. Readers, also after a crash, see
            either the old or the new content. Owner, group, permissions, access control lists and extended
            attributes are preserved; where this is not possible, access becomes narrower. Not preserved are hard
            links (they keep the old content), times, capabilities, and set-ID bits (except for the superuser). If
            `path` is a symbolic link, its target is replaced. After a failure the old file is unchanged and no
            other file is left. If the call is cancelled during the rename, the new content may be in place.
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
        return await run_job(replace_content, path, view, mode)
    files = current()
    try:
        written = await files.write_file(name, view, WRITING, mode)
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


# -- atomic replacement ----------------------------------------------------------------------------

# A job checks after each piece whether it was abandoned.
_JOB_PIECE_BYTES = 4 * 1024 * 1024
# The errors of filesystems and old kernels without O_TMPFILE (open(2)).
_NO_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


def replace_content(job: Job, path: AnyPath, data: memoryview, mode: int) -> int:
    """Replace the content of `path` with `data`, completely or not at all. Return the number of bytes.

    Runs on a thread of the pool.

    Raises:
        OSError: with `filename`; EINVAL if the target is not a regular file.
        AbandonedError: the job was abandoned before the rename; nothing has changed.
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
    # Until it has the old file's permissions, only the owner may read the new content.
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
    """Return the target's status, or None if it does not exist."""
    if not name:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    try:
        status = os.stat(name, dir_fd=folder_fd)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "atomic=True can only replace a regular file, and this is another kind of file")
    return status


def _new_file(folder_fd: int, mode: int) -> tuple[int, bytes | None]:
    """Create an empty file in the directory. Return its descriptor, and its name or None if it is unnamed."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    # An unnamed file gets its name through /proc.
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
    """Link an unnamed file into its directory under a new name, and return the name (open(2), O_TMPFILE)."""
    while True:
        name = _fresh_name()
        with contextlib.suppress(FileExistsError):
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder_fd, follow_symlinks=True)
            return name


# -- owner, permissions and attributes of the replaced file ----------------------------------------

ACL = "system.posix_acl_access"
# Gives privileges to a program; new content must not inherit them (capabilities(7)).
CAPABILITY = "security.capability"
# The filesystem has no extended attributes, or the file does not have this one.
_NONE = (errno.ENOTSUP, errno.ENODATA)
_GROUP_SHIFT = 3

# The format of an access control list as an attribute (acl(5), linux/posix_acl_xattr.h): a version, then entries of
# tag, permissions and id.
_ACL_VERSION = struct.Struct("<I")
_ACL_ENTRY = struct.Struct("<HHI")
_GROUP_OBJ, _OTHER = 0x04, 0x20


def resemble(fd: int, path: bytes, old: os.stat_result) -> None:
    """Give the file `fd` the owner, permissions and attributes of the file at `path`, whose status is `old`.

    Raises:
        OSError: the access control list cannot be set; without it, access would be wider.
    """
    new = os.fstat(fd)
    keeps_owner = new.st_uid == old.st_uid or _gave(fd, old.st_uid, -1)
    keeps_group = new.st_gid == old.st_gid or _gave(fd, -1, old.st_gid)
    acl = _attribute(path, ACL)
    if acl is None:
        # A default list of the directory could give access to users whom the old file excluded.
        _remove_attribute(fd, ACL)
    os.fchmod(fd, _narrowed(stat.S_IMODE(old.st_mode), keeps_owner, keeps_group))
    if acl is not None:
        os.setxattr(fd, ACL, acl if keeps_group else _without_group(acl))
    _copy_attributes(fd, path)


def _gave(fd: int, owner: int, group: int) -> bool:
    """Change owner or group. Return False if not permitted.

    They are changed separately: a process can give files to its other groups, but not to another owner.
    """
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
        # The old owner now belongs to the group or to the others.
        special &= ~stat.S_ISUID
        group, other = group & user, other & user
    if not keeps_group:
        # The members of the old group now belong to the others, and the new group never had access.
        special &= ~stat.S_ISGID
        group, other = 0, other & group
    return special | user << 6 | group << _GROUP_SHIFT | other


def _without_group(acl: bytes) -> bytes:
    """Return the list without permissions for the file's group, because that is now another group."""
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
    """Copy all extended attributes that this process is permitted to set."""
    try:
        names = os.listxattr(path)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return
        raise
    for name in names:
        if name in (ACL, CAPABILITY):
            continue
        # Attributes of the system or of a security module cannot be set by this process.
        with contextlib.suppress(PermissionError):
            value = _attribute(path, name)
            if value is not None:
                os.setxattr(fd, name, value)
