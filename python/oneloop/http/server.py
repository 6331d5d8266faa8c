"""`Server`: the server of one process: the application's lifespan, the listening sockets, limits, and the shutdown.

The connections are native (`oneloop._native.HttpServer`). Nothing here runs per request.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from oneloop import _native
from oneloop.http.access import AccessLog
from oneloop.http.certificates import Certificates
from oneloop.http.compression import settings as compression_settings
from oneloop.http.lifespan import Lifespan
from oneloop.http.listeners import ListenError
from oneloop.http.measures import Measures, read_memory_bytes
from oneloop.http.routes import with_routes
from oneloop.http.static import settings as static_settings
from oneloop.waiting import to_its_end, wait

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from oneloop.http.application import Application
    from oneloop.http.listeners import Listener
    from oneloop.http.options import Options

__all__ = ["Ending", "Server"]

log = logging.getLogger("oneloop.error")

# Interval between two checks of the process's memory.
MEMORY_INTERVAL_S = 1.0
LONGEST_MEMORY_INTERVAL_S = 60.0
# The longest interval between two checks whether connections have ended.
LONGEST_LOOK_S = 0.1
# How long a connection from the backlog may take for its TLS handshake when the server stops.
UNBEGUN_S = 1.0
# Replaces a keep-alive timeout of zero.
SHORTEST_S = 0.001


class Ending(enum.IntEnum):
    """How a server ends. A higher value replaces a lower one."""

    FINISH = 1
    """Finish running requests. Other processes continue to accept from the listening sockets."""
    LAST = 2
    """Finish running requests, and those of connections that are still in the backlog."""
    NOW = 3
    """Cancel everything."""


class Server:
    """Serves one application on one loop.

    Args:
        app: the application.
        options: the options.
        listeners: the bound sockets; they are closed when the server ends.
        logs_records: send access lines through `logging`.
        log_response: writes the access log instead, with the arguments of an `AccessLog`.
        measures: this process's counters, for `--metrics`.
        on_limit: called with the reason when a limit is reached and this process should be replaced. None: the
            server stops then.
    """

    def __init__(
        self,
        app: Application,
        options: Options,
        listeners: Sequence[Listener],
        *,
        logs_records: bool = False,
        log_response: Callable[..., None] | None = None,
        measures: Measures | None = None,
        on_limit: Callable[[str], None] | None = None,
    ) -> None:
        self._app = app
        self._options = options
        self._listeners = listeners
        self._logs_records = logs_records
        self._log_response = log_response
        self._measures = measures
        self._on_limit = on_limit
        self._loop = asyncio.get_running_loop()
        self._ending: Ending | None = None
        self._asked = asyncio.Event()
        self._forced = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._access: AccessLog | None = None
        self._certificates: Certificates | None = None
        mode = options.lifespan if app.interface == "asgi" else "off"
        self._lifespan = Lifespan(app.call, mode)
        self._http: _native.HttpServer | None = None
        self._has_unfinished = False

    @property
    def has_unfinished(self) -> bool:
        """True if requests were cancelled at the end; threads may still work for them."""
        return self._has_unfinished

    def end(self, ending: Ending = Ending.LAST) -> None:
        """Stop the server. Call it in the loop's thread only."""
        if self._ending is None or ending > self._ending:
            self._ending = ending
        self._asked.set()
        if ending is Ending.NOW:
            self._forced.set()

    def reload_certificates(self) -> None:
        """Read the certificates again. Open connections are not affected."""
        if self._certificates is not None:
            self._certificates.reload()

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until `end` is called.

        Args:
            on_ready: called when the server accepts connections.

        Raises:
            LifespanError: the application's startup failed.
            ListenError: the address was taken while the application started.
            OSError, ssl.SSLError, ValueError: the certificates cannot be used.
        """
        try:
            if self._options.ssl_certfile is not None:
                self._certificates = Certificates(self._options)
            if not await self._unless_forced(self._lifespan.start()):
                log.warning("Exiting immediately: the application's startup was cancelled.")
                return
            try:
                await self._listen()
                on_ready()
                await self._asked.wait()
            except ListenError:
                self.end(Ending.FINISH)
                raise
            except BaseException:
                # Cancelled by the calling program: end immediately.
                self.end(Ending.NOW)
                raise
            finally:
                await self._finish_all()
        finally:
            for listener in self._listeners:
                listener.close()

    async def _listen(self) -> None:
        options = self._options
        if options.access_log and self._log_response is None:
            self._access = self._made_access_log()
        app: Any = with_routes(self._app.call, self._app.interface, options, self._metrics_text)
        http = self._http = _native.HttpServer(self._loop, app, interface=self._app.interface, **self._settings())
        secured = self._secured()
        for listener in self._listeners:
            listener.listen(options.backlog)
            self._servers.append(
                await self._loop.create_server(http, sock=listener.socket, backlog=options.backlog, **secured)
            )
        if options.limit_memory is not None:
            self._limit_memory(options.limit_memory)
        if self._measures is not None:
            self._keep_publishing()

    def _made_access_log(self) -> AccessLog | None:
        if sys.__stdout__ is None and not self._logs_records:
            # Descriptor 1 is a file or a connection of the program then.
            log.warning("There is no access log: standard output was closed when the program began.")
            return None
        return AccessLog(
            self._loop,
            form=self._options.access_log_format,
            use_colors=self._options.use_colors,
            through_logging=self._logs_records,
        )

    def _secured(self) -> dict[str, Any]:
        """Return the TLS arguments for the loop. With PROXY protocol there are none: TLS begins after its header."""
        if self._certificates is None or self._options.proxy_protocol:
            return {}
        # The handshake has the same time limit as a request's head.
        return {"ssl": self._certificates.context, "ssl_handshake_timeout": self._options.timeout_header or None}

    def _settings(self) -> dict[str, Any]:
        """Return the options of `HttpServer`; a timeout of None means no limit."""
        options = self._options
        fields = [(name.lower().encode("latin-1"), value.strip().encode("latin-1")) for name, value in options.headers]
        if options.server_header and not any(name == b"server" for name, _ in fields):
            fields.insert(0, (b"server", b"oneloop"))
        settings: dict[str, Any] = {
            "root_path": options.root_path,
            "headers": fields,
            "date_header": options.date_header and not any(name == b"date" for name, _ in fields),
            "keep_alive_timeout_s": max(options.timeout_keep_alive, SHORTEST_S),
            "header_timeout_s": options.timeout_header or None,
            "body_timeout_s": options.timeout_body or None,
            "send_timeout_s": options.timeout_send or None,
            "max_line_bytes": options.max_line_size,
            "max_header_bytes": options.max_header_size,
            "max_headers": options.max_headers,
            "max_body_bytes": options.max_body_size,
            "http": options.http,
            "http2_streams": options.http2_streams,
            "http2_stream_window": options.http2_stream_window,
            "http2_connection_window": options.http2_connection_window,
            "http2_frame_bytes": options.http2_frame_size,
            "limit_concurrency": options.limit_concurrency,
            "trust": options.trust(),
            "on_response": self._response_callback(),
            "on_request_end": self._limit_callback(),
            "ws_max_size": options.ws_max_size,
            "ws_ping_interval_s": options.ws_ping_interval or None,
            "ws_ping_timeout_s": options.ws_ping_timeout or None,
            "ws_per_message_deflate": options.ws_per_message_deflate,
        }
        if self._app.interface == "asgi":
            settings["state"] = self._lifespan.state
        else:
            settings |= {
                "green": options.green or _is_patched(),
                "threads": options.threads,
                "multiprocess": options.worker_count > 1,
            }
        if options.static:
            reserved = [path for path in (options.metrics, options.health) if path is not None]
            settings["static"] = static_settings(options.static, reserved)
        if options.compress:
            settings["compress"] = compression_settings()
        settings["health"] = options.health
        settings["redirect_https"] = options.redirect_https
        if options.proxy_protocol:
            settings["proxy_protocol"] = True
            proxies = options.proxies()
            settings["proxies"] = None if proxies.is_everybody else proxies
            if self._certificates is not None:
                settings["tls_behind_proxy"] = self._certificates.context
        return settings

    def _response_callback(self) -> Callable[..., None] | None:
        access = self._log_response if self._options.access_log else None
        access = access or self._access
        if access is not None and self._options.health is not None:
            # What is logged is the request's own path, without the root path.
            asked = self._options.health.removeprefix(self._options.root_path)
            access = _without(asked.encode(), access)
        measures = self._measures
        if measures is None:
            return access
        if access is None:
            return measures.add

        def both(*response: Any) -> None:
            measures.add(*response)
            access(*response)

        return both

    # -- limits ---------------------------------------------------------------------------------------

    def _limit_callback(self) -> Callable[[int], None] | None:
        limit = self._options.limit_max_requests
        if limit is None:
            return None
        # After so many requests more, ask again: the successor may have failed to start.
        step = max(limit // 10, 1)
        # Random, so that workers that were started together do not end together.
        next_at = limit + int.from_bytes(os.urandom(8), "big") % (self._options.limit_max_requests_jitter + 1)

        def count(total: int) -> None:
            nonlocal next_at
            if total >= next_at:
                next_at = total + step
                self._reached(f"it has served {total} requests (--limit-max-requests)")

        return count

    def _limit_memory(self, limit_bytes: int) -> None:
        """Start to check the memory. If the application needs more from the start, a new process would not help."""
        used_bytes = read_memory_bytes()
        if used_bytes > limit_bytes:
            log.warning(
                "--limit-memory %d is less than this process needs after its start, %d bytes: it is replaced when it"
                " uses twice as much as now. Set a higher limit.",
                limit_bytes,
                used_bytes,
            )
            limit_bytes = 2 * used_bytes
        self._plan_look_at_memory(limit_bytes, MEMORY_INTERVAL_S)

    def _plan_look_at_memory(self, limit_bytes: int, interval_s: float) -> None:
        self._timers["memory"] = self._loop.call_later(interval_s, self._look_at_memory, limit_bytes, interval_s)

    def _look_at_memory(self, limit_bytes: int, interval_s: float) -> None:
        used_bytes = read_memory_bytes()
        if used_bytes <= limit_bytes:
            self._plan_look_at_memory(limit_bytes, MEMORY_INTERVAL_S)
            return
        self._reached(f"it uses {used_bytes} bytes of memory (--limit-memory {limit_bytes})")
        # Ask again later each time: the successor may have failed to start.
        self._plan_look_at_memory(limit_bytes, min(interval_s * 2, LONGEST_MEMORY_INTERVAL_S))

    def _reached(self, why: str) -> None:
        if self._on_limit is not None:
            self._on_limit(why)
        elif self._ending is None:
            log.info("This process is stopping: %s.", why)
            self.end(Ending.LAST)

    # -- metrics --------------------------------------------------------------------------------------

    def _publish(self) -> Measures:
        measures, http = self._measures, self._http
        assert measures is not None
        assert http is not None
        measures.publish(self._loop, http.requests, http.connections, http.websocket_bytes)
        return measures

    def _keep_publishing(self) -> None:
        measures = self._publish()
        self._timers["measures"] = self._loop.call_later(measures.INTERVAL_S, self._keep_publishing)

    def _metrics_text(self) -> str:
        return self._publish().text()

    # -- stopping -------------------------------------------------------------------------------------

    async def _finish_all(self) -> None:
        """Finish. A cancellation meanwhile ends what is waited for, and nothing else of it."""
        finishing = self._loop.create_task(self._finish())
        try:
            await to_its_end(finishing, lambda _: self.end(Ending.NOW))
        except asyncio.CancelledError:
            if not finishing.cancelled() and (error := finishing.exception()) is not None:
                log.error("The server did not end properly", exc_info=error)
            raise

    async def _finish(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        if self._ending is Ending.LAST:
            await self._accept_waiting()
        for server in self._servers:
            server.close()
        http = self._http
        if http is not None:
            http.shut_down()
            if not await self._is_drained(http):
                self._has_unfinished = True
                http.cancel()
                await asyncio.sleep(0)
                http.abort()
                await asyncio.sleep(0)
            # A stuck request keeps its thread. If requests were cancelled, do not wait for the threads.
            threads = http.end_threads()
            if threads and not self._has_unfinished:
                await self._loop.run_in_executor(None, lambda: [thread.join() for thread in threads])
            if self._measures is not None:
                self._measures.publish(self._loop, 0, 0, http.websocket_bytes)
        await self._end_lifespan()
        if self._access is not None:
            self._access.close()

    async def _end_lifespan(self) -> None:
        if self._ending is Ending.NOW:
            self._lifespan.abandon()
        elif not await self._unless_forced(self._lifespan.stop()):
            log.warning("Exiting immediately: the application's shutdown was cancelled.")
        await self._lifespan.stop()

    async def _unless_forced(self, step: Coroutine[Any, Any, None]) -> bool:
        """Await a step of the application's lifespan. Return False if a second signal has cancelled it."""
        doing = self._loop.create_task(step)
        forced = self._loop.create_task(self._forced.wait())
        try:
            await wait([doing, forced], return_when=asyncio.FIRST_COMPLETED)
        finally:
            forced.cancel()
            if is_cut_off := not doing.done():
                doing.cancel()
                self._lifespan.abandon()
        if not is_cut_off:
            doing.result()
        return not is_cut_off

    async def _accept_waiting(self) -> None:
        """Accept the connections in the backlog, because closing the listening socket would reset them."""
        http = self._http
        if http is None:
            return
        secured = self._secured()
        taken = []
        for listener in self._listeners:
            # BlockingIOError: the backlog is empty.
            with contextlib.suppress(OSError):
                while True:
                    made, _ = listener.socket.accept()
                    made.setblocking(False)
                    taken.append(self._loop.create_task(self._loop.connect_accepted_socket(http, made, **secured)))
        if taken:
            # With TLS, those that have not begun: like a connection without a request.
            done, late = await wait(taken, timeout=UNBEGUN_S)
            for task in late:
                task.cancel()
            for task in done:
                if not task.cancelled() and task.exception() is not None:
                    log.debug("A connection failed before its first request", exc_info=task.exception())

    async def _is_drained(self, http: _native.HttpServer) -> bool:
        """Wait for connections and requests to end. Return True if all ended in time, without a second signal."""
        timeout_s = self._options.timeout_graceful_shutdown
        end_s = None if timeout_s is None else self._loop.time() + timeout_s
        look_s = 0.005
        is_told = False
        while http.connections or http.requests:
            if self._forced.is_set():
                log.warning("Exiting immediately: cancelling %d request(s).", http.requests)
                return False
            if end_s is not None and self._loop.time() >= end_s:
                log.error("Cancel %d running task(s), timeout graceful shutdown exceeded", http.requests)
                return False
            if http.requests and not is_told and look_s >= LONGEST_LOOK_S:
                is_told = True
                log.info("Waiting for %d request(s) to end. (CTRL+C to force quit)", http.requests)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._forced.wait(), look_s)
            look_s = min(look_s * 2, LONGEST_LOOK_S)
        return True


def _without(path: bytes, log_response: Callable[..., None]) -> Callable[..., None]:
    """Return the access log without the requests for a path."""

    def write(client: object, method: str, target: bytes, *response: Any) -> None:
        if target.partition(b"?")[0] != path:
            log_response(client, method, target, *response)

    return write


def _is_patched() -> bool:
    """Return True if `threading` is patched, so that requests can run in green threads as well."""
    monkey = sys.modules.get("oneloop.green.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))
