"""Three parsers' readings of the first request in some bytes: ours, llhttp (as httptools has it), and h11."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

import h11
import httptools

from oneloop.compat import httptools as ours

Verdict = Literal["refused", "incomplete", "complete"]


@dataclass
class Reading:
    """What a parser makes of the first message."""

    verdict: Verdict = "incomplete"
    method: bytes = b""
    target: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    reason: str = ""

    def parts(self) -> tuple[bytes, bytes, list[tuple[bytes, bytes]], bytes]:
        """What two parsers must agree on."""
        return self.method, self.target, [_normal(name.lower(), value) for name, value in self.headers], self.body


def _normal(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    # h11 writes codings in small letters. llhttp leaves a tab at a value's end, which is optional white space.
    return name, value.lower() if name == b"transfer-encoding" else value.rstrip(b" \t")


class Parser(Protocol):
    """A request parser with httptools' methods."""

    def feed_data(self, data: bytes, /) -> None: ...
    def get_method(self) -> bytes: ...


class Collector:
    """A protocol of httptools: keeps the first message, without its trailers."""

    def __init__(self) -> None:
        self.reading = Reading()
        self.parser: Parser | None = None
        self._is_head = True

    def on_url(self, url: bytes) -> None:
        if self.reading.verdict == "incomplete":
            self.reading.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_head:
            self.reading.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._is_head and self.parser is not None:
            self.reading.method = self.parser.get_method()
        self._is_head = False

    def on_body(self, body: bytes) -> None:
        if self.reading.verdict == "incomplete":
            self.reading.body += body

    def on_message_complete(self) -> None:
        self.reading.verdict = "complete"


def read_with_ours(pieces: list[bytes]) -> Reading:
    """Our parser's reading of what comes in pieces."""
    collector = Collector()
    parser = collector.parser = ours.HttpRequestParser(collector)
    try:
        for piece in pieces:
            parser.feed_data(piece)
    except ours.HttpParserUpgrade:
        return collector.reading
    except ours.HttpParserError as error:
        return _refused(collector.reading, error)
    return collector.reading


def read_with_llhttp(data: bytes) -> Reading:
    """The reading of llhttp."""
    collector = Collector()
    parser = collector.parser = httptools.HttpRequestParser(collector)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        return collector.reading
    except httptools.HttpParserError as error:
        return _refused(collector.reading, error)
    return collector.reading


def _refused(reading: Reading, error: Exception) -> Reading:
    # What is wrong behind the first message is not the first message's fault.
    if reading.verdict == "incomplete":
        reading.verdict = "refused"
        reading.reason = str(error)
    return reading


def read_with_h11(data: bytes) -> Reading:
    """h11's reading."""
    reading = Reading()
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    # RFC 9112 section 2.2 lets a server skip empty lines before a request; h11 does not, the others do.
    while data.startswith(b"\r\n"):
        data = data[2:]
    try:
        connection.receive_data(data)
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                reading.method, reading.target = event.method, event.target
                reading.headers = list(event.headers)
            elif isinstance(event, h11.Data):
                reading.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                reading.verdict = "complete"
                return reading
            else:
                return reading
    except h11.RemoteProtocolError as error:
        reading.verdict = "refused"
        reading.reason = str(error)
        return reading
