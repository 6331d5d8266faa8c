"""An HTTP server in real threads, for clients that are to be many at once."""

from __future__ import annotations

import collections
import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests import certificates

LIMIT_S = 60.0


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 200
    daemon_threads = False

    def __init__(
        self, together: collections.defaultdict[int, threading.Barrier], context: ssl.SSLContext | None
    ) -> None:
        self.together = together
        self.asked: collections.Counter[str] = collections.Counter()
        super().__init__(("127.0.0.1", 0), Handler)
        self.context = context

    def finish_request(self, request: object, client_address: object) -> None:
        """In a thread of its own: the handshake too."""
        assert not isinstance(request, tuple)
        if self.context is None:
            super().finish_request(request, client_address)  # type: ignore[arg-type]
            return
        with self.context.wrap_socket(request, server_side=True) as secure:  # type: ignore[arg-type]
            super().finish_request(secure, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients go away on purpose."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one segment: two would wait for an acknowledgement that is delayed.
    wbufsize = -1
    server: Server

    def do_GET(self) -> None:
        kind, _, rest = self.path[1:].partition("/")
        if kind == "together":
            self.wait_for(int(rest))
            self.answer(b"all")
        elif kind == "never":
            self.connection.recv(1)
            self.close_connection = True
        elif kind == "half":
            self.wait_for(int(rest))
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"h" * 500)
            self.close_connection = True
        elif kind == "gone":
            self.close_connection = True
        elif kind == "third":
            self.server.asked[rest] += 1
            self.answer(b"", 200 if self.server.asked[rest] == 3 else 503)
        else:
            self.answer(b"hello")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            pieces = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            self.answer(b"".join(pieces))
        else:
            self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def wait_for(self, count: int) -> None:
        """Until there are so many, on all servers that share their barriers."""
        self.server.together[count].wait(LIMIT_S)

    def answer(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Barriers(collections.defaultdict[int, threading.Barrier]):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def __getitem__(self, count: int) -> threading.Barrier:
        with self.lock:
            return self.setdefault(count, threading.Barrier(count))


@contextmanager
def serving(is_secure: bool, together: Barriers) -> Iterator[int]:
    """Its port."""
    with Server(together, certificates.server_context() if is_secure else None) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
