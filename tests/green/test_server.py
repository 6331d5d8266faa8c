"""Servers: starting and stopping, handlers, bounded pools, errors while accepting."""

from __future__ import annotations

import errno
import os
import signal
import socket as stock
from pathlib import Path
from typing import Any

import pytest

from oneloop import green
from oneloop.green import socket
from oneloop.green.baseserver import parse_address
from oneloop.green.event import Event
from oneloop.green.pool import Pool
from oneloop.green.server import DatagramServer, StreamServer


def echo(connection: Any, _: Any) -> None:
    while data := connection.recv(100):
        connection.sendall(data)


def ask(server: StreamServer, data: bytes = b"hello") -> bytes:
    with socket.create_connection(server.address) as sock:
        sock.sendall(data)
        sock.shutdown(stock.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(100), b""))


@pytest.mark.parametrize("spawn", ["default", "raw", 5, None, "pool", "function"])
def test_each_connection_has_its_handler(spawn: Any) -> None:
    made = {"pool": Pool(3), "function": green.spawn}.get(spawn, spawn)
    server = StreamServer(("127.0.0.1", 0), echo, spawn=made)
    server.start()
    assert (server.started, server.closed, server.server_host) == (True, False, "127.0.0.1")
    asking = [green.spawn(ask, server) for _ in range(20)]
    green.joinall(asking, raise_error=True)
    assert [greenlet.value for greenlet in asking] == [b"hello"] * 20
    server.stop()
    assert (server.started, server.closed) == (False, True)
    with pytest.raises(ConnectionRefusedError):
        ask(server)


def test_a_bounded_server_makes_the_others_wait() -> None:
    inside = {"now": 0, "most": 0}

    def handle(connection: Any, address: Any) -> None:
        inside["now"] += 1
        inside["most"] = max(inside.values())
        green.sleep(0.001)
        echo(connection, address)
        inside["now"] -= 1

    server = StreamServer(("127.0.0.1", 0), handle, spawn=2)
    server.start()
    green.joinall([green.spawn(ask, server) for _ in range(20)], raise_error=True)
    server.stop()
    assert inside == {"now": 0, "most": 2}


def test_a_subclass_and_an_error_of_its_handler(capsys: pytest.CaptureFixture[str]) -> None:
    class Server(StreamServer):
        def handle(self, connection: Any, _: Any) -> None:
            raise LookupError("in a handler")

    server = Server(("127.0.0.1", 0))
    server.start()
    assert ask(server, b"") == b""
    assert ask(server, b"") == b""
    server.stop()
    assert capsys.readouterr().err.count("LookupError: in a handler") == 2


def test_stop_ends_what_is_handled() -> None:
    ended = []

    def handle(connection: Any, _: Any) -> None:
        try:
            connection.recv(1)
        finally:
            ended.append(True)

    server = StreamServer(("127.0.0.1", 0), handle, spawn=5)
    server.start()
    with socket.create_connection(server.address) as sock:
        green.sleep(0.01)
        server.stop(timeout=0.001)
        assert sock.recv(1) == b""
    assert ended == [True]


def test_serve_forever() -> None:
    server = StreamServer(("127.0.0.1", 0), echo)
    serving = green.spawn(server.serve_forever)
    green.sleep(0.001)
    assert ask(server) == b"hello"
    server.stop()
    serving.get()


def test_a_bound_socket() -> None:
    with stock.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = StreamServer(listener, echo)
        server.start()
        assert ask(server) == b"hello"
        server.stop()
        with pytest.raises(TypeError, match="backlog must be None"):
            StreamServer(listener, echo, backlog=5)
        assert listener.fileno() >= 0


def test_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    server = StreamServer(path, echo)
    server.start()
    with socket.socket(stock.AF_UNIX) as sock:
        sock.connect(path)
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"
    server.stop()


def test_an_address_that_is_taken() -> None:
    with stock.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = StreamServer(taken.getsockname(), echo)
        with pytest.raises(OSError, match=r"Address already in use: \('127.0.0.1'"):
            server.start()
        assert not server.started


def test_errors_of_accepting(capsys: pytest.CaptureFixture[str]) -> None:
    """After a temporary error the server waits and continues; a permanent error stops it."""
    errors = [errno.EMFILE, errno.EMFILE, 0, errno.EBADF]
    done = Event()

    class Server(StreamServer):
        def do_read(self) -> Any:
            error = errors.pop(0)
            if error == errno.EBADF:
                done.set()
            if error:
                raise OSError(error, os.strerror(error))

    server = Server(("127.0.0.1", 0), echo)
    server.min_delay = server.delay = 0.001
    server.start()
    done.wait()
    green.sleep(0.001)
    assert (server.started, server.closed, server.delay) == (False, True, 0.001)
    assert capsys.readouterr().err.count("Too many open files") == 2


def test_an_error_that_is_not_the_sockets_does_not_end_accepting(capsys: pytest.CaptureFixture[str]) -> None:
    """An error in a subclass's `do_read` or in `spawn`: the connection is closed, and the next one is accepted."""
    errors = [LookupError("of reading"), None, LookupError("of starting"), None]

    class Server(StreamServer):
        def do_read(self) -> Any:
            found = super().do_read()
            error = errors.pop(0)
            if error is not None:
                found[0].close()
                raise error
            return found

    def start(*args: Any) -> Any:
        error = errors.pop(0)
        if error is not None:
            raise error
        return green.spawn(*args)

    server = Server(("127.0.0.1", 0), echo, spawn=start)
    server.min_delay = server.delay = 0.001
    with server:
        server.start()
        assert [ask(server, b"") for _ in range(2)] == [b"", b""]
        errors.append(None)
        assert ask(server) == b"hello"
    told = capsys.readouterr().err
    assert (told.count("of reading"), told.count("of starting")) == (1, 1)


def test_what_a_server_needs() -> None:
    with pytest.raises(TypeError, match="'handle' must be provided"):
        StreamServer(("127.0.0.1", 0))
    with pytest.raises(ValueError, match="max_accept"):
        type("Server", (StreamServer,), {"max_accept": 0})(("127.0.0.1", 0), echo)
    server = StreamServer(("127.0.0.1", 0), echo)
    server.set_handle(lambda connection, _: connection.sendall(b"other"))
    server.set_spawn(3)
    with server:
        server.start()
        assert ask(server, b"") == b"other"
        assert not server.full()


def test_datagrams() -> None:
    class Server(DatagramServer):
        def handle(self, data: bytes, address: Any) -> None:
            self.sendto(data.upper(), address)

    server = Server("127.0.0.1:0")
    server.start()
    with socket.socket(stock.AF_INET, stock.SOCK_DGRAM) as sock:
        sock.sendto(b"datagram", server.address)
        assert sock.recvfrom(100) == (b"DATAGRAM", server.address)
    server.stop()


def test_addresses() -> None:
    assert parse_address(("::1", 1)) == (stock.AF_INET6, ("::1", 1))
    assert parse_address("[::1]:80") == (stock.AF_INET6, ("::1", 80))
    assert parse_address(":80") == (stock.AF_INET, ("", 80))
    assert parse_address(80) == (stock.AF_INET, ("", 80))
    assert parse_address("*:80") == (stock.AF_INET, ("", 80))
    assert parse_address("80") == (stock.AF_INET, ("", 80))
    assert parse_address("/tmp/socket") == (stock.AF_UNIX, "/tmp/socket")
    with pytest.raises(ValueError, match="an address must be"):
        parse_address("nowhere")


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_accepts_for_itself() -> None:
    """As gunicorn's and other preforked servers do: what accepts, and what handles connections, is the parent's."""
    has_begun, is_over = Event(), Event()

    def answer(connection: Any, _: Any) -> None:
        has_begun.set()
        connection.sendall(str(os.getpid()).encode())
        connection.close()
        if os.getpid() == parent:
            is_over.wait()

    parent = os.getpid()
    server = StreamServer(("127.0.0.1", 0), answer, spawn=1)
    server.start()
    stock.create_connection(server.address).close()
    has_begun.wait()
    pid = os.fork()
    if not pid:
        try:
            server.serve_forever()
        finally:
            os._exit(1)
    try:
        # The connection is for the child.
        server.stop_accepting()
        green.sleep(0)
        with stock.create_connection(server.address, timeout=30) as sock:
            assert sock.recv(100).decode() == str(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        is_over.set()
        server.stop()
