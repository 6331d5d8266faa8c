"""Responses: framing, invalid use by applications, errors, and wsgiref's validator."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.validate import validator

import pytest

from oneloop import green
from oneloop.green import socket
from oneloop.green.pywsgi import LoggingLogAdapter, SecureEnviron, WSGISecureEnviron, WSGIServer
from oneloop.green.pywsgi.response_parts import encode_field, encode_status
from tests.green.wsgi import Answer, ask, connect, exchange, get, plain, read_all, served, taken_apart

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
StartResponse = Callable[..., Any]


def answering(status: str, fields: list[tuple[str, str]], result: Any) -> Any:
    def app(environ: dict[str, Any], start_response: StartResponse) -> Any:
        start_response(status, fields)
        return result() if callable(result) else result

    return app


def framing(app: Any, *, method: str = "GET", version: str = "1.1") -> tuple[str, str | None, str | None, bytes]:
    """The status, Content-Length, Transfer-Encoding and body of an application's response."""
    with served(app) as server:
        answer = get(server, method=method, version=version)
        assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", answer.fields["date"])
        length, coding = answer.fields.get("content-length"), answer.fields.get("transfer-encoding")
        return answer.status, length, coding, answer.body


def pieces() -> Iterator[bytes]:
    yield b"a"
    yield b""
    yield b"bc"


def test_framing() -> None:
    assert framing(answering("200 OK", [], [b"abc"])) == ("200 OK", "3", None, b"abc")
    assert framing(answering("200 OK", [], (b"a", b"", b"bc"))) == ("200 OK", "3", None, b"abc")
    assert framing(answering("200 OK", [], [])) == ("200 OK", "0", None, b"")
    assert framing(answering("200 OK", [], pieces)) == ("200 OK", None, "chunked", b"abc")
    assert framing(answering("200 OK", [], lambda: iter([]))) == ("200 OK", None, "chunked", b"")
    assert framing(answering("200 OK", [("Content-Length", "3")], pieces)) == ("200 OK", "3", None, b"abc")
    assert framing(answering("200 OK", [], pieces), version="1.0") == ("200 OK", None, None, b"abc")
    assert framing(answering("200 OK", [("Transfer-Encoding", "chunked")], pieces))[2:] == ("chunked", b"abc")
    assert framing(answering("404 Not Found \xe9", [], [b"x"]))[0] == "404 Not Found \xe9"


def test_no_body() -> None:
    assert framing(answering("200 OK", [], [b"abc"]), method="HEAD") == ("200 OK", "3", None, b"")
    assert framing(answering("200 OK", [], pieces), method="HEAD") == ("200 OK", None, None, b"")
    assert framing(answering("200 OK", [], []), method="HEAD") == ("200 OK", None, None, b"")
    assert framing(answering("200 OK", [("Content-Length", "7")], []), method="HEAD") == ("200 OK", "7", None, b"")
    assert framing(answering("204 No Content", [], [])) == ("204 No Content", None, None, b"")
    assert framing(answering("204 No Content", [("Content-Length", "0")], [b""])) == ("204 No Content", None, None, b"")
    assert framing(answering("304 Not Modified", [("Content-Length", "5")], [])) == ("304 Not Modified", "5", None, b"")


def test_an_application_that_does_not_start_a_response() -> None:
    told: list[str] = []
    with served(lambda environ, start_response: []) as server:
        server.error_log = Recorder(told)
        answer = get(server, "/")
    assert (answer.status, answer.fields["connection"]) == ("500 Internal Server Error", "close")
    assert told == ["the application did not call start_response()\n"]


class Recorder:
    """A log that keeps what is written."""

    def __init__(self, told: list[str]) -> None:
        self.write = told.append


@pytest.mark.parametrize(
    "app",
    [
        answering("204 No Content", [], [b"x"]),
        answering("304 Not Modified", [], [b"x"]),
        answering("204 No Content", [("Content-Length", "5")], []),
        answering("100 Continue", [], []),
        answering("200 OK", [("Content-Length", "x")], [b"x"]),
        answering("200 OK", [("Content-Length", "1"), ("content-length", "1")], [b"x"]),
        answering("200", [("A\r\nB", "x")], [b""]),
        answering("200 OK", [("A", "x\r\nB: y")], [b""]),
        answering("200 OK", [("A", "x\0")], [b""]),
        answering("200 OK", [("A", "\u20ac")], [b""]),
        answering("200 OK", [("A B", "x")], [b""]),
        answering("200 OK", [(b"A", "x")], [b""]),  # type: ignore[list-item]
        answering("200 OK", [("A", 5)], [b""]),  # type: ignore[list-item]
        answering("200 OK\r\nA: b", [], [b""]),
        answering("20 OK", [], [b""]),
        answering(200, [], [b""]),  # type: ignore[arg-type]
        answering("200 OK", [], ["text"]),
        answering("200 OK", [], [5]),
        answering("200 OK", [], None),
        lambda environ, start_response: [b"never started"],
        lambda environ, start_response: 1 / 0,
    ],
)
def test_a_broken_application(app: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The client gets a 500 response and no part of the application's. The report does not show the request's data."""
    with served(app) as server:
        answer = get(server, "/", "Authorization: secret")
        assert answer.status == "500 Internal Server Error"
        assert (answer.fields["connection"], answer.body) == ("close", b"Internal Server Error")
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert "'HTTP_HOST': 'test'" in told
    assert "secret" not in told


def failing_late() -> Iterator[bytes]:
    yield b"begin"
    raise LookupError("too late")


@pytest.mark.parametrize(
    "app",
    [
        answering("200 OK", [], failing_late),
        answering("200 OK", [("Content-Length", "10")], failing_late),
        answering("200 OK", [("Content-Length", "10")], [b"begin"]),
    ],
)
def test_an_answer_that_fails_on_the_way_is_seen_to_be_cut(app: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with served(app) as server:
        data = exchange(server, GET + GET)
        with pytest.raises(AssertionError, match="cut"):
            taken_apart(data)
        assert b"begin" in data
        assert b"500" not in data
        assert data.count(b"HTTP/1.1") == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_body_longer_than_its_length() -> None:
    """What the Content-Length allows is sent, and nothing more is asked for (PEP 3333)."""
    asked: list[str] = []

    def endless() -> Iterator[bytes]:
        try:
            while True:
                yield b"ab"
        finally:
            asked.append("closed")

    for length, result, body in [
        ("1", [b"two"], b"t"),
        ("0", [b"two"], b""),
        ("7", lambda: iter([b"begin", b"too long"]), b"beginto"),
        ("5", lambda: iter([b"begin", b"too long"]), b"begin"),
        ("5", endless, b"ababa"),
    ]:
        app = answering("200 OK", [("Content-Length", length)], result)
        assert framing(app) == ("200 OK", length, None, body)
        if result is not endless:
            assert framing(app, method="HEAD") == ("200 OK", length, None, b"")
    assert asked == ["closed"]


@pytest.mark.parametrize(("parts", "body"), [([b"begin", b"too long"], b"beginto"), ([b"too long"], b"too lon")])
def test_more_is_written_than_the_length_allows(parts: list[bytes], body: bytes) -> None:
    errors: list[AssertionError] = []

    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        write = start_response("200 OK", [("Content-Length", "7")])
        try:
            for part in parts:
                write(part)
        except AssertionError as error:
            errors.append(error)
        return []

    assert framing(app) == ("200 OK", "7", None, body)
    assert [str(error) for error in errors] == ["the body is longer than its Content-Length of 7 bytes"]


def test_write() -> None:
    """`write` sends its data before the data that the application returns."""

    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        write = start_response("200 OK", [])
        write(b"first ")
        write(b"")
        return [b"second"]

    assert framing(app) == ("200 OK", None, "chunked", b"first second")
    assert framing(app, version="1.0") == ("200 OK", None, None, b"first second")


def test_start_response_again() -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        start_response("200 OK", [("A", "b")])
        try:
            raise LookupError("changed my mind")
        except LookupError:
            start_response("503 Sorry", [("C", "d")], sys.exc_info())
        return [b"sorry"]

    with served(app) as server:
        answer = get(server)
        assert (answer.status, answer.body) == ("503 Sorry", b"sorry")
        assert ("a" in answer.fields, answer.fields["c"]) == (False, "d")


def test_start_response_after_the_head(capsys: pytest.CaptureFixture[str]) -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"sent"
        try:
            raise LookupError("changed my mind")
        except LookupError:
            start_response("503 Sorry", [], sys.exc_info())
        yield b"never"

    with served(app) as server:
        data = exchange(server, GET)
        assert b"200 OK" in data
        assert b"503" not in data
        assert b"never" not in data
        assert not data.endswith(b"0\r\n\r\n")
    assert "LookupError: changed my mind" in capsys.readouterr().err


def test_start_response_twice() -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        start_response("200 OK", [])
        with pytest.raises(AssertionError, match="already"):
            start_response("200 OK", [])
        return [b"fine"]

    with served(app) as server:
        assert get(server).body == b"fine"


class Closed:
    def __init__(self, result: Iterator[bytes]) -> None:
        self.result = result
        self.count = 0

    def __iter__(self) -> Iterator[bytes]:
        return self.result

    def close(self) -> None:
        self.count += 1


def test_results_are_closed(capsys: pytest.CaptureFixture[str]) -> None:
    for result in (pieces(), failing_late(), iter([b"x" * 50_000_000])):
        made = Closed(result)
        with served(answering("200 OK", [], made)) as server, connect(server) as sock:
            sock.sendall(GET)
            sock.recv(10)
        assert made.count == 1
    capsys.readouterr()


def test_a_client_that_has_gone_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    log = io.StringIO()
    with served(answering("200 OK", [], lambda: iter([b"x" * 50_000_000])), log=log) as server:
        with connect(server) as sock:
            sock.sendall(GET)
            sock.recv(10)
        while not log.getvalue():
            green.sleep(0.001)
        assert server.error_log.getvalue() == ""
    assert capsys.readouterr().err == ""


def test_fields_are_the_applications() -> None:
    with served(answering("200 OK", [("Date", "now"), ("Set-Cookie", "a=b"), ("X-Latin", "\xe9")], [b""])) as server:
        fields = get(server).fields
        assert (fields["date"], fields["set-cookie"], fields["x-latin"]) == ("now", "a=b", "\xe9")


def test_connection_of_the_application() -> None:
    with served(answering("200 OK", [("Connection", "close")], [b"x"])) as server:
        (answer,) = taken_apart(exchange(server, GET + GET))
        assert answer.fields["connection"] == "close"


def test_a_file(tmp_path: Any) -> None:
    path = tmp_path / "file"
    data = bytes(range(256)) * 1000
    path.write_bytes(data)
    opened = []

    def app(environ: dict[str, Any], start_response: StartResponse) -> Any:
        start_response("200 OK", [("Content-Length", str(len(data)))])
        opened.append(path.open("rb"))
        return environ["wsgi.file_wrapper"](opened[0], 5000)

    with served(app) as server:
        assert get(server).body == data
        assert opened[0].closed


def test_one_send_for_head_and_body() -> None:
    sent = []

    class Watched(socket.socket):
        __slots__ = ()

        def sendall(self, data: Any, flags: int = 0, /) -> None:
            sent.append(bytes(data))
            super().sendall(data, flags)

    class Server(WSGIServer):
        def do_read(self) -> tuple[Any, ...]:
            sock, address = super().do_read()
            return Watched(sock.family, sock.type, sock.proto, fileno=sock.detach()), address

        def handle(self, sock: Any, address: Any) -> None:
            super().handle(sock, address)

    with served(plain, server_class=Server) as server:
        get(server)
        assert len(sent) == 1
    sent.clear()
    with served(answering("200 OK", [], pieces), server_class=Server) as server:
        get(server)
        assert [
            one.endswith(end) for one, end in zip(sent, (b"1\r\na\r\n", b"2\r\nbc\r\n", b"0\r\n\r\n"), strict=True)
        ] == [True] * 3


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_the_validator(method: str) -> None:
    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        body = environ["wsgi.input"]
        assert body.read(2) + body.readline(2) + b"".join(body) in (b"", b"a\nb\nc")
        environ["wsgi.errors"].write("told\n")
        environ["wsgi.errors"].flush()
        assert environ["wsgi.multithread"] is environ["wsgi.multiprocess"] is environ["wsgi.run_once"] is False
        assert type(environ) is dict
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [] if method == "HEAD" else [b"fine"]

    body = b"Content-Length: 5\r\n\r\na\nb\nc" if method == "POST" else b"\r\n"
    with served(validator(app)) as server:
        answer = ask(server, method.encode() + b" /a?b HTTP/1.1\r\nHost: x\r\n" + body, method=method)
        assert (answer.status, answer.body) == ("200 OK", b"" if method == "HEAD" else b"fine")
        assert server.error_log.getvalue() == "told\n"


def test_encoding() -> None:
    assert encode_status("200") == (b"200", 200)
    for number in range(1100):
        encode_field(("A", str(number)))
        encode_status(f"200 {number}")
    assert encode_field(("Long", "x" * 1000)) == (b"Long", b"x" * 1000, "long")
    with pytest.raises(UnicodeError):
        encode_status(b"200 OK")


# -- logs --------------------------------------------------------------------------------------------


def test_the_log() -> None:
    log = io.StringIO()
    with served(plain, log=log) as server:
        length = len(exchange(server, b'GET /"a\\\xe9 HTTP/1.1\r\nHost: x\r\n\r\n'))
        exchange(server, b"nonsense\r\n\r\n")
    first, second = log.getvalue().splitlines()
    when = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\]"
    assert re.fullmatch(rf'127\.0\.0\.1 - - {when} "GET /\\x22a\\x5c\\xe9 HTTP/1\.1" 200 {length} 0\.\d{{6}}', first)
    assert re.fullmatch(rf'127\.0\.0\.1 - - {when} "" 400 \d+ 0\.\d{{6}}', second)


def test_logs_of_logging(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("pywsgi-test")
    with caplog.at_level(logging.INFO), served(plain, log=logger, error_log=logger) as server:
        assert isinstance(server.log, LoggingLogAdapter)
        exchange(server, b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n")
        exchange(server, b"%s\r\n\r\n")
        server.environ["wsgi.errors"].writelines(["one\n", "two\n"])
        server.log.flush()
        server.log.mark = 5
        assert (logger.mark, server.log.name) == (5, "pywsgi-test")  # type: ignore[attr-defined]
        del server.log.mark
        assert not hasattr(logger, "mark")
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO", "ERROR", "INFO", "ERROR", "ERROR"]
    assert '"GET /%s HTTP/1.1" 200' in caplog.messages[0]


def test_default_logs(capsys: pytest.CaptureFixture[str]) -> None:
    with served(plain, log="default", error_log="default") as server:
        get(server)
    assert '"GET / HTTP/1.1" 200' in capsys.readouterr().err
    with served(plain, log=None, error_log=None) as server:
        exchange(server, b"nonsense\r\n\r\n")
        server.environ["wsgi.errors"].writelines(["x"])
        server.environ["wsgi.errors"].flush()
    assert capsys.readouterr() == ("", "")


def test_environs_keep_secrets() -> None:
    made = SecureEnviron(secret="value", key="value")
    assert "secret" not in repr(made)
    assert "keys: 2" in str(made)
    made.whitelist_keys = ("key",)
    assert repr(made) == "{'secret': '<MASKED>', 'key': 'value'}"
    made.print_masked_keys = False
    assert repr(made) == "{'key': 'value', (hidden keys: 1)}"
    made.secure_repr = False
    assert repr(made) == "{'secret': 'value', 'key': 'value'}"
    with pytest.raises(AttributeError):
        made.other  # noqa: B018
    copied = WSGISecureEnviron(REMOTE_ADDR="::1", HTTP_AUTHORIZATION="secret").copy()
    assert repr(copied) == "{'REMOTE_ADDR': '::1', (hidden keys: 1)}"
    import pickle

    assert type(pickle.loads(pickle.dumps(copied))) is dict


def test_an_environ_class() -> None:
    kinds = []

    class Server(WSGIServer):
        environ_class = WSGISecureEnviron

    def app(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        kinds.append(type(environ))
        return plain(environ, start_response)

    with served(app, server_class=Server) as server:
        get(server)
    assert kinds == [WSGISecureEnviron]


def test_read_all_of_a_response_larger_than_the_kernels_buffers() -> None:
    data = b"x" * 10_000_000
    for result in ([data], [data[:5_000_000], data[5_000_000:]], lambda: iter([data])):
        with served(answering("200 OK", [], result)) as server, connect(server) as sock:
            sock.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            (answer,) = taken_apart(read_all(sock))
            assert isinstance(answer, Answer)
            assert answer.body == data
