"""Replacing a file atomically: one job on the pool.

If it fails, it removes what it has created. The new content is written to an unnamed file (O_TMPFILE), which the kernel
frees in any case, even if this process dies; if the filesystem does not support that, to a named file in the same
directory. It gets the target's owner, permissions and attributes, is flushed to the disk, gets a name, and replaces the
target with one rename. If one of these cannot be preserved, access becomes narrower, never wider. Not preserved are:
hard links, the inode number, its flags (chattr(1)) and the times; capabilities; and, except for the superuser, the
set-user-ID and set-group-ID bits, as after any write (write(2)).
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import struct
from typing import TYPE_CHECKING

from oneloop.files.engine import (
    named,
)

if TYPE_CHECKING:
    from oneloop.files.engine import AnyPath, Job

__all__ = ["ACL", "CAPABILITY", "replace_content"]


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
        if os.fsencode(path).endswith(b"/"):
            # realpath() would drop the slash. open() refuses it, whatever the path is, if its directory exists.
            os.stat(os.path.dirname(os.fsencode(path).rstrip(b"/")) or b".")
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
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
    try:
        os.fsync(folder_fd)
    except OSError as error:
        error.add_note("The new content is in place, but after a crash of the system the old one may be there again.")
        raise


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
    if not os.access(name, os.W_OK, dir_fd=folder_fd, effective_ids=True):
        # A rename needs only the directory's permissions; open() would refuse.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
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
