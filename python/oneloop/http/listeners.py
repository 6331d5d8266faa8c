"""`Listener`: a socket to listen on, for a host and port, the path of a unix socket, a descriptor, or from systemd.

The sockets are bound at the start, which shows at once that an address is in use. They listen when the application is
ready: until then, clients are refused, so that a probe of the port tells the truth.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from oneloop.http import systemd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oneloop.http.options import Options

__all__ = ["ListenError", "Listener", "open_listeners"]

log = logging.getLogger("oneloop.error")

_Socket: TypeAlias = socket.socket

# This machine does not have the address, or the family.
_MISSING = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class ListenError(Exception):
    """The socket cannot be opened; the message has the reason."""


@dataclass(slots=True)
class Listener:
    """A bound socket.

    Attributes:
        socket: the socket. Those from systemd already listen.
        shown: the address for the log.
        path: the file of a unix socket that this process created, else None.
    """

    socket: socket.socket
    shown: str
    path: str | None = None
    _file: tuple[int, int] | None = None
    _lock: _Socket | None = None
    _owner_pid: int = field(default_factory=os.getpid)

    def listen(self, backlog: int) -> None:
        """Accept connections from now on.

        Raises:
            ListenError: another program has begun to listen on the address meanwhile.
        """
        try:
            self.socket.listen(backlog)
        except OSError as error:
            raise ListenError(f"cannot listen on {self.shown}: {_reason(error)}") from error
        self.unlock()

    def unlock(self) -> None:
        """Let others use the path of a unix socket, if nothing listens there."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def close(self) -> None:
        """Close the socket. The process that created a unix socket removes its file, unless the file was replaced."""
        self.socket.close()
        self.unlock()
        if self.path is None or self._owner_pid != os.getpid():
            return
        with contextlib.suppress(FileNotFoundError):
            found = Path(self.path).lstat()
            if (found.st_dev, found.st_ino) == self._file:
                Path(self.path).unlink()


def open_listeners(options: Options, groups: int = 1) -> list[list[Listener]]:
    """Open the sockets that the options specify.

    Args:
        options: what to listen on.
        groups: with `reuse_port`, the number of sockets per address: one for each worker.

    Returns:
        The listeners of each group. Without `reuse_port` there is one group, which all workers share.

    Raises:
        ListenError: an address is in use, not permitted or not available.
    """
    scheme = "https" if options.ssl_certfile is not None else "http"
    try:
        if options.uds is not None:
            return [[_of_path(options.uds, options.uds_mode)]]
        if options.fd is not None:
            return [[_of_descriptor(options.fd, scheme)]]
        passed = [Listener(one, _shown(one, scheme)) for _, one in systemd.inherited_sockets()]
    except (OSError, ValueError) as error:
        raise ListenError(str(error)) from error
    if passed:
        for listener in passed:
            listener.socket.setblocking(False)
        return [passed]
    return _of_address(options, groups if options.reuse_port else 1, scheme)


def _of_address(options: Options, groups: int, scheme: str) -> list[list[Listener]]:
    host, port = options.host, options.port
    made: list[list[Listener]] = [[] for _ in range(groups)]
    missing: OSError | None = None
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ListenError(f"cannot resolve the host {host!r}: {_reason(error)}") from error
    try:
        for family, address in dict.fromkeys((one[0], one[4]) for one in found):
            try:
                # With port 0, the system chooses a port for the first address; the others get the same port.
                port = _bind(family, (address[0], port, *address[2:]), made, scheme, reuse_port=options.reuse_port)
            except OSError as error:
                if error.errno not in _MISSING:
                    raise
                # Another address of the host may do: a machine without IPv6 may know `::1` as `localhost`.
                log.info("Not listening on %s: %s", address[0], _reason(error))
                missing = missing or error
        if missing is not None and not made[0]:
            raise missing
    except OSError as error:
        for listener in (one for group in made for one in group):
            listener.close()
        hint = "; choose another --port" if error.errno == errno.EADDRINUSE else ""
        raise ListenError(f"cannot listen on {host or '*'} port {port}: {_reason(error)}{hint}") from error
    return made


def _bind(family: int, place: tuple[object, ...], made: list[list[Listener]], scheme: str, *, reuse_port: bool) -> int:
    """Give each group a listener at this address, all with the same port, and return that."""
    port = 0
    with contextlib.ExitStack() as guards:
        if reuse_port:
            # First bind a socket without SO_REUSEPORT. It fails if another server already uses the port.
            guard = guards.enter_context(contextlib.closing(_bound(family, place)))
            guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            place = (place[0], guard.getsockname()[1], *place[2:])
        for group in made:
            one = _bound(family, place, reuse_port=reuse_port)
            group.append(Listener(one, _shown(one, scheme)))
            port = one.getsockname()[1]
            place = (place[0], port, *place[2:])
    return port


def _bound(family: int, address: tuple[object, ...], *, reuse_port: bool = False) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            # IPv4 addresses of the same host get separate sockets.
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _reason(error: Exception) -> str:
    """Return why the system has refused; not every OSError has an errno."""
    if getattr(error, "errno", None) == errno.EADDRINUSE:
        return "another program already listens there"
    return getattr(error, "strerror", None) or str(error)


def _of_path(path: str, mode: int | None) -> Listener:
    # The application can change the current directory before the file is removed.
    absolute = os.path.abspath(path)  # noqa: PTH100 - must not resolve links
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    lock = None
    try:
        lock = _locked(absolute)
        before = None
        with contextlib.suppress(FileNotFoundError):
            before = _clear(path)
        made.setblocking(False)
        made.bind(path)
        Path(path).chmod((0o666 if before is None else before) if mode is None else mode)
        found = Path(path).lstat()
    except (OSError, ListenError) as error:
        for one in filter(None, (made, lock)):
            one.close()
        if isinstance(error, ListenError):
            raise
        raise ListenError(f"cannot listen on the unix socket {path}: {_reason(error)}") from error
    return Listener(made, f"unix socket {path}", absolute, (found.st_dev, found.st_ino), lock)


def _locked(path: str) -> socket.socket:
    """Reserve a path until its socket listens. Otherwise another starting server would take the file for a stale one.

    The lock is the name of an abstract socket, which ends with its process.
    """
    import hashlib

    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind("\0oneloop-serve-" + hashlib.sha256(os.fsencode(path)).hexdigest())
    except OSError:
        lock.close()
        raise
    return lock


def _clear(path: str) -> int:
    """Remove a stale socket file. Return its permissions, which the new socket gets."""
    found = Path(path).lstat()
    if not stat.S_ISSOCK(found.st_mode):
        raise ListenError(f"{path} exists and is not a socket: remove it, or choose another path for --uds")
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
            return stat.S_IMODE(found.st_mode)
        except BlockingIOError:
            # The backlog is full, so a process is listening.
            pass
    raise ListenError(f"cannot listen on the unix socket {path}: another program already listens there")


def _of_descriptor(fd: int, scheme: str) -> Listener:
    copy = -1
    try:
        copy = os.dup(fd)
        made = socket.socket(fileno=copy)
    except OSError as error:
        if copy >= 0:
            os.close(copy)
        raise ListenError(f"--fd {fd} is not an open socket: {_reason(error)}") from error
    if made.type != socket.SOCK_STREAM:
        made.close()
        raise ListenError(f"--fd {fd} is not a stream socket (TCP or unix)")
    if _is_connected(made):
        made.close()
        raise ListenError(f"--fd {fd} is a connection: pass a bound socket, on which the server can listen")
    made.setblocking(False)
    return Listener(made, _shown(made, scheme))


def _is_connected(made: socket.socket) -> bool:
    try:
        made.getpeername()
    except OSError:
        return False
    return True


def _shown(made: socket.socket, scheme: str) -> str:
    address = made.getsockname()
    if made.family == socket.AF_INET6:
        return f"{scheme}://[{address[0]}]:{address[1]}"
    if made.family == socket.AF_INET:
        return f"{scheme}://{address[0]}:{address[1]}"
    return f"unix socket {os.fsdecode(address)}"


def all_of(groups: list[list[Listener]]) -> Iterator[Listener]:
    """Iterate over the listeners of all groups."""
    for group in groups:
        yield from group
