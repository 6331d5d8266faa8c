"""Worker classes for gunicorn: `gunicorn -k oneloop.gunicorn.Worker module:app`, for ASGI and for WSGI applications.

The arbiter owns the sockets and counts signals; each worker serves with `oneloop.http`. `Worker` runs WSGI requests in
`--threads` threads, `GreenWorker` in green threads, with the standard library patched. What gunicorn is told counts:
its settings of limits, timeouts, TLS, proxies and logs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
import sys
import traceback
from typing import TYPE_CHECKING

from gunicorn.arbiter import Arbiter
from gunicorn.workers import base

from oneloop.http import logs
from oneloop.http.application import LoadError, load
from oneloop.http.lifespan import LifespanError
from oneloop.http.listeners import Listener
from oneloop.http.options import MOST_HEADERS, Given, Options
from oneloop.http.server import Ending, Server
from oneloop.loop import Loop

if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

    from oneloop.http.application import Application

__all__ = ["GreenWorker", "Worker"]

NOTIFY_S = 1.0

log = logging.getLogger("oneloop.error")


class Worker(base.Worker):  # type: ignore[misc] # gunicorn has no types
    """Serves ASGI applications as they are, and WSGI applications in threads."""

    def init_signals(self) -> None:
        """Leave signals to the loop, but for the one that opens the logs again."""
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGUSR1, self.handle_usr1)
        signal.siginterrupt(signal.SIGUSR1, False)
        signal.signal(signal.SIGABRT, self.handle_abort)

    def handle_abort(self, sig: int, frame: FrameType | None) -> NoReturn:
        """End at once, for the loop has not run within `--timeout`; SystemExit would be the application's."""
        try:
            super().handle_abort(sig, frame)
        except SystemExit:
            self.log.error("Worker %s was stuck here:\n%s", self.pid, "".join(traceback.format_stack(frame)))
        finally:
            os._exit(1)

    def run(self) -> None:
        """Serve until the arbiter asks for the end.

        Raises:
            SystemExit: the application cannot be served.
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

    def options(self) -> Options:
        """What gunicorn's settings mean for the server."""
        cfg = self.cfg
        given: Given = {
            "timeout_keep_alive": float(cfg.keepalive),
            "timeout_graceful_shutdown": float(cfg.graceful_timeout),
            "forwarded_allow_ips": cfg.forwarded_allow_ips,
            "backlog": max(cfg.backlog, 1),
            "threads": max(cfg.threads, 1),
            # 0 is gunicorn's word for as many as can be.
            "max_headers": min(cfg.limit_request_fields or MOST_HEADERS, MOST_HEADERS),
            "access_log": bool(self.log.access_log.handlers),
            "proxy_protocol": str(cfg.proxy_protocol) not in ("False", "off"),
        }
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
            app, self.options(), listeners, logs_records=True, on_limit=lambda why: self._end_at_limit(server, why)
        )
        loop.add_signal_handler(signal.SIGTERM, self._end, server, Ending.FINISH)
        for number in (signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, self._end_at_once, server)
        ticking = loop.create_task(self._tick(server))
        try:
            await server.run(lambda: None)
        finally:
            ticking.cancel()

    async def _tick(self, server: Server) -> None:
        """Tell the arbiter that this worker lives; end if the arbiter does not, or if `--reload` has seen a change."""
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
        self.log.info("Worker %s ends: %s.", self.pid, why)
        self._end(server, Ending.FINISH)


class GreenWorker(Worker):
    """Serves WSGI applications in green threads: what blocks in one lets the others go on."""

    def init_process(self) -> None:
        """Patch the standard library, before the application is imported."""
        # Until then the arbiter's handlers are in force, which would swallow what is meant for this worker.
        self.init_signals()
        from oneloop.green import monkey

        monkey.patch_all()
        super().init_process()
