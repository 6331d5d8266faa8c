"""`WSGIHandler`: the requests of one connection, one after the other.

```text
waiting → head received → application runs → answered → waiting
                    ↘ refused ─────────────↘ closed
```
Subclasses take over at any step; the methods and attributes have gevent's names. What a request says is checked in
`heads`, `framing` and `body`; what an application answers, in `response`.
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
from oneloop.green.pywsgi.answers import clock, refusal
from oneloop.green.pywsgi.body import Input, InvalidInputError
from oneloop.green.pywsgi.fields import Headers
from oneloop.green.pywsgi.framing import Frame, add_field, frame, split_target
from oneloop.green.pywsgi.logs import NoLog, quoted
from oneloop.green.pywsgi.reader import Reader
from oneloop.green.pywsgi.response import JOINED_BYTES, Response

__all__ = ["WSGIHandler"]

MAX_DISCARDED_BYTES = 131_072
"""So much of a body that nobody has read is read for the sake of the next request; else the connection ends."""
LINGER_BYTES = 1_048_576
LINGER_S = 2.0


class WSGIHandler(Response):
    """Handles a connection of a `WSGIServer`; made by it for each. May be subclassed.

    Args:
        sock: the connection.
        address: of the client.
        server: the `WSGIServer`.
        rfile: what is read instead of the connection.
    """

    protocol_version = "HTTP/1.1"
    ignored_socket_errors: tuple[int, ...] = (errno.EPIPE, errno.ECONNRESET)
    """Of a client that has gone: the connection ends, and nobody is told."""

    # Of the request.
    requestline: str | None = None
    command: str | None = None
    path: str | None = None
    """The target, as it came."""
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

    def __init__(self, sock: Any, address: Any, server: Any, rfile: Any = None) -> None:
        self.socket = sock
        self.client_address = address
        self.server = server
        self.rfile: Any = Reader(sock, server.max_head_bytes) if rfile is None else rfile

    # -- the connection ------------------------------------------------------------------------------

    def handle(self) -> None:
        """Handle requests until the connection is to end, and close it. Called by the server."""
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
        """Take what the client still sends: else the kernel would tell it of a broken connection, not of the answer."""
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
            # The client has gone, or sends nothing more.
            return

    def handle_one_request(self) -> Any:
        """Handle the next request.

        Returns:
            True if there may be another one; None if the connection is to end; a status and a whole answer as bytes if
            the request is refused.
        """
        if self.rfile is None or self.rfile.closed:
            return None
        try:
            requestline = self.read_requestline()
        except TimeoutError:
            return self._refused(408)
        except OSError:
            # A client that has gone is no news.
            return None
        if not requestline and self._head_error is None:
            return None
        self.requestline = requestline
        self.response_length = 0
        try:
            if not self.read_request(requestline):
                return self._refused(400)
            self.environ = self.get_environ()
        except Exception as error:  # noqa: BLE001 - it is logged, and the client is told
            return self._handle_client_error(error)
        self.application = self.server.application
        self.handle_one_response()
        if self.close_connection:
            self._end_politely()
            return None
        if self.rfile is None or self.rfile.closed or self.server.is_stopping:
            return None
        if getattr(self.rfile, "has_rest", False):
            # A client that sends many requests at once waits for its turn.
            sleep(0)
        return True

    def _end_politely(self) -> None:
        """The connection ends: what the client has sent in vain is taken first."""
        unread = getattr(self.rfile, "has_rest", False)
        body = self.wsgi_input
        if self.socket is not None and (unread or (isinstance(body, Input) and not body.is_at_end)):
            self._linger()

    def _refused(self, status: int) -> tuple[str, bytes]:
        return refusal(status)

    # -- the head ------------------------------------------------------------------------------------

    def read_requestline(self) -> str:
        """Wait for a request: its first line; "" if the connection ends instead.

        The rest of the head is received with it. A head that is refused is told by `read_request`.
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
        """Take in the head: `command`, `path`, `request_version`, `headers`, `content_length`, `close_connection`.

        Raises:
            ValueError: the request is refused.
        """
        if self._head_error is not None:
            raise self._head_error
        parsed = self._parsed
        if parsed is None or raw_requestline is not self._line:
            self.requestline = raw_requestline.rstrip()
        if parsed is None:
            # A subclass has read the line itself.
            parsed = self._read_rest_of_head()
        self.command, self.path, version, listed, _ = parsed
        if raw_requestline is not self._line:
            # A subclass has changed it.
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
            raise heads.HeadError("not the end of a head")
        return parsed

    def _connection_upgrade_requested(self) -> bool:
        """The client asks for another protocol, and sends no body first. h2c is not known, hence not asked for."""
        framed = self._frame
        return framed.upgrade not in ("", "h2c") and not framed.is_chunked and not framed.content_length

    def get_environ(self) -> Any:
        """The environ of the request: a copy of the server's, and what the head says."""
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
            # Somebody else will read from the connection, and for as long as they like.
            reader.patience_s = None
            self.close_connection = True
        else:
            reader.patience_s = self.server.body_timeout
        env["wsgi.input"] = reader if takes_over else self.wsgi_input
        env["wsgi.input_terminated"] = not takes_over
        return env

    # -- the answer ----------------------------------------------------------------------------------

    def handle_one_response(self) -> None:
        """Have the application answer, and deal with its errors."""
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
            # It is told, since the application may have acted on a part of the body.
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
        except BaseException:  # noqa: BLE001 - it is reported, and what ends the program goes on from there
            self.handle_error(*sys.exc_info())
        finally:
            self.time_finish = time.time()
            self.log_request()

    def _is_broken_off(self) -> bool:
        """Whether the client let the application wait for its body."""
        return isinstance(self.wsgi_input, Input) and self.wsgi_input.is_broken

    def _finish_request(self) -> None:
        """Be ready for the next request, or know that there is none."""
        if self.connection_upgraded:
            self.close_connection = True
        body = self.wsgi_input
        if not self.close_connection and body is not None and not body.is_at_end:
            self.close_connection = not body.discard(MAX_DISCARDED_BYTES)

    def run_application(self) -> None:
        """Call the application, send what it gives, and close that."""
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
        """Send what the application has given."""
        result = self.result
        if isinstance(result, (list, tuple)) and len(result) > 1 and sum(map(len, result)) <= JOINED_BYTES:
            result = (b"".join(result),)
        for data in result:
            if data:
                self.write(data)
        if not self.headers_sent:
            if self.status:
                self.write(b"")
            elif self.response_length == 0 and not self._connection_upgrade_requested():
                raise self.ApplicationError("the application did not call start_response()")
        self._end_body()

    # -- errors --------------------------------------------------------------------------------------

    def handle_error(self, kind: Any, value: Any, trace: Any) -> None:
        """An error of the application: it is reported, and the client gets a 500 if nothing was sent."""
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
        """A request that is refused: it is logged. Returns the answer."""
        if not isinstance(error, (ValueError, InvalidInputError, TimeoutError)):
            traceback.print_exception(error)
        told = str(error) or type(error).__name__
        self.log_error("Invalid request (from %s): %s", self.client_address, told)
        return self._refused(getattr(error, "status", 400))

    def _send_error_response_if_possible(self, code: int) -> None:
        """Answer with an error, if nothing was sent; the connection ends otherwise."""
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
            # The client has gone: `status` says so.
            return

    # -- logs ----------------------------------------------------------------------------------------

    def log_error(self, msg: str, *args: Any) -> None:
        """Write a message to the server's error log; with arguments, they are filled in with `%`."""
        text = msg % args if args else msg
        self.server.error_log.write(f"{quoted(text)}\n")

    def log_request(self) -> None:
        """Write what was asked and answered to the server's log."""
        log = self.server.log
        if type(log) is not NoLog:
            log.write(self.format_request() + "\n")

    def format_request(self) -> str:
        """The line of the log."""
        address = self.client_address
        client = address[0] if isinstance(address, tuple) else address
        taken = f"{self.time_finish - self.time_start:.6f}" if self.time_finish else "-"
        status = self._orig_status or self.status or "000"
        text = status.decode("latin-1") if isinstance(status, bytes) else status
        asked = quoted(self.requestline or "")
        return (
            f'{client or "-"} - - [{clock.local()}] "{asked}" {text.split()[0]} {self.response_length or "-"} {taken}'
        )
