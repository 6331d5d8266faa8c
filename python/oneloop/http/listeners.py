"""`Listener`: a listening socket, for a host and port, the path of a unix socket, a descriptor, or from systemd."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from oneloop.http import systemd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oneloop.http.options import Options

__all__ = ["ListenError", "Listener", "open_listeners"]


class ListenError(Exception):
    """The socket cannot be opened; the message has the reason."""


@dataclass(slots=True)
class Listener:
    """A listening socket.

    Attributes:
        socket: the socket, already listening.
        shown: the address for the log.
        path: the file of a unix socket that this process created, else None.
    """

    socket: socket.socket
    shown: str
    path: str | None = None
    _file: tuple[int, int] | None = None
    _owner_pid: int = field(default_factory=os.getpid)

    def close(self) -> None:
        """Close the socket. The process that created a unix socket removes its file, unless the file was replaced."""
        self.socket.close()
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
            return [[_of_path(options.uds, options.uds_mode, options.backlog)]]
        if options.fd is not None:
            return [[_of_descriptor(options.fd, options.backlog, scheme)]]
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
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ListenError(f"cannot resolve the host {host!r}: {reason}") from error
    try:
        with contextlib.ExitStack() as guards:
            for family, address in dict.fromkeys((one[0], one[4]) for one in found):
                # With port 0, the system chooses a port for the first address; the others get the same port.
                place = (address[0], port, *address[2:])
                if options.reuse_port:
                    # First bind a socket without SO_REUSEPORT. It fails if another server already uses the port.
                    guard = guards.enter_context(contextlib.closing(_bound(family, place)))
                    guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                    place = (address[0], guard.getsockname()[1], *address[2:])
                for group in made:
                    one = _bound(family, place, reuse_port=options.reuse_port)
                    one.listen(options.backlog)
                    group.append(Listener(one, _shown(one, scheme)))
                    port = one.getsockname()[1]
                    place = (address[0], port, *address[2:])
    except OSError as error:
        for listener in (one for group in made for one in group):
            listener.close()
        is_used = error.errno == errno.EADDRINUSE
        reason = "another program already listens there; choose another --port" if is_used else error.strerror
        raise ListenError(f"cannot listen on {host or '*'} port {port}: {reason}") from error
    return made


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


def _of_path(path: str, mode: int | None, backlog: int) -> Listener:
    before = None
    with contextlib.suppress(FileNotFoundError):
        before = _clear(path)
    if mode is None:
        mode = 0o666 if before is None else before
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.bind(path)
        Path(path).chmod(mode)
        made.listen(backlog)
        found = Path(path).lstat()
    except OSError as error:
        made.close()
        raise ListenError(f"cannot listen on the unix socket {path}: {error.strerror}") from error
    return Listener(made, f"unix socket {path}", path, (found.st_dev, found.st_ino))


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


def _of_descriptor(fd: int, backlog: int, scheme: str) -> Listener:
    copy = -1
    try:
        copy = os.dup(fd)
        made = socket.socket(fileno=copy)
    except OSError as error:
        if copy >= 0:
            os.close(copy)
        raise ListenError(f"--fd {fd} is not an open socket: {error.strerror}") from error
    if made.type != socket.SOCK_STREAM:
        made.close()
        raise ListenError(f"--fd {fd} is not a stream socket (TCP or unix)")
    made.setblocking(False)
    made.listen(backlog)
    return Listener(made, _shown(made, scheme))


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
