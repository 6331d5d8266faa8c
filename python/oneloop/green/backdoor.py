"""`BackdoorServer`: a Python console in a running program, for each client that connects."""

from __future__ import annotations

import builtins
import sys
from code import InteractiveConsole
from typing import Any

from greenlet import getcurrent

from oneloop.green import socket as _socket
from oneloop.green.pool import Pool
from oneloop.green.server import StreamServer

__all__ = ["BackdoorServer"]


class BackdoorServer(StreamServer):
    """A console for each connection, with separate variables.

    There is no authentication, and a client can do everything that the program can do: listen only on the local
    machine. Code in a console blocks the other green threads unless it waits. `stop` ends the consoles.

    Args:
        listener: see `BaseServer`.
        locals: the initial variables of each console.
        banner: the text at the start of a session; None means that of Python's console.
        server_args: see `StreamServer`.
    """

    def __init__(
        self,
        listener: Any,
        locals: dict[str, Any] | None = None,  # noqa: A002 - gevent's name
        banner: str | None = None,
        **server_args: Any,
    ) -> None:
        super().__init__(listener, spawn=Pool(), **server_args)
        self.locals = {"__doc__": None, "__name__": "__console__", **(locals or {})}
        self.banner = banner

    def handle(self, conn: Any, _: Any) -> None:
        """Serve one client until it disconnects or the server stops."""
        if conn.family != _socket.AF_UNIX:
            conn.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        console = InteractiveConsole({**self.locals, "builtins": builtins, "__builtins__": builtins})
        with conn.makefile("r", encoding="utf-8", errors="replace") as lines:
            terminal = _Terminal(conn, lines)
            _enter(terminal)
            try:
                console.interact(banner=self.banner, exitmsg="")
            except SystemExit:
                # quit() ends the console, not the program.
                return
            except OSError:
                # The client has disconnected.
                return
            finally:
                _leave()


class _Terminal:
    """Standard input, output and error of a console."""

    encoding = "utf-8"
    errors = "replace"
    closed = False

    def __init__(self, conn: Any, lines: Any) -> None:
        self._conn = conn
        self._lines = lines

    def fileno(self) -> int:
        # Not a terminal's descriptor, so that `input()` uses this object.
        number: int = self._conn.fileno()
        return number

    def isatty(self) -> bool:
        return False

    def readline(self, size: int = -1) -> str:
        line: str = self._lines.readline(size)
        return line

    def write(self, text: str) -> int:
        self._conn.sendall(text.encode("utf-8", "replace"))
        return len(text)

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        """Do nothing: writes are sent immediately."""

    def close(self) -> None:
        """Do nothing. `quit()` calls this; the server closes the connection."""


_terminals: dict[Any, _Terminal] = {}
"""The consoles by their green threads."""


class _Divided:
    """Replaces a standard stream while consoles exist: consoles use their own stream, other code the program's."""

    def __init__(self, stream: Any) -> None:
        self.program_stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(_terminals.get(getcurrent(), self.program_stream), name)


def _enter(terminal: _Terminal) -> None:
    _terminals[getcurrent()] = terminal
    for name in ("stdin", "stdout", "stderr"):
        if not isinstance(getattr(sys, name), _Divided):
            setattr(sys, name, _Divided(getattr(sys, name)))


def _leave() -> None:
    _terminals.pop(getcurrent(), None)
    if _terminals:
        return
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, _Divided):
            setattr(sys, name, stream.program_stream)
