"""Forbids system calls in this process for good: what containers do to programs. For child processes of the tests."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

# asm/unistd.h
NUMBERS = {
    "x86_64": {
        "io_setup": 206,
        "io_getevents": 208,
        "io_submit": 209,
        "clone": 56,
        "clone3": 435,
        "io_uring_setup": 425,
        "io_uring_enter": 426,
        "io_uring_register": 427,
        "openat2": 437,
        "preadv2": 327,
        "pwritev2": 328,
        "fsync": 74,
    },
    "aarch64": {
        "io_setup": 0,
        "io_getevents": 4,
        "io_submit": 2,
        "clone": 220,
        "clone3": 435,
        "io_uring_setup": 425,
        "io_uring_enter": 426,
        "io_uring_register": 427,
        "openat2": 437,
        "preadv2": 286,
        "pwritev2": 287,
        "fsync": 82,
    },
}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_NUMBER = struct.pack("HBBI", 0x20, 0, 0, 0)  # BPF_LD | BPF_W | BPF_ABS, seccomp_data.nr
ENDS_PROCESS = 0x80000000  # SECCOMP_RET_KILL_PROCESS
ALLOW = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def forbid(*names: str, error: int = errno.EPERM, is_fatal: bool = False) -> None:
    """From here on these calls fail with `error`, in this process and its children; or they end it with SIGSYS.

    Raises:
        OSError: the kernel has no seccomp filters, or a sandbox forbids them.
    """
    numbers = NUMBERS[platform.machine()]
    code = LOAD_NUMBER
    for name in names:
        code += struct.pack("HBBI", 0x15, 0, 1, numbers[name])  # BPF_JMP | BPF_JEQ: the next, or the one after
        code += struct.pack("HBBI", 0x06, 0, 0, ENDS_PROCESS if is_fatal else 0x00050000 | error)  # SECCOMP_RET_ERRNO
    code += ALLOW
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))):
        if libc.prctl(*arguments, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "seccomp is not available here")
