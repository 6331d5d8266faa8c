"""Server-Sent Events (WHATWG HTML, section 9.2): `EventSource` iterates over the events of a streamed response."""

from __future__ import annotations

import json as jsonlib
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oneloop.http.client.errors import TransportError

if TYPE_CHECKING:
    from oneloop.http.client.responses import Response

__all__ = ["EventSource", "SSEError", "ServerSentEvent"]

MAX_EVENT_BYTES = 1 << 20
WANTS_EVENTS = {"accept": "text/event-stream", "cache-control": "no-store"}

# More is no time to wait, and Python refuses to read thousands.
_MOST_DIGITS = 18
_LINE_END = re.compile(r"\r\n|\n|\r")


class SSEError(TransportError):
    """The response is no stream of events, or an event is too long."""


@dataclass(frozen=True)
class ServerSentEvent:
    """One event.

    Attributes:
        event: its type.
        data: its lines, joined by line feeds.
        id: the last id that the server has sent, for `Last-Event-ID`.
        retry: how long to wait before the next connection, in milliseconds.
    """

    event: str = "message"
    data: str = ""
    id: str = ""
    retry: int | None = None

    def json(self) -> Any:
        """Return the data parsed as JSON."""
        return jsonlib.loads(self.data)


class EventSource:
    """The events of a response, in a `for` or `async for` statement. An event that the end cuts off is dropped.

    Args:
        response: a streamed response; see `AsyncClient.sse`.
        max_event_size: the most bytes of one event; None: no limit.

    Raises:
        SSEError: while iterating: the content type is not text/event-stream, or an event is too long.
    """

    def __init__(self, response: Response, max_event_size: int | None = MAX_EVENT_BYTES) -> None:
        self._response = response
        self._max_event_size = max_event_size

    @property
    def response(self) -> Response:
        """The response."""
        return self._response

    def __iter__(self) -> Iterator[ServerSentEvent]:
        parser = self._parser()
        for text in self._response.iter_text():
            yield from parser.add(text)

    async def __aiter__(self) -> AsyncIterator[ServerSentEvent]:
        parser = self._parser()
        async for text in self._response.aiter_text():
            for event in parser.add(text):
                yield event

    def _parser(self) -> _Parser:
        content_type = self._response.headers.get("content-type", "").partition(";")[0].strip()
        if content_type.lower() != "text/event-stream":
            status = self._response.status_code
            told = "" if status == 200 else f" The response has status {status}."
            raise SSEError(
                f"Expected response with content type 'text/event-stream', got {content_type!r}.{told}",
                request=self._response.request,
            )
        return _Parser(self._response, self._max_event_size)


class _Parser:
    def __init__(self, response: Response, limit: int | None) -> None:
        self._response = response
        self._limit = limit
        # Of a line whose end has not come.
        self._held: list[str] = []
        self._held_len = 0
        self._is_first = True
        # The line feed of a CRLF may come later than its carriage return, which ends the line.
        self._is_after_cr = False
        self._last_id = ""
        self._start()

    def _start(self) -> None:
        self._event = ""
        self._data: list[str] = []
        self._retry: int | None = None
        self._has_fields = False
        self._size = 0

    def add(self, text: str) -> Iterator[ServerSentEvent]:
        """Return the events that end in this text."""
        if self._is_first and text:
            self._is_first = False
            text = text.removeprefix("\ufeff")
        if self._is_after_cr and text:
            text = text.removeprefix("\n")
            self._is_after_cr = False
        at = 0
        for end in _LINE_END.finditer(text):
            self._held.append(text[at : end.start()])
            line, at = "".join(self._held), end.end()
            self._held.clear()
            self._held_len = 0
            self._is_after_cr = end[0] == "\r" and at == len(text)
            if line:
                self._take(line)
                continue
            if self._has_fields:
                yield ServerSentEvent(self._event or "message", "\n".join(self._data), self._last_id, self._retry)
            self._start()
        if at < len(text):
            self._held.append(text[at:])
            self._held_len += len(text) - at
        self._check(self._held_len)

    def _take(self, line: str) -> None:
        size = len(line.encode())
        if line.startswith(":"):
            # A comment, which keeps a stream alive, is no part of an event.
            self._check(size)
            return
        name, _, value = line.partition(":")
        self._size += size
        self._check(0)
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._last_id = value
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
            self._retry = int(value)
        else:
            # A field that nobody knows.
            return
        self._has_fields = True

    def _check(self, held: int) -> None:
        if self._limit is not None and self._size + held > self._limit:
            raise SSEError(f"Server-sent event exceeded the {self._limit} byte limit.", request=self._response.request)
