"""A connection that has sent half of something when the server is asked to stop: the stop does not wait for the rest.

The limits for heads and bodies are far longer than the test: a stop that waits for them fails. A request whose head is
complete is served, and its body has its own limit.
"""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest
from test.test_asyncio.utils import ONLYCERT, ONLYKEY

from tests.certificates import client_context
from tests.http.http2_peer import END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame, head
from tests.http.service import Service, read_all

PATIENT = ("--timeout-header", "600", "--timeout-body", "600", "--timeout-keep-alive", "600")
TLS = ("--ssl-certfile", ONLYCERT, "--ssl-keyfile", ONLYKEY)
PROXY = ("--proxy-protocol",)
WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: "
HALF_BODY = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf"
PROXY_2 = b"\r\n\r\n\0\r\nQUIT\n"
START = PREFACE + frame(SETTINGS)

# What was sent, and what must come: the start of the last response, None if nothing need come.
CASES: dict[str, tuple[tuple[str, ...], bytes, bytes | None]] = {
    "nothing": ((), b"", None),
    "a byte": ((), b"G", b"HTTP/1.1 408"),
    "half a line": ((), b"GET /", b"HTTP/1.1 408"),
    "half a head": ((), HALF, b"HTTP/1.1 408"),
    "a head without its end": ((), WHOLE[:-1], b"HTTP/1.1 408"),
    "a long head": ((), HALF + b"x" * 5000, b"HTTP/1.1 408"),
    "half a head behind a request": ((), WHOLE + HALF, b"HTTP/1.1 408"),
    "half a PROXY header": (PROXY, b"PROXY TCP4 127.", None),
    "half a binary PROXY header": (PROXY, PROXY_2 + b"\x21\x11\0\x0c\x7f\0", None),
    "half a head behind a PROXY header": (PROXY, b"PROXY UNKNOWN\r\n" + HALF, b"HTTP/1.1 408"),
    "no TLS": (TLS, b"", None),
    "half a TLS record": (TLS, b"\x16\x03\x01\x02", None),
    "half of TLS behind a PROXY header": (PROXY + TLS, b"PROXY UNKNOWN\r\n\x16\x03\x01\x02", None),
    "half a body whose response is sent": ((), HALF_BODY, None),
    "half of HTTP/2's preface": ((), PREFACE[:10], None),
    "HTTP/2 without settings": ((), PREFACE, None),
    "half a frame": ((), START + frame(HEADERS, END_STREAM, 1, head())[:12], None),
    "half a head of HTTP/2": ((), START + frame(HEADERS, END_STREAM, 1, head()), None),
    "half a head of HTTP/2 behind a request": (
        (),
        START + frame(HEADERS, END_STREAM | END_HEADERS, 1, head()) + frame(HEADERS, END_STREAM, 3, head()),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rest_is_not_waited_for(tmp_path: Path, name: str) -> None:
    arguments, sent, response = CASES[name]
    with Service(tmp_path, *PATIENT, *arguments) as service:
        with socket.create_connection(("127.0.0.1", service.port), 60) as sock:
            sock.sendall(sent)
            service.log.read_more(0.1)
            assert service.end() == 0
            got = read_all(sock)
    if response is not None:
        assert got[got.rfind(b"HTTP/1.1 ") :].startswith(response)
        assert "The server stops, and the request has not arrived completely." in service.log.text
        assert "408 Request Timeout" in service.out.text
    assert "lifespan ended" in service.out.text


def test_half_a_head_over_tls(tmp_path: Path) -> None:
    with Service(tmp_path, *PATIENT, *TLS) as service:
        plain = socket.create_connection(("127.0.0.1", service.port), 60)
        with client_context().wrap_socket(plain, server_hostname="localhost") as sock:
            sock.sendall(HALF)
            service.log.read_more(0.1)
            assert service.end() == 0
            assert sock.recv(4096).startswith(b"HTTP/1.1 408")


def test_a_head_that_begins_during_the_stop(tmp_path: Path) -> None:
    """Another request holds the server meanwhile, which is served."""
    with Service(tmp_path, *PATIENT) as service:
        held = service.held("/wait")
        with socket.create_connection(("127.0.0.1", service.port), 60) as sock:
            # It was accepted, and its first bytes come after the signal.
            service.get()
            service.send(signal.SIGTERM)
            service.log.wait_for("Shutting down")
            sock.sendall(HALF)
            got = read_all(sock)
            assert got == b"" or got.startswith(b"HTTP/1.1 408")
        (tmp_path / "go").touch()
        assert b"200 OK" in read_all(held)
        assert service.wait() == 0


def test_a_connection_of_the_backlog_that_begins_no_tls(tmp_path: Path) -> None:
    """It is accepted at the end, because a request may be on its way, but is not waited for."""
    source = """
        import os, time

        async def app(scope, receive, send):
            if scope["type"] == "lifespan":
                raise RuntimeError
            open("waiting", "w").close()
            while not os.path.exists("go"):
                time.sleep(0.01)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"served"})
    """
    with Service(tmp_path, *PATIENT, *TLS, source=source) as service:
        plain = socket.create_connection(("127.0.0.1", service.port), 60)
        with client_context().wrap_socket(plain, server_hostname="localhost") as sock:
            sock.sendall(WHOLE)
            service.wait_for_file("waiting")
            with socket.create_connection(("127.0.0.1", service.port), 60):
                service.send(signal.SIGTERM)
                (tmp_path / "go").touch()
                assert sock.recv(4096).startswith(b"HTTP/1.1 200")
                assert service.wait() == 0


def test_half_a_body_is_waited_for(tmp_path: Path) -> None:
    """Its request is in progress."""
    source = """
        async def app(scope, receive, send):
            if scope["type"] == "lifespan":
                raise RuntimeError
            open("waiting", "w").close()
            body = b""
            while (message := await receive()).get("more_body"):
                body += message["body"]
            body += message["body"]
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": body})
    """
    with Service(tmp_path, source=source) as service:
        with socket.create_connection(("127.0.0.1", service.port), 60) as sock:
            sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc")
            service.wait_for_file("waiting")
            service.send(signal.SIGTERM)
            service.log.wait_for("Waiting for 1 request")
            sock.sendall(b"def")
            assert read_all(sock).endswith(b"abcdef\r\n0\r\n\r\n")
        assert service.wait() == 0
