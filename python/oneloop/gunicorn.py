"""Worker classes for gunicorn: `gunicorn -k oneloop.gunicorn.Worker module:app`, for ASGI and for WSGI applications.

gunicorn's arbiter owns the sockets and handles the signals; each worker serves with `oneloop.http`. `Worker` runs WSGI
requests in `--threads` threads. `GreenWorker` runs them in green threads and patches the standard library. gunicorn's
settings for limits, timeouts, TLS, proxies and logs apply. Without `--access-logformat`, access lines have uvicorn's
format.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
import sys
import traceback
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.workers import base

from oneloop.http import logs
from oneloop.http.application import LoadError, load
from oneloop.http.lifespan import LifespanError
from oneloop.http.listeners import Listener
from oneloop.http.logs import status_text
from oneloop.http.options import MOST_HEADERS, Options
from oneloop.http.process import ignore_signals
from oneloop.http.server import Ending, Server
from oneloop.loop import Loop

if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

    from oneloop.http.access import Client, Headers
    from oneloop.http.application import Application
    from oneloop.http.given import Given

__all__ = ["GreenWorker", "Worker"]

NOTIFY_S = 1.0

log = logging.getLogger("oneloop.error")


class Access:
    """Passes responses to gunicorn's logger, which writes lines in the format of `--access-logformat`.

    The fields of the response, `%({name}o)s`, are not known here and become `-`.

    Args:
        logger: gunicorn's logger.
    """

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def __call__(
        self,
        client: Client,
        method: str,
        target: bytes,
        http_version: str,
        status: int,
        body_bytes: int,
        duration_s: float,
        request_headers: Headers,
        is_complete: bool = True,
    ) -> None:
        """Log a response. The arguments are those of an `AccessLog`."""
        path, _, query = target.decode("latin-1").partition("?")
        fields = [(name.decode("latin-1").upper(), value.decode("latin-1")) for name, value in request_headers]
        environ = {
            "REQUEST_METHOD": method or "-",
            "RAW_URI": target.decode("latin-1") or "-",
            "PATH_INFO": unquote(path, "latin-1"),
            "QUERY_STRING": query,
            "SERVER_PROTOCOL": f"HTTP/{http_version}" if http_version else "-",
        }
        if isinstance(client, tuple):
            environ["REMOTE_ADDR"] = client[0]
            if client[1] is not None:
                environ["REMOTE_PORT"] = str(client[1])
        environ |= {"HTTP_" + name.replace("-", "_"): value for name, value in fields}
        response = SimpleNamespace(status=status_text(status), headers=[], sent=body_bytes)
        request = SimpleNamespace(headers=fields)
        took = timedelta(seconds=duration_s)
        self._logger.access(response, request, environ, took)  # pyright: ignore[reportArgumentType]


class Worker(base.Worker):  # type: ignore[misc] # gunicorn has no types
    """Serve ASGI applications on the event loop, and WSGI applications in threads."""

    def init_signals(self) -> None:
        """Reset signal handlers, because the loop sets its own. Keep SIGUSR1 (reopen the logs) and SIGABRT."""
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGUSR1, self.handle_usr1)
        signal.siginterrupt(signal.SIGUSR1, False)
        signal.signal(signal.SIGABRT, self.handle_abort)

    def handle_abort(self, sig: int, frame: FrameType | None) -> NoReturn:
        """Exit immediately: the loop has not run within `--timeout`.

        `os._exit` is used because application code could catch a SystemExit.
        """
        try:
            super().handle_abort(sig, frame)
        except SystemExit:
            self.log.error("Worker %s was stuck here:\n%s", self.pid, "".join(traceback.format_stack(frame)))
        finally:
            os._exit(1)

    def run(self) -> None:
        """Serve until the arbiter sends a signal to stop.

        Raises:
            SystemExit: the application cannot be served; the reason was logged.
        """
        self._take_logs()
        try:
            app = load(self.wsgi)
            with asyncio.Runner(loop_factory=Loop) as runner:
                runner.run(self._serve(app))
        except (LoadError, LifespanError, OSError, ssl.SSLError, ValueError) as error:
            log.error("The application cannot be served: %s", error)
            sys.exit(Arbiter.WORKER_BOOT_ERROR)

    def _take_logs(self) -> None:
        logging.addLevelName(logs.TRACE, "TRACE")
        for name, theirs in (("oneloop.error", self.log.error_log), ("oneloop.access", self.log.access_log)):
            logger = logging.getLogger(name)
            logger.handlers = theirs.handlers
            logger.setLevel(theirs.level)
            logger.propagate = False

    def _formats_access(self) -> bool:
        """Return True if gunicorn's logger has to make the access lines: it has a format, or is not the usual one."""
        setting = self.cfg.settings["access_log_format"]
        is_usual = type(self.log).access is Logger.access and type(self.log).atoms is Logger.atoms
        return setting.get() != setting.default or not is_usual

    def options(self) -> Options:
        """Return the server's options that correspond to gunicorn's settings."""
        cfg = self.cfg
        given: Given = {
            "timeout_keep_alive": float(cfg.keepalive),
            "timeout_graceful_shutdown": float(cfg.graceful_timeout),
            "forwarded_allow_ips": cfg.forwarded_allow_ips,
            "backlog": max(cfg.backlog, 1),
            "threads": max(cfg.threads, 1),
            # 0 means "no limit" in gunicorn.
            "max_headers": min(cfg.limit_request_fields or MOST_HEADERS, MOST_HEADERS),
            "access_log": bool(self.log.access_log.handlers) or self._formats_access(),
            "proxy_protocol": str(cfg.proxy_protocol) not in ("False", "off"),
        }
        if given["proxy_protocol"]:
            # gunicorn takes the header of every peer on a Unix socket.
            given["proxy_allow_ips"] = [*map(str, cfg.proxy_allow_ips), "unix"]
        if cfg.limit_request_line:
            given["max_line_size"] = max(cfg.limit_request_line, 16)
        if cfg.max_requests:
            given["limit_max_requests"] = self.max_requests
        if cfg.workers > 1:
            given["workers"] = cfg.workers
        root_path = cfg.env.get("SCRIPT_NAME") or os.environ.get("SCRIPT_NAME")
        if root_path:
            given["root_path"] = root_path
        if cfg.is_ssl:
            given["ssl_certfile"] = cfg.certfile
            given["ssl_keyfile"] = cfg.keyfile
            given["ssl_ca_certs"] = cfg.ca_certs
            given["ssl_cert_reqs"] = int(cfg.cert_reqs)
            given["ssl_ciphers"] = cfg.ciphers
        return Options.from_given(given)

    async def _serve(self, app: Application) -> None:
        loop = asyncio.get_running_loop()
        listeners = [Listener(getattr(one, "sock", one), str(one)) for one in self.sockets]
        server: Server
        server = Server(
            app,
            self.options(),
            listeners,
            logs_records=True,
            log_response=Access(self.log) if self._formats_access() else None,
            on_limit=lambda why: self._end_at_limit(server, why),
        )
        loop.add_signal_handler(signal.SIGTERM, self._end, server, Ending.FINISH)
        for number in (signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, self._end_at_once, server)
        ticking = loop.create_task(self._tick(server))
        try:
            await server.run(lambda: None)
        finally:
            ticking.cancel()
            # Signals come again: a supervisor's to the group of processes, and then the arbiter's.
            ignore_signals(loop, (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT))

    async def _tick(self, server: Server) -> None:
        """Notify the arbiter regularly. End if the arbiter has died, or if `--reload` has detected a change."""
        while True:
            self.notify()
            if self.ppid != os.getppid():
                self.log.info("Parent changed, shutting down: %s", self)
                server.end(Ending.LAST)
                self.ppid: int = os.getppid()
            if not self.alive:
                server.end(Ending.FINISH)
            await asyncio.sleep(min(NOTIFY_S, self.timeout / 2) if self.timeout else NOTIFY_S)

    def _end(self, server: Server, ending: Ending) -> None:
        self.alive = False
        server.end(ending)

    def _end_at_once(self, server: Server) -> None:
        self.cfg.worker_int(self)
        self._end(server, Ending.NOW)

    def _end_at_limit(self, server: Server, why: str) -> None:
        self.log.info("Worker %s is stopping: %s.", self.pid, why)
        self._end(server, Ending.FINISH)


class GreenWorker(Worker):
    """Serve WSGI applications in green threads: a blocking call blocks only its own green thread."""

    def init_process(self) -> None:
        """Patch the standard library, before the application is imported."""
        # Do this first: the arbiter's handlers are still set and would swallow signals sent to this worker.
        self.init_signals()
        from oneloop.green import monkey

        monkey.patch_all()
        super().init_process()
