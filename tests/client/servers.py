"""`RawServer`: a server in threads, whose connections each run a function of the test on a blocking socket."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Self

from tests.certificates import server_context

HEAD_END = b"\r\n\r\n"
FIN_WAIT1 = 4
"""netinet/tcp.h: an end was sent, and is not acknowledged yet."""


class LeftError(AssertionError):
    """The client has closed the connection before it had sent what the server waits for."""


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock = sock
        self.number = number
        """How many connections came before."""
        self._held = b""

    def head(self) -> bytes:
        """Read one head; b"" if the client has closed the connection."""
        while HEAD_END not in self._held:
            data = self.sock.recv(65536)
            if not data:
                return b""
            self._held += data
        head, _, self._held = self._held.partition(HEAD_END)
        return head

    def exactly(self, count: int) -> bytes:
        """Read so many bytes of a body."""
        while len(self._held) < count:
            data = self.sock.recv(65536)
            if not data:
                raise LeftError(f"after {len(self._held)} of {count} bytes")
            self._held += data
        data, self._held = self._held[:count], self._held[count:]
        return data

    def chunked(self) -> bytes:
        """Read a chunked body."""
        body = b""
        while True:
            size = int(self.line(), 16)
            body += self.exactly(size)
            assert self.exactly(2) == b"\r\n"
            if size == 0:
                return body

    def line(self) -> bytes:
        """Read a line."""
        while b"\r\n" not in self._held:
            data = self.sock.recv(65536)
            assert data, "the client closed the connection within a line"
            self._held += data
        line, _, self._held = self._held.partition(b"\r\n")
        return line

    def send(self, data: bytes) -> None:
        """Send."""
        self.sock.sendall(data)

    def answer(self, body: bytes = b"", status: str = "200 OK", *fields: str) -> None:
        """Send a whole response with a length."""
        lines = "".join(f"{field}\r\n" for field in fields)
        self.send(f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def wait_delivered(self) -> None:
        """Wait until all that was sent is in the client's socket, which may be after send(2) has returned."""
        while struct.unpack("i", fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4)))[0]:
            time.sleep(0.001)

    def end(self) -> None:
        """Send the end of the stream, and wait until it is in the client's socket."""
        self.sock.shutdown(socket.SHUT_WR)
        while self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == FIN_WAIT1:
            time.sleep(0.001)

    def reset(self) -> None:
        """End the connection with a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.sock.close()

    def wait_for_end(self) -> bytes:
        """Wait until the client closes the connection. Returns what it sent before."""
        got = self._held
        with suppress(ConnectionError):
            while data := self.sock.recv(65536):
                got += data
        return got


class RawServer:
    """Listens on a port of the loopback; `serve(peer)` runs in a thread for each connection."""

    def __init__(self, serve: Callable[[Peer], None]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.errors: list[BaseException] = []
        self.connections = 0
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._acceptor = threading.Thread(target=self._accept)
        self._acceptor.start()
        return self

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._run, args=(Peer(sock, self.connections),))
            self.connections += 1
            self._open.append(sock)
            self._threads.append(thread)
            thread.start()

    def _run(self, peer: Peer) -> None:
        try:
            with peer.sock:
                self._serve(peer)
        except ConnectionError:
            # The client has left, or the test is over.
            pass
        except BaseException as error:
            self.errors.append(error)

    def __exit__(self, *error: object) -> None:
        # shutdown() wakes a thread that is in accept(2) or recv(2), close() does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        for sock in self._open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        if self.errors and error[0] is None:
            raise self.errors[0]


def echo(peer: Peer) -> None:
    """Answer each request with its target."""
    while head := peer.head():
        peer.answer(head.split(b" ")[1])


def noting(heads: list[bytes], content: bytes = b"ok") -> Callable[[Peer], None]:
    """Answer each request with this, and note its head."""

    def serve(peer: Peer) -> None:
        while head := peer.head():
            heads.append(head)
            peer.answer(content)

    return serve


def hold(peer: Peer) -> None:
    """Response nothing."""
    peer.head()
    peer.wait_for_end()


@contextmanager
def full_listener() -> Iterator[socket.socket]:
    """A listener that takes no more connections: they neither fail nor succeed."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        yield listener


@contextmanager
def secured(serve: Callable[[Peer], None]) -> Iterator[RawServer]:
    """A `RawServer` over TLS."""
    context = server_context()

    def wrapped(peer: Peer) -> None:
        with suppress(OSError), context.wrap_socket(peer.sock, server_side=True) as peer.sock:
            server._open.append(peer.sock)
            serve(peer)

    with RawServer(wrapped) as server:
        server.url = server.url.replace("http", "https")
        yield server
