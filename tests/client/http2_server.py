"""The server's end of an HTTP/2 connection in frames, for `RawServer`."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from hpack import Decoder, Encoder

from tests.client.servers import Peer, RawServer
from tests.http.http2_peer import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PUSH,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)

__all__ = [
    "CANCEL",
    "CONTINUATION",
    "DATA",
    "END_HEADERS",
    "END_STREAM",
    "GOAWAY",
    "HEADERS",
    "INTERNAL",
    "MOST_STREAMS",
    "PING",
    "PRIOR",
    "PUSH",
    "REFUSED",
    "RST_STREAM",
    "SETTINGS",
    "WINDOW",
    "WINDOW_UPDATE",
    "Frame",
    "Http2Peer",
    "Http2Server",
    "TlsInMemory",
    "frame",
]

ACK = 1
MOST_STREAMS, WINDOW = 3, 4
"""Settings."""
CANCEL, REFUSED, INTERNAL = 8, 7, 2
"""Error codes: RFC 9113 section 7."""
PRIOR: dict[str, Any] = {"http1": False, "http2": True}
"""Of clients that know that a server speaks HTTP/2."""


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def ends(self) -> bool:
        return self.kind in (DATA, HEADERS) and bool(self.flags & END_STREAM)


class Http2Peer(Peer):
    """The server's end. It reads frames one by one, and sends nothing by itself but the response to SETTINGS."""

    def begin(self) -> None:
        """Read the preface."""
        self._decoder, self._encoder = Decoder(), Encoder()
        assert self.exactly(len(PREFACE)) == PREFACE

    def greet(self, *settings: tuple[int, int]) -> None:
        """Read the preface, and send the settings."""
        self.begin()
        self.send(frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *one) for one in settings)))

    def exactly(self, count: int) -> bytes:
        """Read so many bytes; a client that leaves ends the thread."""
        try:
            return super().exactly(count)
        except AssertionError as error:
            raise ConnectionError(*error.args) from None

    def frame(self) -> Frame:
        """Read one frame."""
        head = self.exactly(9)
        got = Frame(head[3], head[4], int.from_bytes(head[5:9], "big"), self.exactly(int.from_bytes(head[:3], "big")))
        if got.kind == SETTINGS and not got.flags & ACK:
            self.send(frame(SETTINGS, ACK))
        return got

    def next(self, kind: int, stream: int | None = None) -> Frame:
        """Read until a frame of this kind."""
        while True:
            got = self.frame()
            if got.kind == kind and stream in (None, got.stream):
                return got

    def request(self) -> tuple[int, dict[str, str]]:
        """Read until the head of a request. Returns its stream and fields."""
        got = self.next(HEADERS)
        return got.stream, {str(name): str(value) for name, value in self._decoder.decode(got.payload)}

    def body(self, stream: int) -> bytes:
        """Read a body to its end; the windows are given back."""
        body = b""
        while True:
            got = self.next(DATA, stream)
            body += got.payload
            if got.payload:
                self.give(0, len(got.payload))
                self.give(stream, len(got.payload))
            if got.ends:
                return body

    def give(self, stream: int, count: int) -> None:
        """Open a window."""
        self.send(frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", count)))

    def head(self, stream: int = 1, status: int = 200, *fields: tuple[str, str], ends: bool = False) -> None:  # type: ignore[override]
        """Send the head of a response."""
        block = self._encoder.encode([(":status", str(status)), *fields])
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, block))

    def block(self, *fields: tuple[str, str]) -> bytes:
        """Encode fields."""
        return bytes(self._encoder.encode(fields))

    def data(self, stream: int, body: bytes, *, ends: bool = False) -> None:
        """Send a part of a body."""
        self.send(frame(DATA, END_STREAM if ends else 0, stream, body))

    def answer(self, stream: int, body: bytes = b"", status: int = 200, *fields: tuple[str, str]) -> None:  # type: ignore[override]
        """Send a whole response."""
        self.head(stream, status, *fields, ends=not body)
        if body:
            self.data(stream, body, ends=True)

    def reset_stream(self, stream: int, code: int) -> None:
        """Send RST_STREAM."""
        self.send(frame(RST_STREAM, 0, stream, struct.pack(">I", code)))

    def goaway(self, last: int, code: int = 0) -> None:
        """Send GOAWAY."""
        self.send(frame(GOAWAY, 0, 0, struct.pack(">II", last, code)))


class Http2Server(RawServer):
    """`serve(peer)` runs in a thread for each connection; with a context it speaks TLS."""

    def __init__(self, serve: Callable[[Http2Peer], None], context: ssl.SSLContext | None = None) -> None:
        def run(peer: Peer) -> None:
            if context is None:
                ours = Http2Peer(peer.sock, peer.number)
                serve(ours)
                # Closed with something unread, it would take back what was sent.
                with suppress(OSError):
                    peer.sock.shutdown(socket.SHUT_WR)
                    ours.wait_for_end()
                return
            context.set_alpn_protocols(["h2", "http/1.1"])
            with suppress(ssl.SSLError), context.wrap_socket(peer.sock, server_side=True) as sock:
                serve(Http2Peer(sock, peer.number))

        super().__init__(run)
        if context is not None:
            self.url = f"https://localhost:{self.port}"


class TlsInMemory:
    """The server's end of TLS on a socket, with the methods of one. What is written before `flush` leaves at once."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def flush(self) -> None:
        self._sock.sendall(self._outgoing.read())

    def shake_hands(self) -> None:
        """The last flight has not left then."""
        while True:
            try:
                self.tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self._fill()

    def _fill(self) -> bool:
        self.flush()
        data = self._sock.recv(65536)
        self._incoming.write(data)
        return bool(data)

    def recv(self, size: int) -> bytes:
        while True:
            try:
                return self.tls.read(size)
            except ssl.SSLWantReadError:
                if not self._fill():
                    return b""

    def sendall(self, data: bytes) -> None:
        self.tls.write(data)
        self.flush()


def echo(peer: Http2Peer) -> None:
    """Answer each request with its path."""
    peer.greet()
    while True:
        stream, fields = peer.request()
        peer.answer(stream, fields[":path"].encode())
