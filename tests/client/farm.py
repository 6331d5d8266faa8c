"""Servers for the client's tests: one for each manner, in threads, with plain sockets."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.certificates import server_context

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Two: a\r\nX-Two: b\r\n\r\nhello"

# Path -> what is sent for a request, and what happens then: "keep", "close", "stall".
MANNERS: dict[str, tuple[bytes, str]] = {
    "/kept": (OK, "keep"),
    "/closed": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", "close"),
    "/until-close": (b"HTTP/1.1 200 OK\r\n\r\nhello", "close"),
    "/old": (b"HTTP/1.0 200 Fine\r\nContent-Length: 5\r\n\r\nhello", "close"),
    "/chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n", "keep"),
    "/nothing": (b"HTTP/1.1 204 No Content\r\n\r\n", "keep"),
    "/hints": (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, "keep"),
    "/behind": (OK + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen", "keep"),
    "/silent": (b"", "close"),
    "/stalls": (b"", "stall"),
    "/stalls-in-body": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", "stall"),
    "/short": (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", "close"),
    "/broken-chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "close"),
    "/bad-chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "close"),
    "/not-http": (b"SSH-2.0-OpenSSH\r\n\r\n", "close"),
    "/two-lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "close"),
}


class Farm:
    """A server for all manners.

    Attributes:
        port: its port; None on a Unix socket.
        heads: the heads of requests, as they came.
        connections: how many were accepted.
    """

    def __init__(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        self._listener = listener
        self._context = context
        self._end = threading.Event()
        self._open: list[socket.socket] = []
        self.port = listener.getsockname()[1] if listener.family == socket.AF_INET else None
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        self._open.append(connection)
        with suppress(OSError):
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            with connection, connection.makefile("rb") as reader:
                while self._answer(connection, reader.readline, reader.read):
                    pass

    def _answer(self, connection: socket.socket, line: Callable[[], bytes], read: Callable[[int], bytes]) -> bool:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            got = line()
            if not got:
                return False
            head += got
        self.heads.append(head)
        method, target = head.decode("latin-1").split(" ", 2)[:2]
        if method == "CONNECT":
            return self._tunnel(connection, target)
        path = "/" + target.split("://", 1)[-1].partition("/")[2] if "://" in target else target
        if path == "/early":
            connection.sendall(b"HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
            return False
        if path == "/upgrade":
            connection.sendall(b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nleading ")
            connection.sendall(connection.recv(100))
            return False
        self.bodies.append(self._body(head, line, read))
        if path == "/echo":
            body = self.bodies[-1]
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            return True
        data, then = MANNERS[path]
        if method == "HEAD":
            data = data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        connection.sendall(data)
        if then == "stall":
            self._end.wait(20)
        return then == "keep"

    @staticmethod
    def _body(head: bytes, line: Callable[[], bytes], read: Callable[[int], bytes]) -> bytes:
        fields = dict(field.lower().split(b": ", 1) for field in head.split(b"\r\n")[1:-2])
        if fields.get(b"transfer-encoding") == b"chunked":
            body = b""
            while length := int(line(), 16):
                body += read(length)
                line()
            line()
            return body
        return read(int(fields.get(b"content-length", 0)))

    def _tunnel(self, connection: socket.socket, target: str) -> bool:
        host, _, port = target.rpartition(":")
        if host == "refused":
            connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return False
        with socket.create_connection((host, int(port))) as other:
            self._open.append(other)
            connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            back = threading.Thread(target=self._copy, args=(other, connection), daemon=True)
            back.start()
            self._copy(connection, other)
            back.join(60)
        return False

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._end.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join(60)


@contextmanager
def farm(*, secured: bool = False, path: Path | None = None) -> Iterator[Farm]:
    """Serve on a port of 127.0.0.1, or on a Unix socket."""
    if path is None:
        listener = socket.create_server(("127.0.0.1", 0))
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
    served = Farm(listener, server_context() if secured else None)
    try:
        yield served
    finally:
        served.close()
