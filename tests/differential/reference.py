"""Stock asyncio as the reference, without some mistakes of its own: most of them are gone in later versions.

- `writelines()` on a lost connection raised TypeError, and never called `pause_writing()` (gh-136234, gh-135836).
- `run_forever()` inside of a running loop raised, and left the outer loop as "not running" (Python 3.13.0).
- TLS: see `SecureProtocol`.
- A transport that closed when its buffer was sent did not know that it was lost: its methods raised AttributeError.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import ssl
import sys
from asyncio import constants, selector_events, sslproto
from asyncio.log import logger
from typing import Any

from tests.differential import allowed


class Transport(selector_events._SelectorSocketTransport):  # type: ignore[name-defined, misc]
    _conn_lost: int

    def writelines(self, list_of_data: Any) -> None:
        """As in Python 3.14.1."""
        if not (3, 12) <= sys.version_info < (3, 14):
            # 3.15 keeps what comes before a wrong piece, and never sends it.
            all(memoryview(data) is not None for data in list_of_data if not self._conn_lost)
            super().writelines(list_of_data)
            return
        if self._eof:
            raise RuntimeError("Cannot call writelines() after write_eof()")
        if self._empty_waiter is not None:
            raise RuntimeError("unable to writelines; sendfile is in progress")
        if not list_of_data:
            return
        if self._conn_lost:
            if self._conn_lost >= constants.LOG_THRESHOLD_FOR_CONNLOST_WRITES:
                logger.warning("socket.send() raised exception.")
            self._conn_lost += 1
            return
        self._buffer.extend([memoryview(data) for data in list_of_data])
        if self._write_ready is not None:
            # close() takes it away while bytes wait, in all versions; they are sent all the same.
            self._write_ready()
        if self._buffer:
            if self._write_ready is not None:
                self._loop._add_writer(self._sock_fd, self._write_ready)
            self._maybe_pause_protocol()

    def _call_connection_lost(self, exc: BaseException | None) -> None:
        self._conn_lost = max(self._conn_lost, 1)
        super()._call_connection_lost(exc)


class SecureTransport(sslproto._SSLProtocolTransport):  # type: ignore[name-defined, misc]
    _closed: bool
    _ssl_protocol: Any

    def close(self) -> None:
        """The second time, too, it stays a transport: one that can be aborted, and asked."""
        if not self._closed:
            self._closed = True
            self._ssl_protocol._start_shutdown()


class SecureProtocol(sslproto.SSLProtocol):
    """asyncio's TLS without these mistakes.

    - The last bytes of a handshake counted as written by the program, and waited while it had paused reading.
    - With a high-water mark of 0 an empty buffer paused the protocol, and nobody told it to go on.
    - Bytes that were not read when a paused transport was closed made the close an error.
    - A paused transport whose peer had ended could not be closed.
    - What a BufferedProtocol had not taken when the end of file came was lost.
    - A record behind the first was read into a copy of the bytearray that `get_buffer()` had returned, and lost.
    """

    _outgoing: ssl.MemoryBIO
    _sslobj: Any
    _state: Any
    _eof_received: bool
    _app_reading_paused: bool
    _app_state: Any
    _app_protocol_buffer_updated: Any
    _set_state: Any
    _do_shutdown: Any
    # What the library has to say itself.
    _own = 0
    # The size of the buffer that is being read into; whether it was full, and the rest is read later.
    _wanted = 0
    _is_read_due = False
    _is_in_flush = False

    def _get_app_transport(self) -> Any:
        if self._app_transport is None:  # type: ignore[has-type]
            self._app_transport = SecureTransport(self._loop, self)  # type: ignore[attr-defined]
            self._app_transport_created = True
        return self._app_transport

    def _set_app_protocol(self, app_protocol: Any) -> None:
        super()._set_app_protocol(app_protocol)  # type: ignore[misc]
        if self._app_protocol_is_buffer:  # type: ignore[attr-defined]
            updated = self._app_protocol_buffer_updated

            def get_buffer(size: int) -> memoryview:
                view = memoryview(app_protocol.get_buffer(size))
                self._wanted = len(view)
                return view

            def buffer_updated(count: int) -> None:
                self._is_read_due = count == self._wanted
                updated(count)

            self._app_protocol_get_buffer, self._app_protocol_buffer_updated = get_buffer, buffer_updated

    def _on_handshake_complete(self, handshake_exc: BaseException | None) -> None:
        self._own = self._outgoing.pending
        super()._on_handshake_complete(handshake_exc)  # type: ignore[misc]

    def _process_outgoing(self) -> None:
        self._own = 0
        super()._process_outgoing()  # type: ignore[misc]

    def _get_write_buffer_size(self) -> int:
        size: int = super()._get_write_buffer_size()  # type: ignore[misc]
        is_over = self._state.name in ("SHUTDOWN", "UNWRAPPED")
        return size - (self._outgoing.pending if is_over else self._own)

    def _start_shutdown(self) -> None:
        super()._start_shutdown()  # type: ignore[misc]
        if self._state.name == "FLUSHING" and self._eof_received and self._app_reading_paused:
            self._do_flush()

    def eof_received(self) -> bool:  # type: ignore[override]
        keeps = super().eof_received()  # type: ignore[misc]
        return bool(keeps) or self._state.name == "FLUSHING"

    def _may_take_more(self) -> bool:
        transport: Any = self._app_transport
        is_open = transport is not None and not transport._closed
        return self._eof_received and is_open and self._app_state.name == "STATE_CON_MADE"

    def _do_read(self) -> None:
        if self._state.name == "FLUSHING" and self._eof_received and not self._is_in_flush:
            self._do_flush()
            return
        self._is_read_due = False
        super()._do_read()  # type: ignore[misc]
        if self._app_reading_paused and self._state.name in ("WRAPPED", "FLUSHING"):
            self._process_outgoing()

    def _control_app_writing(self) -> None:
        if self._app_writing_paused or self._get_write_buffer_size():  # type: ignore[attr-defined]
            super()._control_app_writing()  # type: ignore[misc]

    def _do_flush(self) -> None:
        if self._may_take_more():
            self._is_in_flush = True
            try:
                self._do_read()
            finally:
                self._is_in_flush = False
            if self._state.name != "FLUSHING":
                return
            if self._may_take_more() and (self._is_read_due or self._app_reading_paused):
                return
            self._set_state(sslproto.SSLProtocolState.SHUTDOWN)
            self._do_shutdown()
            return
        if self._app_reading_paused:
            with contextlib.suppress(ssl.SSLWantReadError):
                while self._sslobj.read(16384):
                    pass
        super()._do_flush()  # type: ignore[misc]


class StableTimer(asyncio.TimerHandle):
    """Timers of one deadline stay in the order of their calls."""

    __slots__ = ("serial",)
    serial: int

    def __lt__(self, other: Any) -> bool:
        return (self._when, self.serial) < (other._when, other.serial)  # type: ignore[attr-defined, no-any-return]


class ReferenceLoop(asyncio.SelectorEventLoop):
    _timers_made = 0

    def call_at(  # type: ignore[override]
        self, when: Any, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        if not allowed.EQUAL_DEADLINES or when is None or self.get_debug():
            return super().call_at(when, callback, *args, context=context)
        self._check_closed()  # type: ignore[attr-defined]
        timer = StableTimer(when, callback, args, self, context)
        self._timers_made += 1
        timer.serial = self._timers_made
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _make_socket_transport(self, sock: Any, protocol: Any, waiter: Any = None, **keywords: Any) -> Any:
        self._ensure_fd_no_transport(sock)  # type: ignore[attr-defined]
        return Transport(self, sock, protocol, waiter, **keywords)

    def _make_ssl_transport(
        self,
        rawsock: Any,
        protocol: Any,
        sslcontext: Any,
        waiter: Any = None,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        extra: Any = None,
        server: Any = None,
        **keywords: Any,
    ) -> Any:
        self._ensure_fd_no_transport(rawsock)  # type: ignore[attr-defined]
        # Python 3.15 names the context of a connection.
        given = {"context": keywords.pop("context")} if "context" in keywords else {}
        secure = SecureProtocol(self, protocol, sslcontext, waiter, server_side, server_hostname, **keywords)
        self._make_socket_transport(rawsock, secure, extra=extra, server=server, **given)
        return secure._app_transport
