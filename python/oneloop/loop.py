"""`Loop`: the event loop. It combines the native core with the standard library's code for rare operations.

Code that runs per callback, timer, message or accept is in `_native.LoopCore`. Code that runs once per
connection or less often is `asyncio.BaseEventLoop`'s, from the running Python version.
This file combines them. Sockets, signals, Unix sockets and subprocesses are mixins in separate files.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from asyncio import base_events, constants, events
from typing import TYPE_CHECKING, Any, TypeVar

from oneloop import _native, registry
from oneloop.connecting import ConnectingMixin
from oneloop.debug import DebugMixin
from oneloop.endpoints import EndpointMixin, Failed
from oneloop.executors import ExecutorMixin
from oneloop.internals import Missing
from oneloop.names import NamesMixin
from oneloop.sendfile import SendfileMixin
from oneloop.serving import ServingMixin, context_of
from oneloop.signals import SignalMixin
from oneloop.sockets import SocketMixin
from oneloop.stock_streams import known as _known_streams  # noqa: F401  # pyright: ignore[reportUnusedImport]
from oneloop.stream_servers import guarded
from oneloop.subprocess import SubprocessMixin
from oneloop.transports import send_gathered
from oneloop.unix import UnixMixin

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine
    from contextvars import Context

    from oneloop.green.hub import Hub
    from oneloop.statistics import Statistics

T = TypeVar("T")

# A listener that ran out of file descriptors accepts again after this delay (asyncio's value, in seconds).
ACCEPT_RETRY_DELAY_S = constants.ACCEPT_RETRY_DELAY


class Loop(  # type: ignore[misc]  # the mixins accept more argument types than the stubs declare
    # The first base, because CPython searches the bases in order on every native call.
    _native.LoopCore,
    ConnectingMixin,
    DebugMixin,
    ExecutorMixin,
    NamesMixin,
    SignalMixin,
    SocketMixin,
    SendfileMixin,
    EndpointMixin,
    ServingMixin,
    UnixMixin,
    SubprocessMixin,
    asyncio.BaseEventLoop,
):
    """A drop-in asyncio event loop on a native core (Linux).

    Create one with `oneloop.new_event_loop()`. Only `call_soon_threadsafe` and `statistics` can be
    called from any thread; call all other methods in the thread that runs the loop. Subclassing is
    supported, as with asyncio's loops.

    Args:
        virtual_time: for tests: the loop's clock starts at 0 and jumps to the next deadline whenever
            nothing is ready. `oneloop.testing` uses it.

    Raises:
        OSError: the process has no file descriptors left.
    """

    # Slots for all attributes that are assigned here and in BaseEventLoop's constructor, so that the
    # instance's `__dict__` is never created. If it existed, CPython would search it on each method
    # call (20 ns of call_soon()'s 220). Attributes that a program sets go into `__dict__`.
    __slots__ = (
        "_asyncgens",
        "_asyncgens_shutdown_called",
        "_clock_resolution",
        "_coroutine_origin_tracking_enabled",
        "_coroutine_origin_tracking_saved_depth",
        "_csock",
        "_current_handle",
        "_default_executor",
        "_exception_handler",
        "_executor_shutdown_called",
        "_files",
        "_found_loops_fd",
        "_found_wakeup_fd",
        "_has_own_executor",
        "_hub",
        "_internal_fds",
        "_listeners",
        "_may_be_told",
        "_old_agen_hooks",
        "_pidfds",
        "_ready",
        "_resolver",
        "_run_number",
        "_scheduled",
        "_shared",
        "_signal_handlers",
        "_ssock",
        "_task_factory",
        "_timer_cancelled_count",
        "_unix_server_sockets",
        "_watched_objects",
        "_watches_signals",
        "slow_callback_duration",
    )

    # BaseEventLoop's, which nothing here calls, and asyncio's selector.
    _run_once: Any = Missing()
    _process_events: Any = Missing()
    _selector: Any = Missing()

    def __init__(self, *, virtual_time: bool = False) -> None:
        asyncio.BaseEventLoop.__init__(self)
        self._init_signals()
        self._init_unix()
        self._init_sockets()
        self._init_subprocesses()
        # Created on the first use of oneloop.files.
        self._files: _native.Files | None = None
        # Created for the first name that a thread looks up.
        self._resolver: _native.Files | None = None
        self._has_own_executor = False
        # Sockets from which other processes accept too, and what is called when this loop cannot accept a connection
        # that it may have been told of, for a while or for ever: the kernel has told no other process.
        self._shared: dict[socket.socket, Callable[[], None]] = {}
        # Created on the first use of oneloop.green. Assigned last: see `__del__`.
        self._hub: Hub | None = None
        registry.add(self)

    def __del__(self) -> None:
        # There is nothing to close or to warn about if it is closed, or if the constructor raised (a wrong argument).
        if not self.is_closed() and hasattr(self, "_hub"):
            super().__del__()

    # -- running ---------------------------------------------------------------------------------

    def run_forever(self) -> None:
        """Run until `stop()` is called.

        Raises:
            RuntimeError: the loop is closed, or this or another loop is already running in this thread.
        """
        self._check_closed()
        self._check_running()
        self._set_coroutine_origin_tracking(self._debug)  # type: ignore[attr-defined]
        old_hooks = sys.get_asyncgen_hooks()
        self._begin_run()
        try:
            sys.set_asyncgen_hooks(
                firstiter=self._asyncgen_firstiter_hook,  # type: ignore[attr-defined]
                finalizer=self._asyncgen_finalizer_hook,  # type: ignore[attr-defined]
            )
            events._set_running_loop(self)
            self._run()
        finally:
            events._set_running_loop(None)
            self._set_coroutine_origin_tracking(False)  # type: ignore[attr-defined]
            sys.set_asyncgen_hooks(*old_hooks)
            self._end_run()

    def _check_running(self) -> None:
        self._check_process()
        super()._check_running()  # type: ignore[misc]

    def close(self) -> None:
        """Close the loop. Pending callbacks and timers are dropped; buffered data is sent if that does not block.

        Further calls do nothing.

        Raises:
            RuntimeError: the loop is running.
            ValueError: the loop has signal handlers, and this is not the main thread. The loop is closed.
        """
        if self.is_running():
            raise RuntimeError("Cannot close a running event loop")
        if self.is_closed():
            return
        try:
            self._close_signals()
        finally:
            # The loop closes even if another thread calls this, which cannot remove signal handlers.
            self._close_all()

    def _close_all(self) -> None:
        hub, self._hub = self._hub, None
        # Asked first: the queue and the timers may have the only references to some of them.
        waiting = [] if hub is None else hub.waiting()
        self._close_pidfds()
        for files in (self._files, self._resolver):
            if files is not None:
                files.shut()
        self._clear()
        # A server that the program has dropped without closing it goes with its sockets, whose addresses are free then.
        self._listeners.clear()
        self._unix_server_sockets.clear()
        super().close()
        self._close_poller()
        if hub is not None:
            hub.let_go(waiting)

    def run_green(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, T]:
        """Call a function in a green thread of this loop. Await the result.

        The function can use the blocking calls of `oneloop.green`. It runs in a copy of the caller's context.
        Cancelling the awaiting task raises CancelledError in the green thread at the point where it is blocked; the
        task then waits until the green thread has ended.

        Args:
            function: the function to call.
            *args: its positional arguments.
            **kwargs: its keyword arguments.

        Returns:
            A coroutine. Its result is the function's return value.

        Raises:
            ImportError: the greenlet package is not installed.
            BaseException: any exception that the function raises.
        """
        from oneloop.green.bridge import run_green

        return run_green(function, *args, **kwargs)

    # The native core calls these two on the loop of a green hub.

    def _is_alone(self, is_only_thread: bool, /) -> bool:
        """Return True if no other thread and no signal handler can call into this loop.

        Args:
            is_only_thread: whether the interpreter has no other thread.
        """
        hub = self._hub
        return hub is not None and hub.is_alone(is_only_thread)

    def _nothing_to_wait_for(self) -> None:
        if self._hub is not None:
            self._hub.refuse_to_sleep()

    def statistics(self) -> Statistics:
        """Return counters of the loop since it was created. They are always on and cost little."""
        from oneloop import statistics

        return statistics.Statistics(**self._counters())

    def _write_to_self(self) -> None:
        # BaseEventLoop's signal handlers and shutdown_default_executor() call this to wake the loop.
        self.call_soon_threadsafe(_nothing)

    # -- TLS -------------------------------------------------------------------------------------

    async def start_tls(
        self,
        transport: Any,
        protocol: Any,
        sslcontext: ssl.SSLContext | _native.TlsContext,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> Any:
        """Upgrade a transport to TLS and return the new transport.

        Bytes that a `StreamReader` has already buffered are part of the handshake and are passed to it (asyncio
        before CPython 3.13.12 and 3.14.3 loses them).

        Args:
            transport: a stream transport of this loop. Use the returned transport instead of it afterwards.
            protocol: the protocol of the TLS transport.
            sslcontext: an `ssl.SSLContext`, or a context of `oneloop.tls`.
            server_side: True for the server's end of the connection.
            server_hostname: the name that the peer's certificate must match (client only).
            ssl_handshake_timeout: in seconds; None is 60.
            ssl_shutdown_timeout: in seconds; None is 30.

        Returns:
            The TLS transport; None if the program closed `transport` before the handshake was complete.

        Raises:
            TypeError: a context or transport of another class.
            ssl.SSLError, OSError: the handshake failed; the transport is closed.
        """
        # Here, because there are builds of Python without it.
        import ssl

        given: object = sslcontext
        if not isinstance(given, ssl.SSLContext | _native.TlsContext):
            raise TypeError(f"sslcontext is expected to be an instance of ssl.SSLContext, got {sslcontext!r}")
        if not getattr(transport, "_start_tls_compatible", False):
            raise TypeError(f"transport {transport!r} is not supported by start_tls()")
        waiter = self.create_future()
        tls = _native.TlsTransport(
            self,
            protocol,
            sslcontext,
            waiter,
            server_side,
            server_hostname,
            # One of the client's begins with TLS, and what follows the handshake may have come with it.
            call_connection_made=isinstance(protocol, _native.ClientConnection),
            ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout,
        )
        # Do not read before the handshake has begun.
        transport.pause_reading()
        transport.set_protocol(tls)
        steps = [self.call_soon(tls.connection_made, transport)]
        reader = getattr(protocol, "_stream_reader", None)
        is_fed = reader is not None and getattr(reader, "_transport", None) is transport
        if reader is not None and reader._buffer:
            early = bytes(reader._buffer)
            reader._buffer.clear()
            steps.append(self.call_soon(tls.data_received, early))
        steps.append(self.call_soon(transport.resume_reading))
        try:
            await waiter
        except BaseException:
            transport.close()
            for step in steps:
                step.cancel()
            raise
        finally:
            # They have the exception, whose traceback has this frame.
            del waiter, transport, protocol
        if reader is not None and is_fed:
            # Its pauses would still go to the transport below (gh-152431, until CPython 3.14.6).
            reader._transport = tls
        # The program may have closed the transport in the meantime.
        return tls._app_transport

    # -- BaseEventLoop's hooks: creating transports and servers ------------------------------------

    def _make_socket_transport(
        self,
        sock: socket.socket,
        protocol: Any,
        waiter: Any = None,
        *,
        extra: Any = None,
        server: Any = None,
        context: Context | None = None,
    ) -> _native.StreamTransport:
        base_events._set_nodelay(sock)  # type: ignore[attr-defined]
        make = self._closing_at_failure(sock, _native.StreamTransport)
        return make(self, sock, protocol, waiter, extra, server, context)  # type: ignore[no-any-return]

    def _make_ssl_transport(
        self,
        rawsock: socket.socket,
        protocol: Any,
        sslcontext: ssl.SSLContext,
        waiter: Any = None,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        extra: Any = None,
        server: Any = None,
        context: Context | None = None,
        **timeouts: Any,
    ) -> Any:
        make = self._closing_at_failure(rawsock, _native.TlsTransport)
        tls = make(self, protocol, sslcontext, waiter, server_side, server_hostname, **timeouts)
        self._make_socket_transport(rawsock, tls, extra=extra, server=server, context=context)
        return tls

    def _make_datagram_transport(
        self, sock: socket.socket, protocol: Any, address: Any = None, waiter: Any = None, extra: Any = None
    ) -> _native.DatagramTransport:
        if isinstance(protocol, Failed):
            sock.close()
            protocol.reraise()
        return _native.DatagramTransport(self, sock, protocol, address, waiter, extra)

    def _make_read_pipe_transport(
        self, pipe: Any, protocol: Any, waiter: Any = None, extra: Any = None
    ) -> _native.ReadPipeTransport:
        return _native.ReadPipeTransport(self, pipe, protocol, waiter, extra)

    def _make_write_pipe_transport(
        self, pipe: Any, protocol: Any, waiter: Any = None, extra: Any = None
    ) -> _native.WritePipeTransport:
        return _native.WritePipeTransport(self, pipe, protocol, waiter, extra)

    def _start_serving(
        self,
        protocol_factory: Callable[[], Any],
        sock: socket.socket,
        sslcontext: ssl.SSLContext | None = None,
        server: Any = None,
        backlog: int = 100,
        ssl_handshake_timeout: float | None = constants.SSL_HANDSHAKE_TIMEOUT,
        ssl_shutdown_timeout: float | None = constants.SSL_SHUTDOWN_TIMEOUT,
        context: Context | None = None,
    ) -> None:
        hand_over = None  # pyright: ignore[reportAssignmentType, reportRedeclaration]
        if sslcontext is not None:
            keywords = {
                "server": server,
                "ssl_handshake_timeout": ssl_handshake_timeout,
                "ssl_shutdown_timeout": ssl_shutdown_timeout,
            }

            def hand_over(conn: socket.socket, address: Any) -> None:
                # The listener calls this in a copy of the server's context, which becomes the connection's.
                # A task factory, or a `create_task` of a subclass, need not know `context`: the task copies this one.
                self.create_task(self._accept_tls(protocol_factory, conn, address, sslcontext, **keywords))

        if context is None:  # before Python 3.15
            context = context_of(server)
        protocol_factory = guarded(protocol_factory)
        is_shared = sock in self._shared
        listener = _native.Listener(self, sock, protocol_factory, server, hand_over, context, is_shared=is_shared)
        self._listeners[sock] = listener
        listener.start()

    def _stop_serving(self, sock: socket.socket) -> None:
        listener = self._listeners.pop(sock, None)
        if listener is not None:
            listener.stop()
        try:
            self._forget_unix_socket(sock)
        finally:
            sock.close()
        pass_on = self._shared.pop(sock, None)
        if listener is not None and pass_on is not None:
            pass_on()

    def _retry_accept(self, listener: _native.Listener) -> None:
        for sock, pass_on in self._shared.items():
            if self._listeners.get(sock) is listener:
                pass_on()
        self.call_later(ACCEPT_RETRY_DELAY_S, self._start_again, listener)

    def _look_for_connections(self) -> None:
        """Accept connections that another process was told of and could not accept."""
        for sock in self._shared:
            if sock in self._listeners:
                self._listeners[sock].renew()

    def _start_again(self, listener: _native.Listener) -> None:
        try:
            listener.start()
        except OSError:
            # Still no memory (epoll_ctl(2)). Without another attempt the server would never accept again.
            self._retry_accept(listener)

    async def _accept_tls(
        self,
        protocol_factory: Callable[[], Any],
        conn: socket.socket,
        address: Any,
        sslcontext: ssl.SSLContext,
        server: Any,
        **keywords: Any,
    ) -> None:
        """Do the TLS handshake on one accepted connection.

        As in asyncio, a handshake that fails (mostly the peer's fault) is reported only in debug mode.
        """
        protocol = transport = None
        try:
            protocol = protocol_factory()
            if isinstance(server, asyncio.Server) and not server.is_serving():
                # It was closed in the tick in which it has accepted: no transport can belong to it.
                conn.close()
                return
            waiter = self.create_future()
            transport = self._make_ssl_transport(
                conn,
                protocol,
                sslcontext,
                waiter=waiter,
                server_side=True,
                extra={"peername": address},
                server=server,
                **keywords,
            )
            try:
                await waiter
            except BaseException:
                transport.close()
                # The waiter's exception would keep the protocol alive in a reference cycle (gh-109534).
                waiter = None  # type: ignore[assignment]
                raise
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:  # noqa: BLE001 - reported, or raised again above
            if transport is None:
                conn.close()
            if transport is None or self._debug:
                details = {
                    "message": "Error on transport creation for incoming connection",
                    "exception": exc,
                }
                if protocol is not None:
                    details["protocol"] = protocol
                if transport is not None:
                    details["transport"] = transport
                self.call_exception_handler(details)


def _nothing() -> None:
    """Do nothing: a callback that wakes the loop."""


# Send queued data before a fork: the child discards the write queues that it inherits.
os.register_at_fork(before=send_gathered)


def _open_stats_socket() -> None:
    """Open the socket for `oneloop top` if the environment asks for it: a path, or 1 for the default path."""
    if os.environ.get("ONELOOP_STATS_SOCKET", "0") not in ("", "0"):
        from oneloop import stats_socket

        stats_socket.open_as_environment_says()


registry.call_with_first(_open_stats_socket)
