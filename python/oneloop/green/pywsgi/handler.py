"""`WSGIHandler`: handles the requests of one connection, one after another.

```text
waiting → head received → application runs → answered → waiting
                    ↘ refused ─────────────↘ closed
```
Subclasses can override every step; the methods and attributes have gevent's names. Requests are checked in `heads`,
`framing` and `body`, an application's response in `response`.
"""

from __future__ import annotations

import errno
import sys
import time
import traceback
from typing import Any
from urllib.parse import unquote

from greenlet import GreenletExit

from oneloop.green import socket as _socket
from oneloop.green.hub import get_hub, sleep
from oneloop.green.pywsgi import heads
from oneloop.green.pywsgi.body import Input, InvalidInputError
from oneloop.green.pywsgi.fields import Headers
from oneloop.green.pywsgi.framing import Frame, add_field, frame, split_target
from oneloop.green.pywsgi.logs import NoLog, quoted
from oneloop.green.pywsgi.reader import Reader
from oneloop.green.pywsgi.response import JOINED_BYTES, Response
from oneloop.green.pywsgi.response_parts import clock, refusal

__all__ = ["WSGIHandler"]

MAX_DISCARDED_BYTES = 131_072
"""The maximum of unread body bytes that are read to keep the connection open; with more, it is closed."""
LINGER_BYTES = 1_048_576
LINGER_S = 2.0


class WSGIHandler(Response):
    """Handles a connection of a `WSGIServer`, which creates one for each connection. May be subclassed.

    Args:
        sock: the connection.
        address: the client's address.
        server: the `WSGIServer`.
        rfile: read from this instead of the connection.
    """

    protocol_version = "HTTP/1.1"
    ignored_socket_errors: tuple[int, ...] = (errno.EPIPE, errno.ECONNRESET)
    """Errors of a client that has disconnected: the connection is closed without a report."""

    # State of the current request.
    requestline: str | None = None
    command: str | None = None
    path: str | None = None
    """The target as received."""
    request_version: str | None = None
    headers: Any = Headers([])
    content_length: int | None = None
    environ: Any = None
    application: Any = None
    wsgi_input: Any = None
    time_start: float = 0
    time_finish: float = 0

    _line: str | None = None
    _parsed: heads.Parsed | None = None
    _head_error: heads.HeadError | None = None
    _frame = Frame(None, False, False, False, "")
    _fields: dict[str, str] = {}  # noqa: RUF012 - replaced for each request
    _target: Any = None

    _print_unexpected_exc = staticmethod(traceback.print_exc)
    """Prints an exception that a log has raised. Subclasses override this private name of gevent's."""

    def __init__(self, sock: Any, address: Any, server: Any, rfile: Any = None) -> None:
        self.socket = sock
        self.client_address = address
        self.server = server
        self.rfile: Any = Reader(sock, server.max_head_bytes) if rfile is None else rfile

    # -- the connection ------------------------------------------------------------------------------

    def handle(self) -> None:
        """Handle requests until the connection ends, and close it. Called by the server."""
        self.server.enter(self.rfile)
        try:
            while self.socket is not None:
                self.time_start = time.time()
                self.time_finish = 0
                result = self.handle_one_request()
                if result is None:
                    break
                if result is True:
                    continue
                self.status, answer = result
                self._orig_status = None
                self._send_refusal(answer)
                break
        finally:
            sock, self.socket = self.socket, None
            rfile, self.rfile = self.rfile, None
            self.wsgi_input = None
            self.server.leave(rfile)
            if sock is not None:
                sock.close()

    def _send_refusal(self, answer: bytes) -> None:
        try:
            self.socket.sendall(answer)
            self.response_length += len(answer)
            self._linger()
        except OSError as error:
            self.status = f"socket error: {error}"
        self.time_finish = time.time()
        self.log_request()

    def _linger(self) -> None:
        """Receive what the client still sends: if unread data is left, closing resets the connection."""
        if self.connection_upgraded or not hasattr(self.socket, "shutdown"):
            return
        try:
            self.socket.shutdown(_socket.SHUT_WR)
            end_s = time.monotonic() + LINGER_S
            left = LINGER_BYTES
            while left > 0 and time.monotonic() < end_s:
                self.socket.settimeout(max(end_s - time.monotonic(), 0.001))
                data = self.socket.recv(65_536)
                if not data:
                    return
                left -= len(data)
        except OSError:
            # The client has disconnected, or sends nothing more.
            return

    def handle_one_request(self) -> Any:
        """Handle the next request.

        Returns:
            True if another request may follow. None if the connection must end. A status and a complete response in
            bytes if the request is refused.
        """
        if self.rfile is None or self.rfile.closed:
            return None
        try:
            requestline = self._received_line()
        except TimeoutError:
            return self._refused(408)
        except OSError:
            # A disconnected client is not an error.
            return None
        if not requestline and self._head_error is None:
            return None
        self.requestline = requestline
        self.response_length = 0
        try:
            if not self.read_request(requestline):
                return self._refused(400)
            self.environ = self.get_environ()
        except Exception as error:  # noqa: BLE001 - it is logged, and the client gets an error response
            return self._handle_client_error(error)
        self.application = self.server.application
        self.handle_one_response()
        if self.close_connection:
            self._end_politely()
            return None
        if self.rfile is None or self.rfile.closed or self.server.is_stopping:
            return None
        if getattr(self.rfile, "has_rest", False):
            # Let other connections run between pipelined requests.
            sleep(0)
        return True

    def _received_line(self) -> str:
        """Wait for a request line; see `read_requestline`, which old subclasses override in their own ways."""
        line: Any = self.read_requestline()
        if line is None:
            # A subclass has answered. Closing a socket with unread data would reset the connection.
            self._linger()
        return line.decode("latin-1") if isinstance(line, bytes) else line or ""

    def _end_politely(self) -> None:
        """Receive unread data of the client before the connection is closed."""
        unread = getattr(self.rfile, "has_rest", False)
        body = self.wsgi_input
        if self.socket is not None and (unread or (isinstance(body, Input) and not body.is_at_end)):
            self._linger()

    def _refused(self, status: int) -> tuple[str, bytes]:
        return refusal(status)

    # -- the head ------------------------------------------------------------------------------------

    def read_requestline(self) -> str:
        """Wait for a request and return its first line; "" if the connection ends.

        The rest of the head is received too. If the head is invalid, `read_request` raises the error.
        """
        server = self.server
        self._head_error = None
        self._parsed = None
        try:
            parsed = self.rfile.read_head(server.keep_alive_timeout, server.head_timeout)
        except heads.HeadError as error:
            self._head_error = error
            return ""
        if parsed is None:
            return ""
        self._parsed = parsed
        self._line = line = f"{parsed[0]} {parsed[1]} {parsed[2]}"
        return line

    def read_request(self, raw_requestline: str) -> bool:
        """Set the attributes from the head.

        They are `command`, `path`, `request_version`, `headers`, `content_length` and `close_connection`.

        Args:
            raw_requestline: the result of `read_requestline`.

        Raises:
            ValueError: the request is refused.
        """
        if self._head_error is not None:
            raise self._head_error
        parsed = self._parsed
        if parsed is None or raw_requestline is not self._line:
            self.requestline = raw_requestline.rstrip()
        if parsed is None:
            # A subclass has read the request line itself.
            parsed = self._read_rest_of_head()
        self.command, self.path, version, listed, _ = parsed
        if raw_requestline is not self._line:
            # A subclass has changed the request line.
            assert self.requestline is not None
            self.command, self.path, version = heads.parse_request_line(self.requestline)
        self.request_version = version
        self.headers = Headers(listed)
        fields: dict[str, str] = {}
        for name, value in listed:
            key = heads.known_key(name)
            if key is None:
                key = heads.environ_key(name)
            if key:
                if key in fields:
                    add_field(fields, key, value)
                else:
                    fields[key] = value
        self._fields = fields
        self._frame = framed = frame(version, fields)
        self._target = split_target(self.command, self.path)
        self.content_length = framed.content_length
        self.close_connection = not framed.keeps_alive
        return True

    def _read_rest_of_head(self) -> heads.Parsed:
        assert self.requestline is not None
        head = bytearray(self.requestline.encode("latin-1") + b"\r\n")
        while True:
            line = self.rfile.readline(65_536)
            head += line
            if line == b"\r\n" or not line.endswith(b"\n") or len(head) > 65_536:
                break
        parsed = heads.parse(bytes(head))
        if parsed is None:
            raise heads.HeadError("the head of the request is incomplete")
        return parsed

    def _connection_upgrade_requested(self) -> bool:
        """Whether the client wants another protocol and sends no body. h2c is not supported, so it does not count."""
        framed = self._frame
        return framed.upgrade not in ("", "h2c") and not framed.is_chunked and not framed.content_length

    def get_environ(self) -> Any:
        """Create the environ of the request from the server's environ and the head."""
        env = self.server.get_environ()
        framed = self._frame
        path, query, host = self._target
        env["REQUEST_METHOD"] = self.command
        env["SCRIPT_NAME"] = ""
        env["PATH_INFO"] = unquote(path, "latin-1") if "%" in path else path
        env["QUERY_STRING"] = query
        env["SERVER_PROTOCOL"] = self.request_version
        address = self.client_address
        if isinstance(address, tuple):
            env["REMOTE_ADDR"] = str(address[0])
            env["REMOTE_PORT"] = str(address[1])
        env.update(self._fields)
        if host is not None:
            env["HTTP_HOST"] = host
        reader = self.rfile
        waits = self.socket if framed.expects_continue else None
        self.wsgi_input = Input(reader, framed.content_length, waits, framed.is_chunked)
        takes_over = framed.upgrade != "" and self._connection_upgrade_requested()
        if takes_over:
            # The application will read from the connection directly, without a time limit.
            reader.patience_s = None
            self.close_connection = True
        else:
            reader.patience_s = self.server.body_timeout
        env["wsgi.input"] = reader if takes_over else self.wsgi_input
        env["wsgi.input_terminated"] = not takes_over
        return env

    # -- the response --------------------------------------------------------------------------------

    def handle_one_response(self) -> None:
        """Call the application, send its response, and handle its errors."""
        self.time_start = time.time()
        self.status = None
        self._orig_status = None
        self.code = None
        self.headers_sent = False
        self.result = None
        self.response_use_chunked = False
        self.connection_upgraded = False
        self.response_length = 0
        self.body_length = 0
        try:
            self.run_application()
            self._finish_request()
        except InvalidInputError as error:
            # It is logged, because the application may have used a part of the body.
            self._handle_client_error(error)
            self.close_connection = True
            self._send_error_response_if_possible(400)
        except OSError as error:
            if error.args and error.args[0] in self.ignored_socket_errors:
                self.close_connection = True
            elif isinstance(error, TimeoutError) and self._is_broken_off():
                self.close_connection = True
                self._send_error_response_if_possible(408)
            else:
                self.handle_error(*sys.exc_info())
        except BaseException:  # noqa: BLE001 - it is reported; the hub then handles exceptions that end the program
            self.handle_error(*sys.exc_info())
        finally:
            self.time_finish = time.time()
            self.log_request()

    def _is_broken_off(self) -> bool:
        """Whether reading the body has failed."""
        return isinstance(self.wsgi_input, Input) and self.wsgi_input.is_broken

    def _finish_request(self) -> None:
        """Prepare for the next request, or mark the connection for closing."""
        if self.connection_upgraded:
            self.close_connection = True
        body = self.wsgi_input
        if not self.close_connection and body is not None and not body.is_at_end:
            self.close_connection = not body.discard(MAX_DISCARDED_BYTES)

    def run_application(self) -> None:
        """Call the application, send its result, and close the result."""
        assert self.result is None
        try:
            self.result = self.application(self.environ, self.start_response)
            self.process_result()
        finally:
            close = getattr(self.result, "close", None)
            try:
                if close is not None:
                    close()
            finally:
                self.result = None

    def process_result(self) -> None:
        """Send the application's result."""
        result = self.result
        if isinstance(result, (list, tuple)) and len(result) > 1 and sum(map(len, result)) <= JOINED_BYTES:
            result = (b"".join(result),)
        for data in result:
            if data and not self._write_allowed(data):
                break
        if not self.headers_sent:
            if self.status:
                self.write(b"")
            elif self.response_length == 0 and not self._connection_upgrade_requested():
                # As in gevent, this is not reported as an exception of the application.
                self.log_error("the application did not call start_response()")
                self._send_error_response_if_possible(500)
                return
        self._end_body()

    # -- errors --------------------------------------------------------------------------------------

    def handle_error(self, kind: Any, value: Any, trace: Any) -> None:
        """Report an error of the application, and send a 500 response if nothing was sent."""
        self._log_error(kind, value, trace)
        if issubclass(kind, GreenletExit):
            self.close_connection = True
        self._send_error_response_if_possible(500)

    def _log_error(self, kind: Any, value: Any, trace: Any) -> None:
        if issubclass(kind, GreenletExit):
            return
        context = self.environ
        secure = self.server.secure_environ_class
        if not isinstance(context, secure):
            context = secure(context or {})
        get_hub().handle_error(context, kind, value, trace)

    def _handle_client_error(self, error: Exception) -> tuple[str, bytes]:
        """Log a refused request, and return the response."""
        if not isinstance(error, (ValueError, InvalidInputError, TimeoutError)):
            traceback.print_exception(error)
        told = str(error) or type(error).__name__
        self.log_error("Invalid request (from %s): %s", self.client_address, told)
        return self._refused(getattr(error, "status", 400))

    def _send_error_response_if_possible(self, code: int) -> None:
        """Send an error response if nothing was sent. The connection is closed in any case."""
        self.close_connection = True
        if self.response_length or self.socket is None:
            return
        phrase = {400: "Bad Request", 408: "Request Timeout", 500: "Internal Server Error"}[code]
        body = phrase.encode() if code == 500 else b""
        self.status = None
        self.headers_sent = False
        self.result = None
        self.response_use_chunked = False
        self.body_length = 0
        try:
            fields = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
            self.start_response(f"{code} {phrase}", fields)
            self.write(body)
        except OSError:
            # The client has disconnected; `status` says so.
            return

    # -- logs ----------------------------------------------------------------------------------------

    def log_error(self, msg: str, *args: Any) -> None:
        """Write a message to the server's error log. Arguments are formatted into it with `%`."""
        text = msg % args if args else msg
        self.server.error_log.write(f"{quoted(text)}\n")

    def log_request(self) -> None:
        """Write a line about the request and the response to the server's log."""
        log = self.server.log
        if type(log) is not NoLog:
            log.write(self.format_request() + "\n")

    def format_request(self) -> str:
        """Return the line for the log."""
        address = self.client_address
        client = address[0] if isinstance(address, tuple) else address
        taken = f"{self.time_finish - self.time_start:.6f}" if self.time_finish else "-"
        status = self._orig_status or self.status or "000"
        text = status.decode("latin-1") if isinstance(status, bytes) else status
        asked = quoted(self.requestline or "")
        return (
            f'{client or "-"} - - [{clock.local()}] "{asked}" {text.split()[0]} {self.response_length or "-"} {taken}'
        )
