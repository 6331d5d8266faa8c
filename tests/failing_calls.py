"""Has system calls of a process fail on demand: what no test can provoke otherwise, least of all as root.

Linux 5.5's seccomp user notification: the kernel asks a supervisor, a forked child of the process, whether a call fails
or goes on. The filter stays for the life of the process, so that this belongs into programs of their own
(`tests/programs.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import signal
import struct
from collections.abc import Iterator

# Numbers of seccomp(2) and accept4(2), by machine.
SECCOMP, ACCEPT4 = {"x86_64": (317, 288), "aarch64": (277, 242)}.get(platform.machine(), (0, 0))

PR_SET_NO_NEW_PRIVS = 38
SECCOMP_SET_MODE_FILTER = 1
SECCOMP_FILTER_FLAG_NEW_LISTENER = 8
SECCOMP_RET_USER_NOTIF = 0x7FC00000
SECCOMP_RET_ALLOW = 0x7FFF0000
SECCOMP_USER_NOTIF_FLAG_CONTINUE = 1
# _IOWR('!', 0, struct seccomp_notif) and _IOWR('!', 1, struct seccomp_notif_resp)
NOTIF_RECV, NOTIF_SEND = 0xC0502100, 0xC0182101

LOAD_NUMBER = (0x20, 0, 0, 0)


class UnavailableError(Exception):
    """The kernel or the sandbox has no seccomp user notification."""


class Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _install(number: int) -> int:
    """A filter that asks about one system call; returns the descriptor on which it asks."""
    instructions = [
        LOAD_NUMBER,
        (0x15, 0, 1, number),  # equal: the next one, else one further
        (0x06, 0, 0, SECCOMP_RET_USER_NOTIF),
        (0x06, 0, 0, SECCOMP_RET_ALLOW),
    ]
    packed = b"".join(struct.pack("HBBI", *each) for each in instructions)
    program = Program(len(instructions), packed)
    libc = ctypes.CDLL(None, use_errno=True)
    if not SECCOMP or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise UnavailableError(f"seccomp on {platform.machine()}")
    fd: int = libc.syscall(SECCOMP, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, ctypes.byref(program))
    if fd < 0:
        raise UnavailableError(f"seccomp user notification: {os.strerror(ctypes.get_errno())}")
    return fd


def _supervise(fd: int, error: int, times: int) -> None:
    """Answers until the process is killed."""
    while True:
        asked = bytearray(80)
        fcntl.ioctl(fd, NOTIF_RECV, asked)
        (identity,) = struct.unpack_from("Q", asked)
        fails = times > 0
        times -= 1
        flags = 0 if fails else SECCOMP_USER_NOTIF_FLAG_CONTINUE
        fcntl.ioctl(fd, NOTIF_SEND, bytearray(struct.pack("QqiI", identity, 0, -error if fails else 0, flags)))


@contextlib.contextmanager
def failing_accept(error: int, times: int) -> Iterator[None]:
    """The next accept4(2) calls of this thread fail with the error, so many times. Raises UnavailableError."""
    fd = _install(ACCEPT4)
    supervisor = os.fork()
    if not supervisor:
        try:
            _supervise(fd, error, times)
        finally:
            os._exit(1)
    os.close(fd)
    try:
        yield
    finally:
        # From here on nobody answers: the calls fail with ENOSYS.
        os.kill(supervisor, signal.SIGKILL)
        os.waitpid(supervisor, 0)
