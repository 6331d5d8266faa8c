"""`Response`: sends an application's response, from `start_response` to the last byte; base of the handler."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from oneloop.green.pywsgi.response_parts import clock, encode_field, encode_status, known_field, parse_length

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["JOINED_BYTES", "Response"]

JOINED_BYTES = 65_536
"""The maximum size in bytes of data that is joined with the data before it and sent together."""
SPECIAL = frozenset(("connection", "content-length", "date", "transfer-encoding"))


class Response:
    """Sends one response after another. `WSGIHandler`, its subclass, decides when."""

    ApplicationError = AssertionError
    """Raised in an application that breaks the rules of WSGI."""

    # Attributes that the handler sets.
    server: Any
    socket: Any
    rfile: Any
    command: str | None
    request_version: str | None
    close_connection: bool

    status: Any = None
    """The status line after the version, as bytes."""
    code: int | None = None
    response_headers: list[tuple[bytes, bytes]] | None = None
    provided_date: Any = None
    provided_content_length: Any = None
    headers_sent = False
    response_use_chunked = False
    response_length = 0
    """The number of bytes sent, including the head."""
    result: Any = None
    connection_upgraded = False
    """Whether the connection has switched to another protocol."""

    _orig_status: str | None = None
    body_length = 0
    """The number of body bytes sent."""
    _declared_length: int | None = None
    _has_body = True

    def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Callable[[bytes], None]:
        """Start the response, as in PEP 3333.

        Args:
            status: the status code and the reason phrase, as in "200 OK".
            headers: a list of names and values.
            exc_info: the exception, if this replaces an earlier response by an error.

        Returns:
            `write`, a function that sends a piece of the body.

        Raises:
            UnicodeError: a text is not a str, or not latin-1.
            ValueError: the status is invalid, or a text has characters that would change the head.
            AssertionError: it was called before, and `exc_info` is not given.
        """
        if exc_info and self.headers_sent:
            try:
                raise exc_info[1].with_traceback(exc_info[2])
            finally:
                # Break the reference cycle between the traceback and this frame.
                exc_info = None
        if self.status is not None and not exc_info:
            raise self.ApplicationError("start_response() was already called: pass exc_info to replace the response")
        line, code = encode_status(status)
        encoded: list[tuple[bytes, bytes]] = []
        special: dict[str, str] = {}
        for field in headers:
            name, value, lower = known_field(field) or encode_field(field)
            if lower in SPECIAL:
                if lower in special and lower != "connection":
                    raise ValueError(f"more than one {field[0]} field", headers)
                special[lower] = field[1]
                if lower == "transfer-encoding" or (lower == "content-length" and code == 204):
                    # The server frames bodies, and a 204 response has no length (RFC 9110, 8.6).
                    continue
            encoded.append((name, value))
        self._set_response(status, line, code, encoded)
        self.provided_date = special.get("date")
        length = self.provided_content_length = special.get("content-length")
        if code == 204 and length not in (None, "0"):
            raise self.ApplicationError(f"a 204 response must not have a Content-Length, but it has {length!r}")
        self._declared_length = None if length is None else parse_length(length)
        self._tell_end(special.get("connection"))
        return self.write

    def _set_response(self, status: str, line: bytes, code: int, encoded: list[tuple[bytes, bytes]]) -> None:
        if code < 200 and code != 101:
            raise self.ApplicationError(f"{status!r} is not the status of a final response")
        self.status = line
        self._orig_status = status
        self.code = code
        self.response_headers = encoded
        self._has_body = self.command != "HEAD" and code != 204 and code != 304 and code != 101

    def _tell_end(self, connection: str | None) -> None:
        """Handle the Connection field: follow the application's, or add one if the client needs it."""
        assert self.response_headers is not None
        if connection is not None:
            if "close" in connection.lower():
                self.close_connection = True
            return
        if self.server.is_stopping:
            self.close_connection = True
        if self.close_connection:
            if self.code != 101:
                self.response_headers.append((b"Connection", b"close"))
        elif self.request_version == "HTTP/1.0":
            self.response_headers.append((b"Connection", b"keep-alive"))

    def finalize_headers(self) -> None:
        """Complete the head: add the date and the body's framing."""
        assert self.response_headers is not None
        assert self.code is not None
        if self.provided_date is None:
            self.response_headers.append((b"Date", clock.http_date()))
        self.connection_upgraded = self.code == 101
        if self.provided_content_length is not None or self.code in (101, 204, 304):
            return
        result = self.result
        if isinstance(result, (list, tuple)):
            length = sum(map(len, result))
            if length or self.command != "HEAD":
                # A HEAD response has no body here, so its length is not that of the GET response: do not send it.
                self.response_headers.append((b"Content-Length", b"%d" % length))
                self._declared_length = length
        elif self.command == "HEAD":
            return
        elif self.request_version == "HTTP/1.0":
            self._end_by_closing()
        else:
            self.response_use_chunked = True
            self.response_headers.append((b"Transfer-Encoding", b"chunked"))

    def _end_by_closing(self) -> None:
        """For HTTP/1.0: the end of the connection marks the end of the body."""
        assert self.response_headers is not None
        self.close_connection = True
        self.response_headers[:] = [one for one in self.response_headers if one[0].lower() != b"connection"]
        self.response_headers.append((b"Connection", b"close"))

    def write(self, data: bytes) -> None:
        """Send a piece of the body, with the head before it if that was not sent. `start_response` returns this method.

        Raises:
            AssertionError: there is no head, the response must not have a body, or the body exceeds its Content-Length.
            OSError: the client has disconnected.
        """
        if not self._write_allowed(data):
            raise self.ApplicationError(f"the body is longer than its Content-Length of {self._declared_length} bytes")

    def _write_allowed(self, data: bytes) -> bool:
        """Write as much as the Content-Length allows. Return whether that was all (PEP 3333)."""
        if data and (self.code == 204 or self.code == 304):
            raise self.ApplicationError(f"The {self.code} response must have no body")
        length = self._declared_length
        is_all = length is None or self.body_length + len(data) <= length or not self._has_body
        if not is_all:
            assert length is not None
            data = data[: length - self.body_length]
        if not self.headers_sent:
            if not self.status:
                raise self.ApplicationError("The application did not call start_response()")
            self._write_with_headers(data)
        elif data:
            self._write(data)
        return is_all

    def _write_with_headers(self, data: bytes) -> None:
        self.headers_sent = True
        self.finalize_headers()
        lines = [b"%b: %b\r\n" % field for field in self.response_headers or ()]
        head = b"HTTP/1.1 %b\r\n%b\r\n" % (self.status, b"".join(lines))
        if not data or (not self._has_body and self.code != 101):
            self._sendall(head)
        elif len(data) > JOINED_BYTES:
            self._sendall(head)
            self._write(data)
        else:
            self.body_length += len(data)
            if self.response_use_chunked:
                self._sendall(b"%b%x\r\n%b\r\n" % (head, len(data), data))
            else:
                self._sendall(head + data)

    def _write(self, data: bytes) -> None:
        if not data or (not self._has_body and self.code != 101):
            return
        self.body_length += len(data)
        if not self.response_use_chunked:
            self._sendall(data)
        elif len(data) <= JOINED_BYTES:
            self._sendall(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self._sendall(b"%x\r\n" % len(data))
            self._sendall(data)
            self._sendall(b"\r\n")

    def _sendall(self, data: bytes) -> None:
        reader = self.rfile
        patience_s = self.server.send_timeout
        try:
            if len(data) <= JOINED_BYTES:
                reader.deadline_s = None if patience_s is None else monotonic() + patience_s
                self.socket.sendall(data)
            else:
                # Send in pieces, so that the timeout applies to each piece.
                view = memoryview(data)
                for at in range(0, len(view), JOINED_BYTES):
                    reader.deadline_s = None if patience_s is None else monotonic() + patience_s
                    self.socket.sendall(view[at : at + JOINED_BYTES])
        except OSError as error:
            self.status = f"socket error: {error}"
            self.close_connection = True
            if self.code is not None and self.code > 0:
                self.code = -self.code
            raise
        finally:
            reader.deadline_s = None
        self.response_length += len(data)

    def _end_body(self) -> None:
        if self.response_use_chunked:
            if self._has_body:
                self._sendall(b"0\r\n\r\n")
        elif self._declared_length is not None and self._has_body and self.body_length < self._declared_length:
            self.close_connection = True
            raise self.ApplicationError(
                f"the body has {self.body_length} bytes, but its Content-Length is {self._declared_length}"
            )
