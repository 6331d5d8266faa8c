"""Giving a new file the owner, the rights and the attributes of the one that it will replace.

What cannot be kept may only narrow who has access, never widen it. Lost are: hard links, the file's number and its
times; capabilities, and for all but the superuser the set-user-ID and set-group-ID bits, as after any write (write(2)).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct

__all__ = ["resemble"]

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
        _remove(fd, ACL)
    os.fchmod(fd, _mode(stat.S_IMODE(old.st_mode), keeps_owner, keeps_group))
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


def _mode(mode: int, keeps_owner: bool, keeps_group: bool) -> int:
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


def _remove(fd: int, name: str) -> None:
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
