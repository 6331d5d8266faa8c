"""A Unix socket through which `oneloop top` and other programs of the same user can watch this process.

>>> from oneloop import stats_socket
>>> path = stats_socket.open()
>>> stats_socket.close()

Each connection gets one line of JSON, described in docs/reference/statistics.md, and is closed. A thread without a
Python thread state waits for connections (`_native.SnapshotSocket`), so it costs nothing while there are none. It also
answers while a loop runs a long callback, unless an extension module holds the GIL there.
"""

from __future__ import annotations

import _socket
import atexit
import errno
import os
import stat
import struct
import sys
import tempfile
from contextlib import closing, suppress

from oneloop import _native, snapshot

__all__ = ["close", "folder", "is_in_use", "open", "path"]

LONGEST_PATH_BYTES = 107
"""The longest path of a Unix socket: unix(7)."""
_PEER = struct.Struct("iII")
"""struct ucred: process, user, group (unix(7))."""


class _State:
    socket: _native.SnapshotSocket | None = None
    path: str | None = None
    """The path of the socket, until this process removes it."""
    inode = 0


def folder(user: int | None = None) -> str:
    """Return the directory of a user's sockets that were opened without a path.

    Args:
        user: the user's id; None means the user of this process.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if user is None or user == os.geteuid():
        user = os.geteuid()
        if runtime:
            return os.path.join(runtime, "oneloop")
    elif os.path.isdir(f"/run/user/{user}/oneloop"):
        return f"/run/user/{user}/oneloop"
    return os.path.join(tempfile.gettempdir(), f"oneloop-{user}")


def open(path: str | None = None) -> str:  # noqa: A001 - the module's verb
    """Open the socket of this process and return its path. A second call returns the path of the first.

    Args:
        path: the path of the socket. If it is a directory, the socket in it is named `PID.sock`. None means the
            default: a directory of the user in `$XDG_RUNTIME_DIR`, or else in the temporary directory. If another
            process listens at the path already, the process id is appended to it.

    Returns:
        The absolute path of the socket.

    Raises:
        OSError: the default directory does not belong to the user, or the socket cannot be created.
    """
    if _State.path is not None:
        return _State.path
    if path is None:
        path = _own_folder()
        _sweep(path)
    path = os.path.abspath(path)
    if os.path.isdir(path):
        path = os.path.join(path, f"{os.getpid()}.sock")
    if is_in_use(path):
        path += f".{os.getpid()}"
    _bind(path)
    atexit.register(close)
    return path


def _own_folder() -> str:
    """Create the default directory, which only the user may read and write."""
    name = folder()
    with suppress(FileExistsError):
        os.mkdir(name, 0o700)
    found = os.lstat(name)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        reason = "not a directory of this user with mode 700; remove it, or give the stats socket another path"
        raise OSError(errno.EACCES, reason, name)
    return name


def _sweep(name: str) -> None:
    """Remove the sockets of processes that were killed."""
    for entry in os.listdir(name):
        number, _, kind = entry.partition(".")
        if not kind.startswith("sock"):
            continue
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            # The process may run in another container. Then it listens, and the socket is not removed.
            with suppress(FileExistsError):  # not a socket
                is_in_use(os.path.join(name, entry))
        except (ValueError, OverflowError, PermissionError):
            continue


def is_in_use(path: str, *, removes: bool = True) -> bool:
    """Return whether a process listens at a path.

    Args:
        path: the path of a socket, which need not exist.
        removes: remove the socket if its process has ended.

    Raises:
        OSError: the path is not a socket, or it cannot be accessed.
    """
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise OSError(errno.EEXIST, "the path exists and is not a socket", path)
    except FileNotFoundError:
        return False
    with closing(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)) as sock:
        # Where the process does not accept, its queue may be full.
        sock.setblocking(False)
        try:
            sock.connect(path)
        except BlockingIOError:
            return True
        except ConnectionRefusedError:
            if removes:
                # Another process may have removed it at the same time.
                with suppress(FileNotFoundError):
                    os.unlink(path)
            return False
        except FileNotFoundError:
            return False
        return True


def _bind(path: str) -> None:
    # The permissions are set before the socket appears under its name.
    temporary = f"{path}.{os.getpid()}.new"
    excess = len(os.fsencode(temporary)) - LONGEST_PATH_BYTES
    if excess > 0:
        raise OSError(errno.ENAMETOOLONG, f"the path of the stats socket is {excess} bytes too long", path)
    made = _native.SnapshotSocket(temporary, _answer)
    try:
        os.chmod(temporary, 0o600)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    _State.inode = os.stat(path).st_ino
    _State.socket, _State.path = made, path
    made.start()


def close() -> None:
    """Close the socket and remove its file. Does nothing if there is no socket."""
    socket, path = _State.socket, _State.path
    _State.socket = _State.path = None
    if socket is not None:
        socket.stop()
    if path is not None:
        with suppress(FileNotFoundError):
            # Another process may have created its own socket there.
            if os.stat(path).st_ino == _State.inode:
                os.unlink(path)
    atexit.unregister(close)


def path() -> str | None:
    """Return the path of this process's socket; None if there is no socket."""
    return _State.path


def open_as_environment_says() -> None:
    """Open the socket at the path in `ONELOOP_STATS_SOCKET`. If that fails, print a message and continue."""
    wanted = os.environ["ONELOOP_STATS_SOCKET"]
    try:
        open(None if wanted == "1" else wanted)
    except OSError as error:
        reason = f"{error.strerror}: {error.filename or wanted}"
        print(f"oneloop: the stats socket cannot be opened: {reason}", file=sys.stderr)


def _answer(fd: int) -> None:
    """Send one snapshot to a connection and close it. Called in the thread of the socket."""
    # Use the C class, because the module socket may be patched for green threads.
    with closing(_socket.socket(fileno=fd)) as sock:
        _, user, _ = _PEER.unpack(sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _PEER.size))
        if user not in (os.geteuid(), 0):
            return
        try:
            sock.settimeout(1.0)
            sock.sendall(snapshot.line())
        except OSError:
            # The reader has closed the connection, or does not read.
            return


def _before_fork() -> None:
    if _State.socket is not None:
        _State.socket.stop()


def _after_fork_in_parent() -> None:
    if _State.socket is not None:
        _State.socket.start()


def _after_fork_in_child() -> None:
    # The file belongs to the parent. The child's first loop opens a new socket if ONELOOP_STATS_SOCKET is set.
    _State.socket = _State.path = None


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
