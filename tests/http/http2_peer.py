"""A client of HTTP/2 on a blocking socket: python-hyper's `h2` for what is allowed, raw frames for what is not."""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from hpack import Encoder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

LIMIT_S = 60.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4


@dataclass
class Response:
    """What came on one stream."""

    interim: list[dict[str, str]] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    trailers: dict[str, str] = field(default_factory=dict)
    is_complete: bool = False
    code: int | None = None
    """Why the stream was reset."""

    @property
    def status(self) -> int:
        return int(self.fields.get(":status", "0"))


def text_of(fields: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in fields}


class Peer:
    """One connection, to a port or over a socket. `unread`: streams whose bodies are not given back to the window."""

    def __init__(
        self, where: int | socket.socket, context: ssl.SSLContext | None = None, *, window: int | None = None
    ) -> None:
        plain = where if isinstance(where, socket.socket) else socket.create_connection(("127.0.0.1", where), LIMIT_S)
        self.sock: socket.socket = plain
        if context is not None:
            context.set_alpn_protocols(["h2"])
            secured = context.wrap_socket(plain, server_hostname="localhost")
            assert secured.selected_alpn_protocol() == "h2"
            self.sock = secured
        self.scheme = "https" if isinstance(self.sock, ssl.SSLSocket) else "http"
        config = h2.config.H2Configuration(header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config)
        self.unread: set[int] = set()
        self.responses: dict[int, Response] = {}
        self.left: tuple[int, int] | None = None
        """The last stream and the code of a GOAWAY."""
        self.goaways: list[int] = []
        self.is_closed = False
        self._rest = b""
        self.h2.initiate_connection()
        if window is not None:
            self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def flush(self) -> None:
        self.sock.sendall(self.h2.data_to_send())

    def ask(
        self, path: str = "/", method: str = "GET", *fields: tuple[str, str], ends: bool = True, protocol: str = ""
    ) -> int:
        """Send the head of a request; returns its stream."""
        stream = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", self.scheme), (":authority", "localhost"), (":path", path)]
        if protocol:
            head.append((":protocol", protocol))
        self.h2.send_headers(stream, [*head, *fields], end_stream=ends)
        self.responses[stream] = Response()
        self.flush()
        return stream

    def send_body(self, stream: int, body: bytes, *, ends: bool = True) -> None:
        """Send as the windows allow, reading meanwhile."""
        while body:
            window = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(body))
            if window <= 0:
                self.read()
                continue
            self.h2.send_data(stream, body[:window])
            body = body[window:]
            self.flush()
        if ends:
            self.h2.end_stream(stream)
            self.flush()

    def read(self) -> bool:
        """Read once; False at the end."""
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.is_closed = True
            return False
        for event in self.h2.receive_data(self._without_goaway(data)):
            self._take(event)
        self.flush_if_open()
        return True

    def _without_goaway(self, data: bytes) -> bytes:
        """Whole frames. The library takes nothing after a GOAWAY, although responses follow."""
        self._rest += data
        kept = b""
        for kind, stream, payload in frames(self._rest):
            length = 9 + len(payload)
            if kind == GOAWAY:
                last, code = struct.unpack(">II", payload[:8])
                self.left = (last, code)
                self.goaways.append(last)
            else:
                kept += self._rest[:length]
            self._rest = self._rest[length:]
            assert stream >= 0
        return kept

    def flush_if_open(self) -> None:
        out = self.h2.data_to_send()
        if out:
            try:
                self.sock.sendall(out)
            except OSError:
                self.is_closed = True

    def _take(self, event: object) -> None:
        match event:
            case h2.events.InformationalResponseReceived(stream_id=stream, headers=fields):
                self.responses[stream].interim.append(text_of(fields))
            case h2.events.ResponseReceived(stream_id=stream, headers=fields):
                self.responses[stream].fields = text_of(fields)
            case h2.events.DataReceived(stream_id=stream, data=data, flow_controlled_length=length):
                self.responses[stream].body += data
                if stream not in self.unread and length:
                    self.h2.acknowledge_received_data(length, stream)
            case h2.events.TrailersReceived(stream_id=stream, headers=fields):
                self.responses[stream].trailers = text_of(fields)
            case h2.events.StreamEnded(stream_id=stream):
                self.responses[stream].is_complete = True
            case h2.events.StreamReset(stream_id=stream, error_code=code):
                self.responses.setdefault(stream, Response()).code = int(code)
            case _:
                pass

    def wait(self, *streams: int) -> list[Response]:
        """Read until these streams are over."""
        waited = [self.responses[stream] for stream in streams]
        while not all(one.is_complete or one.code is not None for one in waited):
            assert self.read(), (waited, self.left)
        return waited

    def get(self, path: str = "/", method: str = "GET", *fields: tuple[str, str]) -> Response:
        return self.wait(self.ask(path, method, *fields))[0]

    def read_to_end(self) -> None:
        while not self.is_closed and self.read():
            pass


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def head(*fields: tuple[str, str], path: str = "/", method: str = "GET") -> bytes:
    """A block of fields, without the table that both ends share."""
    encoder = Encoder()
    encoder.header_table_size = 0
    pseudo = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)]
    return bytes(encoder.encode([*pseudo, *fields]))


class Raw:
    """A connection that sends any frames, and only counts what comes."""

    def __init__(self, port: int, *, settings: bytes = b"") -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        self.got = b""
        self.is_closed = False
        self.send(PREFACE, frame(SETTINGS, 0, 0, settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, *frames: bytes) -> bool:
        """False if the server has closed the connection."""
        try:
            self.sock.sendall(b"".join(frames))
        except OSError:
            self.is_closed = True
        return not self.is_closed

    def read_to_end(self) -> None:
        try:
            while data := self.sock.recv(65536):
                self.got += data
        except ConnectionResetError:
            pass
        self.is_closed = True

    def read_frames(self, count: int) -> list[tuple[int, int, bytes]]:
        """The next frames: kind, stream, payload."""
        while len(list(frames(self.got))) < count:
            data = self.sock.recv(65536)
            assert data, self.got
            self.got += data
        return list(frames(self.got))


def frames(data: bytes) -> Iterable[tuple[int, int, bytes]]:
    at = 0
    while len(data) - at >= 9:
        end = at + 9 + int.from_bytes(data[at : at + 3], "big")
        if len(data) < end:
            return
        yield data[at + 3], int.from_bytes(data[at + 5 : at + 9], "big"), data[at + 9 : end]
        at = end
