"""`WSGIServer`: serves a WSGI application over HTTP/1."""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING, Any

from oneloop import __version__
from oneloop.green import socket as _socket
from oneloop.green.event import Event
from oneloop.green.hub import get_hub
from oneloop.green.pywsgi.environ import FileWrapper, WSGISecureEnviron
from oneloop.green.pywsgi.handler import WSGIHandler
from oneloop.green.pywsgi.logs import log_of
from oneloop.green.server import StreamServer
from oneloop.green.steps import wait_here

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable

    from oneloop.green.pywsgi.reader import Reader

__all__ = ["WSGIServer"]

SWEEP_S = 1.0


class WSGIServer(StreamServer):
    """Calls a WSGI application for each request. A green thread handles the requests of a connection.

    The timeouts are attributes, in seconds; None means no limit. They are checked every second.

    Args:
        listener: see `BaseServer`.
        application: the WSGI application; None means the attribute `application`.
        backlog: see `StreamServer`.
        spawn: see `BaseServer`.
        log: the log for requests: a file, a logger, "default" for stderr, or None for no log.
        error_log: the log for errors, as in `log`; also `wsgi.errors` of the environ.
        handler_class: called for each connection with the socket, the client's address and the server.
        environ: items to add to each environ.
        ssl_args: see `StreamServer`.
    """

    handler_class: Callable[..., Any] = WSGIHandler
    application: Any = None
    environ: Any = None
    """The initial content of each environ."""
    environ_class: type[dict[str, Any]] = dict
    secure_environ_class: type[Any] = WSGISecureEnviron
    """The class that formats an environ in error reports."""
    base_env: dict[str, Any] = {  # noqa: RUF012 - gevent's name; copied
        "GATEWAY_INTERFACE": "CGI/1.1",
        # Programs that take over connections look for gevent's name here.
        "SERVER_SOFTWARE": f"gevent/26.9 oneloop/{__version__} Python/{sys.version_info[0]}.{sys.version_info[1]}",
        "SCRIPT_NAME": "",
        "wsgi.version": (1, 0),
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileWrapper,
    }

    keep_alive_timeout: float | None = 75.0
    """The maximum time that a connection waits for a request, also for the first one."""
    head_timeout: float | None = 30.0
    """The maximum time from the first byte of a head to its last."""
    body_timeout: float | None = 60.0
    """The maximum time between two pieces of a body."""
    send_timeout: float | None = 60.0
    """The maximum time until the client has received 64 KiB."""
    max_head_bytes = 65_536

    def __init__(
        self,
        listener: Any,
        application: Any = None,
        backlog: int | None = None,
        spawn: Any = "default",
        log: Any = "default",
        error_log: Any = "default",
        handler_class: Callable[..., Any] | None = None,
        environ: dict[str, Any] | None = None,
        **ssl_args: Any,
    ) -> None:
        super().__init__(listener, None, backlog, spawn, **ssl_args)
        if application is not None:
            self.application = application
        if handler_class is not None:
            self.handler_class = handler_class
        self.log = log_of(log, 20)
        self.error_log = log_of(error_log, 40)
        self.is_stopping = False
        """Connections end after their current request."""
        self._readers: set[Reader] = set()
        self._is_quiet = Event()
        self._is_quiet.set()
        self._sweeper: TimerHandle | None = None
        self.set_environ(environ)
        self.set_max_accept()

    # -- the environ ---------------------------------------------------------------------------------

    def set_environ(self, environ: dict[str, Any] | None = None) -> None:
        """Set the content of each environ, in addition to `base_env`."""
        given = self.environ if environ is None else environ
        made = self.environ_class(self.base_env)
        made["wsgi.url_scheme"] = "https" if self.ssl_enabled else "http"
        if self.ssl_enabled:
            made["HTTPS"] = "on"
        made.update(given or {})
        if made.get("wsgi.errors") is None:
            made["wsgi.errors"] = self.error_log
        self.environ = made

    def set_max_accept(self) -> None:
        """If other processes use the same socket, accept one connection at a time."""
        if self.environ.get("wsgi.multiprocess"):
            self.max_accept = 1

    def get_environ(self) -> Any:
        """Create an environ for a request."""
        return self.environ_class(self.environ)

    def init_socket(self) -> None:
        super().init_socket()
        self.address = self.socket.getsockname()
        self.update_environ()

    def update_environ(self) -> None:
        """Set the server's address and port in the environ, unless they are given.

        Difference from gevent: the server's address is not resolved to a name, because that could take long. A server
        that listens on all addresses uses the machine's host name.
        """
        address = self.address
        if isinstance(address, tuple):
            host = _socket.gethostname() if address[0] in ("", "0.0.0.0", "::") else address[0]
            self.environ.setdefault("SERVER_NAME", host)
            self.environ.setdefault("SERVER_PORT", str(address[1]))
        else:
            self.environ.setdefault("SERVER_NAME", "")
            self.environ.setdefault("SERVER_PORT", "")

    # -- connections ---------------------------------------------------------------------------------

    def handle(self, sock: Any, address: Any) -> None:
        """Handle the requests of a connection."""
        if sock.family != _socket.AF_UNIX:
            # Without this, a response in several pieces would wait for the client's delayed acknowledgement.
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        self.handler_class(sock, address, self).handle()

    def enter(self, reader: Reader) -> None:
        """Register the reader of a new handler, to check its timeouts."""
        self._readers.add(reader)
        self._is_quiet.clear()
        if self._sweeper is None:
            self._sweeper = get_hub().call_later(SWEEP_S, self._sweep)

    def leave(self, reader: Reader) -> None:
        """Remove the reader of a handler that has ended."""
        self._readers.discard(reader)
        if not self._readers:
            self._is_quiet.set()
            if self._sweeper is not None:
                self._sweeper.cancel()
                self._sweeper = None

    def _forget_parents(self) -> None:
        super()._forget_parents()
        self._readers.clear()
        self._is_quiet.set()
        # A timer of the parent's loop.
        self._sweeper = None

    def _sweep(self) -> None:
        """End the waits that have timed out."""
        self._sweeper = get_hub().call_later(SWEEP_S, self._sweep)
        now_s = monotonic()
        for reader in list(self._readers):
            deadline_s = getattr(reader, "deadline_s", None)
            if deadline_s is not None and deadline_s < now_s:
                reader.end_wait()

    # -- stopping --------------------------------------------------------------------------------------

    def start(self) -> None:
        self.is_stopping = False
        super().start()

    def close(self) -> None:
        """Stop accepting. Idle connections end now, the others after their current request."""
        self.is_stopping = True
        super().close()
        for reader in list(getattr(self, "_readers", ())):
            if getattr(reader, "is_idle", False):
                reader.end_wait()

    def stop(self, timeout: float | None = None) -> None:
        """Stop accepting, and wait for running requests.

        If the server has a pool, requests that still run after that are killed.

        Args:
            timeout: the time to wait in seconds; None means `stop_timeout`.

        Raises:
            BlockingSwitchOutError: called in a coroutine that may not block, and it would have to wait. The server does
                not accept any more.
        """
        self.close()
        if self.pool is not None:
            super().stop(timeout)
        elif not self._is_quiet.is_set():
            wait_here(self._is_quiet.wait, self.stop_timeout if timeout is None else timeout)
