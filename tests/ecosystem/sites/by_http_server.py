"""The site on the standard library's http.server: PORT, and the time that connections are kept."""

from __future__ import annotations

import hashlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.ecosystem.sites.app import REFUSAL, answer, told


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    # As the other servers do: an answer is not held back for the next one.
    disable_nagle_algorithm = True

    def _say(self, status: int, own: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in [*own, ("X-Port", str(self.client_address[1]))]:
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        self._say(*answer(self.path, {name.lower(): value for name, value in self.headers.items()}))

    do_HEAD = do_GET  # noqa: N815 - the name is that of the module

    def do_POST(self) -> None:
        if self.path == "/early":
            self._say(413, [("Connection", "close")], REFUSAL)
            return
        length, digest = 0, hashlib.sha256()
        while piece := self._piece(length):
            length += len(piece)
            digest.update(piece)
        self._say(200, [], told(length, digest.hexdigest()))

    def _piece(self, before: int) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            size = int(self.rfile.readline(), 16)
            piece = self.rfile.read(size)
            self.rfile.readline()
            return piece
        return self.rfile.read(min(1 << 18, int(self.headers.get("Content-Length", 0)) - before))

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has left is no news."""


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
