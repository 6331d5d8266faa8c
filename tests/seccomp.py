"""Forbids system calls to the calling process and its children, as container runtimes do (seccomp(2)).

For programs that tests start: a filter cannot be taken off again.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

# io_uring has one number everywhere; kernel AIO is older.
NUMBERS = {
    "x86_64": {"io_uring_setup": 425, "io_setup": 206},
    "aarch64": {"io_uring_setup": 425, "io_setup": 0},
}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def forbid(*names: str, error: int = errno.EPERM) -> None:
    """Make these calls fail with `error` from here on."""
    machine = os.uname().machine
    instructions = [
        (_LOAD, 0, 0, 4),  # seccomp_data.arch
        (_JUMP_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, 0),  # seccomp_data.nr
    ]
    for name in names:
        instructions += [(_JUMP_EQUAL, 0, 1, NUMBERS[machine][name]), (_RETURN, 0, 0, _ERRNO | error)]
    instructions.append((_RETURN, 0, 0, _ALLOW))
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(instructions), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in [
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    ]:
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
