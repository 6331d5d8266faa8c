"""Connections: keep-alive, pipelining, timeouts, stopping, upgrades; and overriding the handler's methods."""

from __future__ import annotations

import errno
import os
import signal
import socket as stock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oneloop import green
from oneloop.green import socket
from oneloop.green.event import Event
from oneloop.green.pywsgi import WSGIHandler, WSGIServer
from tests.green.wsgi import connect, exchange, get, plain, read_all, reading, served, taken_apart

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
StartResponse = Callable[..., Any]


def closes(server: WSGIServer, request: bytes) -> bool:
    """Whether the connection ends after the response, which must say so. Otherwise the next request is answered."""
    answers = taken_apart(exchange(server, request + GET))
    is_over = len(answers) == 1
    assert (answers[0].fields.get("connection") == "close") is is_over
    return is_over


def test_keeping_alive() -> None:
    with served(plain) as server:
        assert not closes(server, GET)
        assert not closes(server, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
        assert not closes(server, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Foo, bar\r\n\r\n")
        assert closes(server, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n")
        assert closes(server, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: foo, close\r\n\r\n")
        assert closes(server, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n")
        assert closes(server, b"GET / HTTP/1.0\r\nHost: x\r\n\r\n")
        assert not closes(server, b"GET / HTTP/1.0\r\nHost: x\r\nConnection: Keep-Alive\r\n\r\n")
        (first, _) = taken_apart(exchange(server, b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + GET))
        assert first.fields["connection"] == "keep-alive"


def test_pipelined_requests_are_answered_in_order() -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> Any:
        number = int(environ["PATH_INFO"][1:])
        green.sleep(0.001 if number % 2 else 0)
        start_response("200 OK", [])
        return [b"%d" % number] if number % 3 else iter([b"%d" % number])

    with served(app) as server:
        sent = b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(100))
        assert [one.body for one in taken_apart(exchange(server, sent))] == [b"%d" % number for number in range(100)]
        assert [int(one.body) for one in taken_apart(exchange(server, sent[:5000], sent[5000:]))] == list(range(100))


def test_a_client_that_pipelines_leaves_turns_to_others() -> None:
    order = []

    def app(environ: dict[str, Any], start_response: StartResponse) -> Any:
        order.append(environ["PATH_INFO"])
        return plain(environ, start_response)

    with served(app) as server, connect(server) as many, connect(server) as one:
        many.sendall(b"GET /many HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        one.sendall(b"GET /one HTTP/1.1\r\nHost: x\r\n\r\n")
        one.recv(1000)
        assert order.index("/one") < 50
        many.shutdown(stock.SHUT_WR)
        assert len(taken_apart(read_all(many))) == 100


def test_many_connections() -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> Any:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        green.sleep(0.001)
        inside -= 1
        return plain(environ, start_response)

    inside = most = 0
    with served(app) as server:
        asking = [green.spawn(get, server) for _ in range(50)]
        green.joinall(asking, raise_error=True)
    assert most > 10


# -- timeouts ----------------------------------------------------------------------------------------


def short_of(**timeouts: float) -> type[WSGIServer]:
    return type("Short", (WSGIServer,), timeouts)


def end_waits(server: WSGIServer) -> None:
    """Do what the server does every second, as if all timeouts had expired."""
    for reader in server._readers:
        if reader.deadline_s is not None:
            reader.deadline_s = 0.0
    server._sweep()


def test_an_idle_connection_is_closed() -> None:
    with served(plain) as server, connect(server) as first, connect(server) as second:
        second.sendall(GET)
        assert taken_apart(second.recv(1000))[0].body == b"GET /"
        end_waits(server)
        assert (first.recv(1), second.recv(1)) == (b"", b"")
        assert server.error_log.getvalue() == ""


def test_deadlines_are_what_the_server_says() -> None:
    with served(plain, server_class=short_of(keep_alive_timeout=-1.0)) as server, connect(server) as sock:
        green.sleep(0.001)
        server._sweep()
        assert sock.recv(1) == b""
    with served(plain) as server, connect(server) as sock:
        green.sleep(0.001)
        server._sweep()
        sock.sendall(GET)
        assert taken_apart(sock.recv(1000))[0].body == b"GET /"


def test_a_slow_head() -> None:
    with served(plain) as server, connect(server) as sock:
        sock.sendall(GET[:10])
        green.sleep(0.01)
        end_waits(server)
        (answer,) = taken_apart(read_all(sock))
        assert (answer.status, answer.fields["connection"]) == ("408 Request Timeout", "close")


def test_a_head_that_never_waits_when_it_is_looked_for() -> None:
    with served(plain, server_class=short_of(head_timeout=-1.0)) as server, connect(server) as sock:
        sock.sendall(GET[:10])
        (answer,) = taken_apart(read_all(sock))
        assert answer.status == "408 Request Timeout"


def test_a_slow_body() -> None:
    with served(reading) as server, connect(server) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        green.sleep(0.01)
        end_waits(server)
        (answer,) = taken_apart(read_all(sock))
        assert (answer.status, answer.fields["connection"]) == ("408 Request Timeout", "close")


def test_a_client_that_takes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    ended = Event()

    class Result:
        def __iter__(self) -> Iterator[bytes]:
            while True:
                yield b"x" * 100_000

        def close(self) -> None:
            ended.set()

    def app(environ: dict[str, Any], start_response: StartResponse) -> Any:
        start_response("200 OK", [])
        return Result()

    with served(app) as server, connect(server) as sock:
        sock.sendall(GET)
        green.sleep(0.05)
        end_waits(server)
        ended.wait()
        capsys.readouterr()


def test_an_application_has_all_the_time() -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> Any:
        end_waits(server)
        green.sleep(0.001)
        return plain(environ, start_response)

    with served(app) as server:
        assert get(server).body == b"GET /"


# -- stopping ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spawn", ["default", 10])
def test_stop_finishes_requests_and_ends_idle_connections(spawn: Any) -> None:
    begun, go_on = Event(), Event()

    def app(environ: dict[str, Any], start_response: StartResponse) -> Any:
        begun.set()
        go_on.wait()
        return plain(environ, start_response)

    with served(app, spawn=spawn) as server, connect(server) as idle, connect(server) as busy:
        busy.sendall(GET)
        begun.wait()
        stopping = green.spawn(server.stop, 20)
        assert idle.recv(1) == b""
        assert not stopping.ready()
        go_on.set()
        (answer,) = taken_apart(read_all(busy))
        assert (answer.body, answer.fields["connection"]) == (b"GET /", "close")
        stopping.get()
        with pytest.raises(ConnectionRefusedError):
            connect(server)
        server.start()
        assert server.started


def test_stop_ends_a_connection_whose_answer_had_begun() -> None:
    """The client was not told that the connection ends, but it ends after the response."""
    go_on = Event()

    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"begun "
        go_on.wait()
        yield b"ended"

    with served(app) as server, connect(server) as sock:
        sock.sendall(GET)
        begun = sock.recv(1000)
        stopping = green.spawn(server.stop, 20)
        green.sleep(0.001)
        go_on.set()
        (answer,) = taken_apart(begun + read_all(sock))
        assert answer.body == b"begun ended"
        stopping.get()


def test_stop_kills_in_the_end() -> None:
    ended = []

    def app(environ: dict[str, Any], start_response: StartResponse) -> Any:
        try:
            green.sleep(1000)
        except green.GreenletExit:
            ended.append(True)
            raise

    with served(app) as server, connect(server) as sock:
        sock.sendall(GET)
        green.sleep(0.01)
        server.stop(timeout=0.001)
        (answer,) = taken_apart(read_all(sock))
        assert answer.status == "500 Internal Server Error"
    assert ended == [True]


# -- upgrades ----------------------------------------------------------------------------------------

UPGRADE = b"GET /chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n"


class Upgrading(WSGIHandler):
    """As in websocket packages: the handler answers the request itself and uses the connection."""

    def run_application(self) -> None:
        if self.environ.get("HTTP_UPGRADE", "").lower() != "websocket":
            super().run_application()
            return
        self.result = self.start_response(
            "101 Switching Protocols", [("Upgrade", "websocket"), ("Connection", "Upgrade")]
        )
        # Leave out the date and the length.
        self.provided_date = True
        self.provided_content_length = False
        self.response_use_chunked = False
        self.close_connection = True
        if self.status and not self.headers_sent:
            self.write("")  # type: ignore[arg-type]
        read, write = self.rfile.read, self.socket.sendall
        while (data := read(5)) != b"close":
            write(data.upper())


def test_an_upgrade_by_the_handler() -> None:
    with served(plain, handler_class=Upgrading) as server, connect(server) as sock:
        sock.sendall(GET)
        assert taken_apart(sock.recv(1000))[0].body == b"GET /"
        # Data of the new protocol may arrive together with the head.
        sock.sendall(UPGRADE + b"first")
        data = b""
        while not data.endswith(b"FIRST"):
            data += sock.recv(1000)
        head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        assert data == head + b"FIRST"
        end_waits(server)
        sock.sendall(b"close")
        assert sock.recv(1) == b""


def test_an_upgrade_by_the_application() -> None:
    """simple-websocket and other packages look for the raw connection there."""

    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        assert environ["SERVER_SOFTWARE"].startswith("gevent/")
        assert environ["wsgi.input_terminated"] is False
        sock = environ["wsgi.input"].raw._sock
        assert environ["wsgi.input"].fileno() == sock.fileno()
        sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        sock.sendall(sock.recv(100).upper())
        return []

    with served(app) as server, connect(server) as sock:
        sock.sendall(UPGRADE)
        assert sock.recv(1000) == b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
        sock.sendall(b"hello")
        assert read_all(sock) == b"HELLO"


def test_101_of_the_application() -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterator[bytes]:
        start_response("101 Switching Protocols", [("Upgrade", "echo"), ("Connection", "Upgrade")])
        yield b"hello "
        yield environ["wsgi.input"].read(5)

    with served(app) as server:
        data = exchange(server, UPGRADE + b"there" + GET)
        assert data.endswith(b"\r\n\r\nhello there")
        assert b"chunked" not in data


def test_an_upgrade_that_nobody_makes() -> None:
    with served(reading) as server:
        # The body of a request that asks for an upgrade is still a body.
        body = b"Content-Length: 3\r\n\r\nabc"
        post = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        assert [one.body for one in taken_apart(exchange(server, post + body + GET))] == [b"abc", b""]
        post = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        assert [one.body for one in taken_apart(exchange(server, post + body + GET))] == [b"abc", b""]
    with served(plain) as server:
        # The data after the head may belong to the other protocol.
        assert closes(server, UPGRADE)
        # As in gevent, for proxies that leave the Connection field out.
        assert closes(server, b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n")
        # No upgrade: the Connection field does not list it.
        assert not closes(server, b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: other\r\n\r\n")


# -- subclasses --------------------------------------------------------------------------------------


def test_a_handler_that_reads_the_request_line_itself() -> None:
    class Handler(WSGIHandler):
        def read_requestline(self) -> str:
            line: bytes = self.rfile.readline(8192)
            return line.decode("latin-1")

    with served(plain, handler_class=Handler) as server:
        answers = taken_apart(exchange(server, GET + GET))
        assert [one.body for one in answers] == [b"GET /", b"GET /"]
        assert taken_apart(exchange(server, b"GET / HTTP/1.1\r\nHost: x\r\n cut"))[0].status == "400 Bad Request"
        assert taken_apart(exchange(server, b"GET / HTTP/1.1\r\nHost x\r\n\r\n"))[0].status == "400 Bad Request"


def test_a_handler_that_changes_requests() -> None:
    seen: list[Any] = []

    class Handler(WSGIHandler):
        def read_request(self, raw_requestline: str) -> bool:
            is_good = super().read_request(raw_requestline.replace("/old", "/new"))
            seen.append((self.command, self.path, self.request_version, self.requestline, self.headers.get("HOST")))
            return is_good and self.path != "/refused"

        def get_environ(self) -> Any:
            env = super().get_environ()
            env["REMOTE_ADDR"] = self.headers["X-Real"] or env["REMOTE_ADDR"]
            assert "x-real" in self.headers
            return env

        def log_request(self) -> None:
            seen.append((self.status, self.code, bool(self.response_length), self.time_finish >= self.time_start))

    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        start_response("200 OK", [])
        return [environ["PATH_INFO"].encode(), environ["REMOTE_ADDR"].encode()]

    with served(app, handler_class=Handler) as server:
        assert get(server, "/old", "X-Real: 1.2.3.4").body == b"/new1.2.3.4"
        assert get(server, "/refused").status == "400 Bad Request"
    assert seen == [
        ("GET", "/new", "HTTP/1.1", "GET /new HTTP/1.1", "test"),
        (b"200 OK", 200, True, True),
        ("GET", "/refused", "HTTP/1.1", "GET /refused HTTP/1.1", "test"),
        ("400 Bad Request", None, True, True),
    ]


def test_the_headers_of_a_handler() -> None:
    class Handler(WSGIHandler):
        def get_environ(self) -> Any:
            headers = self.headers
            assert headers.items() == [("Host", "test"), ("A", "1"), ("a", "2"), ("Content-Type", "b/c")]
            assert (headers.keys(), headers.values()) == (["Host", "A", "a", "Content-Type"], ["test", "1", "2", "b/c"])
            assert (headers.get_all("A"), headers.get_all("B"), list(headers)) == (["1", "2"], None, headers.keys())
            assert (headers.getheader("a"), headers.get("b", 5), headers["b"]) == ("1", 5, None)
            assert (headers.typeheader, len(headers), headers.headers[0]) == ("b/c", 4, "Host: test\r\n")
            assert "test" not in repr(headers)
            return super().get_environ()

    with served(plain, handler_class=Handler) as server:
        assert get(server, "/", "A: 1", "a: 2", "Content-Type: b/c").status == "200 OK"


def test_an_error_of_a_handler_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    class Handler(WSGIHandler):
        def get_environ(self) -> Any:
            raise LookupError("of the handler")

    with served(plain, handler_class=Handler) as server:
        assert get(server).status == "400 Bad Request"
    assert "LookupError: of the handler" in capsys.readouterr().err


def test_a_handler_that_leaves_with_the_connection() -> None:
    class Handler(WSGIHandler):
        def handle_one_response(self) -> None:
            self.socket.sendall(b"mine")
            self.rfile.close()

    with served(plain, handler_class=Handler) as server:
        assert exchange(server, GET + GET) == b"mine"


def test_a_function_as_handler_class() -> None:
    class Handler:
        def __init__(self, sock: Any, address: Any, server: Any) -> None:
            self.sock = sock

        def handle(self) -> None:
            self.sock.sendall(b"plain")

    with served(plain, handler_class=Handler) as server:
        assert exchange(server) == b"plain"


def test_errors_of_the_connection(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors of the application's own sockets are reported; errors of a disconnected client are not."""

    def app(environ: dict[str, Any], start_response: StartResponse) -> Any:
        raise OSError(errno.EPIPE if "quiet" in environ["PATH_INFO"] else errno.EHOSTUNREACH, "elsewhere")

    with served(app) as server:
        assert get(server, "/told").status == "500 Internal Server Error"
        assert "elsewhere" in capsys.readouterr().err
        assert exchange(server, b"GET /quiet HTTP/1.1\r\nHost: x\r\n\r\n") == b""
    assert capsys.readouterr().err == ""


def test_a_reset_connection() -> None:
    with served(plain) as server:
        for sent in (b"", GET[:9], b"nonsense\r\n\r\n" + b"x" * 10_000):
            sock = connect(server)
            sock.sendall(sent)
            sock.setsockopt(stock.SOL_SOCKET, stock.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sock.close()
        assert get(server).status == "200 OK"


def test_a_unix_socket(tmp_path: Path) -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        start_response("200 OK", [])
        assert "REMOTE_ADDR" not in environ
        return [repr((environ["SERVER_NAME"], environ["SERVER_PORT"])).encode()]

    path = str(tmp_path / "socket")
    with served(app, listener=path) as server, socket.socket(stock.AF_UNIX) as sock:
        assert server.address == path
        sock.connect(path)
        sock.sendall(GET)
        assert taken_apart(sock.recv(1000))[0].body == b"('', '')"


def test_settings_of_a_server() -> None:
    with served(plain, environ={"wsgi.multiprocess": True, "wsgi.errors": 5, "SERVER_NAME": "n"}) as server:
        assert server.max_accept == 1
        assert (server.environ["wsgi.errors"], server.environ["SERVER_NAME"]) == (5, "n")
        assert server.get_environ() == server.environ
        assert server.get_environ() is not server.environ
    with pytest.raises(TypeError):
        WSGIServer(("127.0.0.1", 0), plain, handle=plain)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_the_parents_connections() -> None:
    with served(plain, spawn="default") as server, connect(server) as sock:
        sock.sendall(GET[:10])
        while not server._readers:
            green.sleep(0.001)
        pid = os.fork()
        if not pid:
            signal.alarm(20)
            try:
                server.start_accepting()
                server.stop(timeout=60)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
