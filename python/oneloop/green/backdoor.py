"""`BackdoorServer`: a Python console of a running program, for whoever connects."""

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
    """A console for each connection, with variables of its own.

    Nobody is asked for a password, and whoever connects may do all that the program may: listen on this machine only.
    What a console runs blocks the other green threads, unless it waits. `stop` ends the consoles.

    Args:
        listener: see `BaseServer`.
        locals: variables that each console begins with.
        banner: what it says first; None: what Python's own console says.
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
        """Talk to one who has connected, until they leave or the server stops."""
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
                # They have left.
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
        # Not a terminal's: so `input()` asks this object.
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
        """All is sent already."""

    def close(self) -> None:
        """Called by `quit()`; the connection is closed by the server."""


_terminals: dict[Any, _Terminal] = {}
"""By the green thread of the console."""


class _Divided:
    """Stands for a standard stream while there are consoles: theirs in their green threads, the program's elsewhere."""

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
