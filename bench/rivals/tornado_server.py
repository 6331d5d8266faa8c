"""tornado's echo servers: TCPServer with IOStream, and its HTTP server."""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

import asyncio

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError
from tornado.tcpserver import TCPServer
from tornado.web import Application, RequestHandler

from bench.rivals import endpoint
from bench.rivals.cpu_work import work
from bench.rivals.endpoint import Endpoint

READ = 1 << 18


class EchoServer(TCPServer):  # type: ignore[misc,unused-ignore]
    form = "protocol"
    size = 64

    async def handle_stream(self, stream: IOStream, address: object) -> None:
        endpoint.no_delay(stream.socket)
        rest = b""
        try:
            while True:
                data = await stream.read_bytes(READ, partial=True)
                if self.form == "work":
                    work()
                if self.form != "pipeline":
                    await stream.write(data)
                if self.form == "accept":
                    stream.close()
                    return
                if self.form == "pipeline":
                    data = rest + data
                    whole = len(data) // self.size * self.size
                    for at in range(0, whole, self.size):
                        stream.write(data[at : at + self.size])
                    rest = data[whole:]
        except StreamClosedError:
            return


class Pages(RequestHandler):  # type: ignore[misc,unused-ignore]
    def get(self, size: str) -> None:
        self.set_header("Content-Type", "text/plain")
        self.finish(b"x" * int(size))

    def compute_etag(self) -> None:
        """Turns off the ETag, because no other rival computes a hash of its body."""


async def main(where: Endpoint) -> None:
    listener = endpoint.listen(where)
    context = endpoint.tls_context(where)
    server: TCPServer
    if where.form == "http":
        server = HTTPServer(Application([(r"/(\d+)", Pages)], log_function=lambda _: None))
    else:
        server = EchoServer(ssl_options=context)
        server.form, server.size = where.form, where.size
    server.add_sockets([listener])
    endpoint.announce(listener)
    await asyncio.Event().wait()


asyncio.run(main(endpoint.parse()))
