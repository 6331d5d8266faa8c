"""A pytest plugin for httpcore's test suite: the fixtures of pytest-httpbin, with a server that answers everything."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from test.test_asyncio import utils as cpython


class Handler(BaseHTTPRequestHandler):
    """Answers 200 with the JSON of the request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b'{"json": %b}' % (sent or b"null")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the standard library's name

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"


def serving(server: Server) -> Iterator[Server]:
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def httpbin() -> Iterator[Server]:
    yield from serving(Server(("127.0.0.1", 0), Handler))


@pytest.fixture
def httpbin_secure() -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cpython.ONLYCERT, cpython.ONLYKEY)
    server = Server(("127.0.0.1", 0), Handler)
    server.scheme = "https"
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    yield from serving(server)
