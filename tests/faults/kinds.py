"""How each system call may fail.

The errnos are those of the manual pages that can occur in a correct program: not EFAULT and the like. EBADF and EINVAL
are in `WRONG`, for `--wrong`: they mean that a program closed a descriptor that oneloop uses.
"""

from __future__ import annotations

import errno
import os

TRANSIENT = frozenset({"EINTR", "EAGAIN", "short", "late", "spurious", "reversed"})
"""Nothing is lost by them: the result must be right, and nobody may get an error."""

_SOCKET = "EINTR EAGAIN ENOMEM ENOBUFS"
_RECV = f"{_SOCKET} ECONNRESET ETIMEDOUT ECONNREFUSED EHOSTUNREACH short"
_SEND = f"{_SOCKET} ECONNRESET EPIPE ETIMEDOUT ENETDOWN EHOSTUNREACH EACCES short"
_FILE = "EIO ENOSPC EDQUOT ENOMEM"
_NAME = "EACCES EEXIST EIO ENOENT ENOMEM ENOSPC EROFS ELOOP EXDEV EBUSY EPERM"
_NEW_FD = "EMFILE ENFILE ENOMEM"

KINDS: dict[str, str] = {
    "recv": _RECV,
    "recvmsg": _RECV,
    "recvfrom": "EINTR EAGAIN ENOMEM ECONNREFUSED EHOSTUNREACH",
    "send": _SEND,
    "sendmsg": _SEND,
    "sendto": "EINTR EAGAIN ENOMEM ENOBUFS EMSGSIZE ECONNREFUSED EPERM ENETUNREACH EHOSTUNREACH",
    "read": "EINTR EAGAIN EIO short",
    "readv": "EINTR EAGAIN EIO short",
    "writev": "EINTR EAGAIN EIO ENOSPC EPIPE short",
    "eventfd read": "EINTR EAGAIN",
    "eventfd write": "EINTR",
    "accept4": "EINTR EAGAIN EMFILE ENFILE ENOBUFS ENOMEM ECONNABORTED EPROTO EPERM ENETDOWN EHOSTUNREACH EOPNOTSUPP",
    "shutdown": "ENOTCONN ENOBUFS",
    "poll": "EINTR ENOMEM",
    "getsockname": "ENOBUFS",
    "getsockopt": "ENOPROTOOPT ENOMEM",
    "setsockopt": "ENOPROTOOPT ENOMEM",
    "ioctl": "ENOTTY EIO",
    "fcntl": "EMFILE",
    "fstat": "ENOMEM EIO",
    "fstatfs": "EINTR EIO ENOMEM ENOSYS",
    "statx": "ENOMEM EIO EACCES ENOSYS",
    "epoll_create1": _NEW_FD,
    "epoll_ctl add": "ENOMEM ENOSPC",
    "epoll_ctl modify": "ENOMEM",
    "epoll_ctl delete": "ENOMEM",
    "epoll_wait": "EINTR short late spurious reversed",
    "eventfd": _NEW_FD,
    "pipe2": _NEW_FD,
    "inotify_init1": _NEW_FD,
    "inotify_add_watch": "EACCES ENOENT ENOMEM ENOSPC",
    "inotify_rm_watch": "EINVAL",
    "lseek": "EIO",
    "fsync": f"EINTR {_FILE}",
    "fdatasync": f"EINTR {_FILE}",
    "ftruncate": "EINTR EIO EFBIG EPERM",
    "fallocate": "EINTR EIO ENOSPC EOPNOTSUPP EFBIG",
    "close": "EINTR EIO ENOSPC EDQUOT",
    "openat": f"EINTR {_NEW_FD} {_NAME}",
    "openat2": f"EINTR EAGAIN ENOSYS EPERM {_NEW_FD} {_NAME}",
    "renameat": _NAME,
    "renameat2": f"ENOSYS {_NAME}",
    "unlinkat": _NAME,
    "mkdirat": _NAME,
    "linkat": _NAME,
    "symlinkat": _NAME,
    "preadv": "EINTR EIO short",
    "pwritev": f"EINTR {_FILE} short",
    "preadv2": "EINTR EIO short",
    "pwritev2": f"EINTR {_FILE} short",
    "preadv2 at once": "EINTR EAGAIN EIO EOPNOTSUPP short",
    "pwritev2 at once": f"EINTR EAGAIN EOPNOTSUPP {_FILE} short",
    "tee": "EAGAIN ENOMEM",
    "io_setup": "EAGAIN ENOMEM ENOSYS EPERM",
    "io_submit": "EAGAIN ENOSYS EPERM short",
    "io_getevents": "EINTR",
    "io_cancel": "EINVAL EAGAIN",
    "io_uring_setup": "EMFILE ENOMEM EPERM ENOSYS",
    "io_uring_register": "ENOMEM EINVAL",
    "io_uring_enter": "EINTR EAGAIN EBUSY EPERM ENOSYS",
    "ring completions": "late reversed",
    "ring cancellation": "EALREADY",
    "ring read": "EINTR EIO short",
    "ring write": f"EINTR {_FILE} short",
    "ring open": f"EINTR {_NEW_FD} {_NAME}",
    "ring close": "EINTR EIO ENOSPC",
    "ring fsync": f"EINTR {_FILE}",
    "ring fdatasync": f"EINTR {_FILE}",
    "ring ftruncate": "EINTR EIO EFBIG",
    "ring fallocate": "EINTR EIO ENOSPC EOPNOTSUPP",
    "ring rename": _NAME,
    "ring unlink": _NAME,
    "ring mkdir": _NAME,
    "ring link": _NAME,
    "ring symlink": _NAME,
}
WRONG = "EBADF EINVAL"

REPORTED_BY_THE_KERNEL = frozenset({"late", "reversed", "short", "spurious"})


def kinds_of(call: str, *, wrong: bool = False) -> list[str]:
    """Return the names of the faults of a call."""
    if call not in KINDS:
        raise LookupError(f"tests/faults/kinds.py does not say how {call} may fail")
    # Without its own epoll instance and its own eventfd a loop cannot go on, and says so.
    has_wrong = wrong and not call.startswith(("epoll_wait", "eventfd"))
    return KINDS[call].split() + (WRONG.split() if has_wrong else [])


def is_transient(call: str, kind: str) -> bool:
    """Whether the program may not notice. EINTR of close and EAGAIN of a setup are errors or a choice of engine."""
    return kind in TRANSIENT and not (call.startswith(("io_", "close")) and kind != "EINTR")


def order_of(kind: str) -> str:
    """Return the word for `_faults_order`."""
    return str(getattr(errno, kind)) if hasattr(errno, kind) else kind


def number_of(kind: str) -> int | None:
    """Return the errno, or None if it is none."""
    number: int | None = getattr(errno, kind, None)
    return number


def text_of(kind: str) -> str:
    """Return the text that an exception has."""
    number = number_of(kind)
    return os.strerror(number) if number else kind
