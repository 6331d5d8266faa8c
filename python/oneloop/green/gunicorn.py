"""Worker classes for gunicorn: `gunicorn -k oneloop.green.gunicorn.Worker app`.

`Worker` uses gunicorn's HTTP parser, `PyWSGIWorker` uses `oneloop.green.pywsgi`. Both patch the standard library.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
from functools import partial
from typing import Any

from gunicorn import __version__ as gunicorn_version
from gunicorn.http.wsgi import base_environ
from gunicorn.sock import ssl_context
from gunicorn.workers.base_async import AsyncWorker

from oneloop import __version__
from oneloop.green import monkey, pywsgi, socket
from oneloop.green.exceptions import GreenletExit
from oneloop.green.greenlet import spawn
from oneloop.green.hub import sleep
from oneloop.green.pool import Pool
from oneloop.green.server import StreamServer
from oneloop.green.timeout import Timeout

__all__ = ["PyWSGIWorker", "Worker"]

NOTIFY_S = 1.0


class Worker(AsyncWorker):  # type: ignore[misc] # gunicorn has no types
    """Serves each connection in a green thread; at most `--worker-connections` of them at a time."""

    def init_process(self) -> None:
        """Initialize the worker in its process."""
        monkey.patch_all()
        self.sockets: Any = [
            socket.socket(one.FAMILY, socket.SOCK_STREAM, fileno=one.sock.detach()) for one in self.sockets
        ]
        super().init_process()

    def notify(self) -> None:
        """Tell the arbiter that this worker is alive. Exit if the arbiter has gone.

        Raises:
            SystemExit: the arbiter has gone.
        """
        super().notify()
        if self.ppid != os.getppid():
            self.log.info("Parent changed, shutting down: %s", self)
            sys.exit(0)

    def timeout_ctx(self) -> Timeout:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The timeout for a connection's next request: the keep-alive time, or 0 while the worker shuts down."""
        return Timeout(self.cfg.keepalive if self.alive else 0, False)

    def run(self) -> None:
        """Serve until the arbiter stops the worker; then wait at most `--graceful-timeout` seconds for requests."""
        ssl_args = {"ssl_context": ssl_context(self.cfg)} if self.cfg.is_ssl else {}
        servers = [self.make_server(listener, ssl_args) for listener in self.sockets]
        for server in servers:
            server.start()
        while self.alive:
            self.notify()
            sleep(NOTIFY_S)
        for server in servers:
            server.close()
        end_s = time.monotonic() + self.cfg.graceful_timeout
        for server in servers:
            assert server.pool is not None
            while not server.pool.join(min(NOTIFY_S, max(end_s - time.monotonic(), 0))):
                if time.monotonic() >= end_s:
                    self.log.warning("Worker graceful timeout (pid:%s)", self.pid)
                    server.stop(timeout=0)
                    break
                self.notify()

    def make_server(self, listener: Any, ssl_args: dict[str, Any]) -> StreamServer:
        """Create the server for a listening socket."""
        pool = Pool(self.worker_connections)
        server = StreamServer(listener, partial(self.handle, listener), spawn=pool, **ssl_args)
        if self.cfg.workers > 1:
            server.max_accept = 1
        return server

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> Any:
        """Answer one request. If its green thread is killed, end without an error."""
        try:
            return super().handle_request(listener_name, req, sock, addr)
        except (GreenletExit, SystemExit):
            return False

    def handle_quit(self, sig: Any, frame: Any) -> None:
        """Handle SIGQUIT and SIGINT in a green thread, because the handler waits."""
        spawn(super().handle_quit, sig, frame)

    def handle_usr1(self, sig: Any, frame: Any) -> None:
        """Handle SIGUSR1, which reopens the logs, in a green thread, because the handler waits."""
        spawn(super().handle_usr1, sig, frame)


class _Answer:
    """The response data that gunicorn's access log reads."""

    def __init__(self, status: str, headers: Any, sent: int) -> None:
        self.status = status
        self.headers = headers
        self.sent = sent


class _Handler(pywsgi.WSGIHandler):
    """Logs as gunicorn does, and adds gunicorn's variables to the environ."""

    def log_request(self) -> None:
        status = self.status.decode("latin-1") if isinstance(self.status, bytes) else self.status
        fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.response_headers or ()]
        taken = datetime.timedelta(seconds=self.time_finish - self.time_start)
        answer = _Answer(status or "000", fields, self.body_length)
        self.server.log.access(answer, self.headers.items(), self.environ or {}, taken)

    def get_environ(self) -> Any:
        env = super().get_environ()
        env["gunicorn.sock"] = self.socket
        env["RAW_URI"] = self.path
        return env


class PyWSGIWorker(Worker):
    """Serves with `pywsgi.WSGIServer`."""

    def make_server(self, listener: Any, ssl_args: dict[str, Any]) -> StreamServer:
        environ = base_environ(self.cfg)
        environ["wsgi.multithread"] = True
        environ["SERVER_SOFTWARE"] = f"gevent/26.9 oneloop/{__version__} gunicorn/{gunicorn_version}"
        server = pywsgi.WSGIServer(
            listener,
            self.wsgi,
            spawn=Pool(self.worker_connections),
            log=self.log,
            error_log=self.log,
            handler_class=_Handler,
            environ=environ,  # pyright: ignore[reportArgumentType]
            **ssl_args,
        )
        server.keep_alive_timeout = self.cfg.keepalive
        return server
