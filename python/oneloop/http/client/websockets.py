"""`AsyncWebSocket` and `WebSocket`: the client's side of a WebSocket (RFC 6455), with permessage-deflate (RFC 7692).

Frames are read while the program waits for a message, and pings are answered then.
"""

from __future__ import annotations

import base64
import json as jsonlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from oneloop._native import WebSocketFrames
from oneloop.http.client.errors import TransportError, WebSocketDisconnect, WebSocketUpgradeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from oneloop.http.client.callers import Caller
    from oneloop.http.client.responses import Response

__all__ = ["MAX_MESSAGE_BYTES", "AsyncWebSocket", "Handshake", "WebSocket"]

MAX_MESSAGE_BYTES = 16 << 20
CLOSE_TIME_S = 10.0
"""How long to wait for the other side when the connection is closed."""
PONG_TIME_S = 0.5
"""How often to look whether a server that does not read takes the response to its last ping."""

_TEXT, _BINARY, _CLOSE, _PING, _PONG, _FAILURE = 1, 2, 8, 9, 10, 0
_OFFER = "permessage-deflate; client_max_window_bits"
_FORGETS = ("server_no_context_takeover", "client_no_context_takeover")
_WINDOWS = ("server_max_window_bits", "client_max_window_bits")
_BITS = frozenset(map(str, range(8, 16)))
_NORMAL, _GOING_AWAY, _NO_CODE, _ABNORMAL, _INTERNAL_ERROR = 1000, 1001, 1005, 1006, 1011


class Handshake:
    """The fields of the request, and what its response must have.

    Args:
        subprotocols: those that the program speaks, the best one first.
        compress: offer permessage-deflate.
    """

    def __init__(self, subprotocols: Sequence[str], compress: bool) -> None:
        self._key = base64.b64encode(os.urandom(16))
        self._subprotocols = list(subprotocols)
        self._compress = compress

    def fields(self) -> dict[str, str]:
        """Return the fields of the request."""
        fields = {
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": self._key.decode(),
        }
        if self._subprotocols:
            fields["sec-websocket-protocol"] = ", ".join(self._subprotocols)
        if self._compress:
            fields["sec-websocket-extensions"] = _OFFER
        return fields

    def frames(self, response: Response, max_message_bytes: int) -> tuple[WebSocketFrames, str | None]:
        """Check a response. Returns the frames of the connection, and its subprotocol.

        Raises:
            WebSocketUpgradeError: the server does not accept the WebSocket, or not in a valid way.
        """
        if response.status_code != 101:
            raise WebSocketUpgradeError(f"the server answered {response.status_code} in place of 101", response)
        fields = response.headers
        if fields.get("upgrade", "").lower() != "websocket":
            raise WebSocketUpgradeError("the server switched to another protocol", response)
        if "upgrade" not in (word.lower() for word in fields.get_list("connection", split_commas=True)):
            raise WebSocketUpgradeError("the server's Connection field has no Upgrade", response)
        if fields.get("sec-websocket-accept", "").encode() != WebSocketFrames.accept_of(self._key):
            raise WebSocketUpgradeError("the server's Sec-WebSocket-Accept is not that of the key", response)
        protocols = fields.get_list("sec-websocket-protocol")
        if protocols and (len(protocols) > 1 or protocols[0] not in self._subprotocols):
            raise WebSocketUpgradeError(f"the server chose a subprotocol that was not offered: {protocols}", response)
        agreed = fields.get_list("sec-websocket-extensions", split_commas=True)
        deflate = _agreement(agreed) if agreed else None
        if agreed and (deflate is None or not self._compress):
            raise WebSocketUpgradeError(f"the server chose an extension that was not offered: {agreed}", response)
        return WebSocketFrames(max_message_bytes, deflate), protocols[0] if protocols else None


def _agreement(extensions: list[str]) -> tuple[bool, bool, int, int] | None:
    """What a server makes of the offer (RFC 7692 section 7.1), for the frames; None if it is no response to it."""
    name, *parameters = [part.strip() for part in extensions[0].split(";")]
    if len(extensions) > 1 or name.lower() != "permessage-deflate":
        return None
    found: dict[str, int] = {}
    for parameter in parameters:
        key, equals, value = (part.strip() for part in parameter.partition("="))
        bits = value.strip('"')
        is_right = not equals if key in _FORGETS else key in _WINDOWS and bits in _BITS
        if not is_right or key in found:
            return None
        found[key] = int(bits or 1)
    forgets = [key in found for key in _FORGETS]
    return forgets[0], forgets[1], *(found.get(key, 15) for key in _WINDOWS)  # type: ignore[return-value]


class _Socket:
    """What both kinds have in common.

    Attributes:
        response: the server's response to the handshake.
        subprotocol: what the server has chosen; None: nothing.
        close_code: why it was closed, as the side that closed it says; None while it is open.
        close_reason: the same in words.
    """

    def __init__(
        self,
        response: Response,
        frames: WebSocketFrames,
        subprotocol: str | None,
        caller: Caller,
        heartbeat_s: float | None,
    ) -> None:
        self.response = response
        self.subprotocol = subprotocol
        self.close_code: int | None = None
        self.close_reason = ""
        self._exchange = response._exchange
        self._frames = frames
        self._caller = caller
        self._has_sent_close = False
        # So many wait for what the server sends: one, or none. Who closes it waits for that one, or reads the rest.
        self._readers = 0
        self._closer_waits = self._closer_reads = False
        # The last ping that is not answered yet, because the server does not read, and when to look again.
        self._owed: bytes | None = None
        self._owed_timer: Any = None
        self._heartbeat_s = heartbeat_s
        # The server takes nothing any more.
        self._is_gone = False
        # A ping was sent, and nothing has come since.
        self._is_silent = False
        self._timer: Any = None
        if heartbeat_s is not None:
            self._timer = caller.loop.call_later(heartbeat_s, self._beat)

    def __repr__(self) -> str:
        state = "open" if self.close_code is None else f"closed: {self.close_code} {self.close_reason}".rstrip()
        return f"<{type(self).__name__} {self.response.url} {state}>"

    def _beat(self) -> None:
        # What waits for the program may be the answer.
        if self._is_silent and not self._exchange.has_received:
            self._end(_ABNORMAL, f"nothing came for {self._heartbeat_s} s after a ping")
            self._drop()
            return
        self._is_silent = True
        self._exchange.send(self._frames.ping(b""))
        assert self._heartbeat_s is not None
        self._timer = self._caller.loop.call_later(self._heartbeat_s, self._beat)

    def _drop(self) -> None:
        """Cut the connection. Who waits for a message is told that it is gone."""
        transport = self._exchange.transport
        if transport is not None:
            transport.abort()

    def _end(self, code: int, reason: str) -> None:
        if self.close_code is None:
            self.close_code, self.close_reason = code, reason
        self._stop()

    def _stop(self) -> None:
        """Send no pings and pongs any more."""
        self._owed = None
        for timer in (self._timer, self._owed_timer):
            if timer is not None:
                timer.cancel()

    def _response_ping(self) -> None:
        """Answer the last ping, as soon as the server reads: one for several is enough (RFC 6455 section 5.5.3)."""
        self._owed_timer = None
        if self._owed is None or self._has_sent_close:
            return
        if self._exchange.takes_more:
            payload, self._owed = self._owed, None
            self._exchange.send(self._frames.pong(payload))
        else:
            self._owed_timer = self._caller.loop.call_later(PONG_TIME_S, self._response_ping)

    def _disconnect(self) -> WebSocketDisconnect:
        assert self.close_code is not None
        return WebSocketDisconnect(self.close_code, self.close_reason, request=self.response.request)

    async def _send(self, data: Any) -> None:
        self._check_open()
        frame = self._frames.text(data) if isinstance(data, str) else self._frames.binary(_bytes_of(data))
        await self._write(frame)

    def _check_open(self) -> None:
        """Nothing is sent when it is closed, being closed by this side, or gone."""
        request = self.response.request
        if self.close_code is not None:
            raise self._disconnect()
        if self._has_sent_close:
            raise WebSocketDisconnect(_NORMAL, "it is being closed", request=request)
        if self._is_gone:
            raise WebSocketDisconnect(_ABNORMAL, "the connection is gone", request=request)

    async def _write(self, frame: bytes) -> None:
        self._exchange.send(frame)
        if not await self._exchange.drained():
            # What the server has sent before is still received, perhaps why it has gone.
            self._is_gone = True
            self._stop()
            raise WebSocketDisconnect(_ABNORMAL, "the connection is gone", request=self.response.request)

    async def _receive(self) -> Any:
        while True:
            message = await self._next()
            if message is not None:
                return message

    async def _next(self, is_closer: bool = False) -> Any:
        """Handle one frame, or wait for bytes. Returns a message if there is one."""
        if self.close_code is not None:
            raise self._disconnect()
        news = self._frames.next()
        if news is None:
            await self._read(is_closer)
            return None
        opcode, payload = news
        if opcode in (_TEXT, _BINARY):
            return payload
        if opcode == _PING:
            self._owed = payload
            if self._owed_timer is None:
                self._response_ping()
        elif opcode == _CLOSE:
            code, reason = payload
            self._response_close(code, _NO_CODE if code is None else code, reason)
        elif opcode == _FAILURE:
            code, reason = payload
            self._response_close(code, code, f"the server does not keep to the protocol: {reason}")
        return None

    def _response_close(self, answered: int | None, code: int, reason: str) -> None:
        if not self._has_sent_close:
            self._has_sent_close = True
            self._exchange.send(self._frames.close(answered))
        self._end(code, reason)
        self._leave()

    def _leave(self) -> None:
        """Both sides have said that it is closed: the connection is closed when the last frame was sent."""
        connection = self._exchange.protocol
        self._exchange.finish()
        if connection is not None:
            # A server that does not read.
            self._caller.loop.call_later(CLOSE_TIME_S, connection.drop_now)

    async def _read(self, is_closer: bool) -> None:
        if self._closer_reads and not is_closer:
            await self._exchange.ended()
            self._end(_ABNORMAL, "it was given up")
            return
        self._readers += 1
        try:
            data = await self._exchange.received()
        except TransportError as error:
            self._end(_ABNORMAL, str(error))
            raise self._disconnect() from error
        except BaseException:
            if self._closer_waits and self._readers == 1:
                # Nobody would see the server's response.
                self._drop()
            raise
        finally:
            self._readers -= 1
        self._is_silent = False
        if data:
            self._frames.feed(data)
            return
        self._end(_ABNORMAL, "the server closed the connection without a close frame")

    async def _ping(self, payload: bytes) -> None:
        self._check_open()
        await self._write(self._frames.ping(payload))

    async def _close(self, code: int, reason: str) -> None:
        if self.close_code is not None or self._has_sent_close:
            return
        frame = self._frames.close(code, reason)
        self._has_sent_close = True
        # Nothing follows a close frame.
        self._stop()
        timer = self._caller.loop.call_later(CLOSE_TIME_S, self._drop)
        try:
            with suppress(WebSocketDisconnect):
                await self._write(frame)
            if self._readers:
                self._closer_waits = True
                await self._exchange.ended()
                return
            self._closer_reads = True
            while True:
                await self._next(is_closer=True)
        except WebSocketDisconnect:
            # What was waited for.
            return
        finally:
            timer.cancel()
            self._abandon()

    def _abandon(self) -> None:
        """Nobody uses it any more."""
        self._end(_ABNORMAL, "it was given up")
        self._exchange.close()


class AsyncWebSocket(_Socket):
    """A WebSocket for coroutines; see `AsyncClient.websocket`.

    One coroutine at a time may wait for messages. Others may send and close it meanwhile.
    """

    async def send(self, data: Any) -> None:
        """Send a message.

        Args:
            data: str: as text; bytes and similar: as binary data.

        Raises:
            WebSocketDisconnect: it is closed.
        """
        await self._send(data)

    async def send_json(self, data: Any) -> None:
        """Send a message: what `json.dumps` makes of the data, as text."""
        await self._send(_json_of(data))

    async def receive(self) -> str | bytes:
        """Return the next message: str if it is text, else bytes.

        Raises:
            WebSocketDisconnect: it is closed.
        """
        message: str | bytes = await self._receive()
        return message

    async def receive_json(self) -> Any:
        """Return the next message, parsed as JSON."""
        return jsonlib.loads(await self._receive())

    async def ping(self, payload: bytes = b"") -> None:
        """Send a ping of at most 125 bytes. Its response is noticed while somebody waits for a message."""
        await self._ping(payload)

    async def close(self, code: int = _NORMAL, reason: str = "") -> None:
        """Close it, and wait for the server to do so too, for 10 seconds at most. Messages that still come are lost."""
        await self._close(code, reason)

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        try:
            while True:
                yield await self._receive()
        except WebSocketDisconnect as end:
            if end.code not in (_NORMAL, _GOING_AWAY):
                raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self._abandon()
            return
        await self._close(_NORMAL if kind is None else _INTERNAL_ERROR, "")


class WebSocket(_Socket):
    """A WebSocket for green threads and plain code; see `Client.websocket` and `AsyncWebSocket`."""

    def send(self, data: Any) -> None:
        """Send a message; see `AsyncWebSocket.send`."""
        self._caller.run(self._send(data))

    def send_json(self, data: Any) -> None:
        """Send a message: what `json.dumps` makes of the data, as text."""
        self._caller.run(self._send(_json_of(data)))

    def receive(self) -> str | bytes:
        """Return the next message; see `AsyncWebSocket.receive`."""
        message: str | bytes = self._caller.run(self._receive())
        return message

    def receive_json(self) -> Any:
        """Return the next message, parsed as JSON."""
        return jsonlib.loads(self.receive())

    def ping(self, payload: bytes = b"") -> None:
        """Send a ping; see `AsyncWebSocket.ping`."""
        self._caller.run(self._ping(payload))

    def close(self, code: int = _NORMAL, reason: str = "") -> None:
        """Close it; see `AsyncWebSocket.close`."""
        self._caller.run(self._close(code, reason))

    def __iter__(self) -> Iterator[str | bytes]:
        try:
            while True:
                yield self.receive()
        except WebSocketDisconnect as end:
            if end.code not in (_NORMAL, _GOING_AWAY):
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self._abandon()
            self._caller.let_end()
            return
        self.close(_NORMAL if kind is None else _INTERNAL_ERROR)


def _bytes_of(data: Any) -> bytes:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"a message is str or bytes, not {type(data).__name__}")


def _json_of(data: Any) -> str:
    return jsonlib.dumps(data, ensure_ascii=False, separators=(",", ":"))
