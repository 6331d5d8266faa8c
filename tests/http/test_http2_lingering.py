"""HTTP/2 in the server: clients that break the rules, what they are told, and what is logged of them."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

import pytest
from hpack import Encoder

from tests.certificates import client_context
from tests.http.http2_peer import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    WINDOW_UPDATE,
    Peer,
    Raw,
    frame,
    frames,
    head,
)
from tests.http.service import Service
from tests.http.test_http2 import TLS

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

APP = """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
    elif scope["path"] == "/wait":
        await receive()
        print("waits", flush=True)
        print("told", (await receive())["type"], flush=True)
    else:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"well"})
"""
WRONG = frame(WINDOW_UPDATE, 0, 0, bytes(4))
"""A window that opens by nothing: an error of the connection."""
MUCH = frame(PING, 0, 0, bytes(8)) * 30_000
"""More than the server has read when it ends the connection."""


def code_of(got: bytes) -> int | None:
    """The code of the GOAWAY; None if there was none."""
    codes = [struct.unpack(">I", payload[4:8])[0] for kind, _, payload in frames(got) if kind == GOAWAY]
    return codes[-1] if codes else None


@pytest.mark.parametrize(
    "options", [(), TLS, (*TLS, "--ssl-ciphers", "ECDHE+AESGCM")], ids=["plain", "rustls", "OpenSSL"]
)
def test_the_goaway_reaches_a_client_that_still_sends(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The connection was closed with unread input, and reset: the client never learned why."""
    context: ssl.SSLContext | None = client_context() if options else None
    with Service(tmp_path, *options, source=APP) as service, Peer(service.port, context) as peer:
        peer.sock.sendall(WRONG + MUCH)
        got = b""
        peer.sock.settimeout(60)
        # It reads slowly, and after all was sent.
        while code_of(got) is None:
            data = peer.sock.recv(4096)
            assert data, "no GOAWAY"
            got += data
        assert code_of(got) == 1
        if not options:
            # An end, and no reset, in spite of what was not read.
            assert peer.sock.recv(1) == b""


def test_requests_under_way_are_told_at_once(tmp_path: Path) -> None:
    """Not when the client has gone."""
    with Service(tmp_path, source=APP) as service, Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head(path="/wait")))
        service.out.wait_for("waits\n")
        raw.send(WRONG)
        # The client does not end its side.
        service.out.wait_for("told http.disconnect")
        assert "/wait" in service.out.wait_for('"GET .*\n').group()


def test_what_still_comes_is_dropped_up_to_a_bound(tmp_path: Path) -> None:
    with Service(tmp_path, source=APP) as service, Raw(service.port) as raw:
        raw.send(WRONG)
        sent = 0
        while raw.send(frame(DATA, 0, 1, bytes(16_000)) * 10):
            sent += 160_000
            assert sent < 64_000_000
        service.log.wait_for("HTTP/2 connection of .* ended: WINDOW_UPDATE.*\n")
        with Peer(service.port) as peer:
            assert peer.get("/").body == b"well"


def test_a_client_that_stays_is_left_after_a_time(tmp_path: Path) -> None:
    with Service(tmp_path, source=APP) as service, Peer(service.port) as peer:
        peer.sock.sendall(WRONG)
        peer.sock.settimeout(60)
        while peer.sock.recv(65536):
            pass
        # Nothing more comes, and the client says nothing: the server closes its end, which shows as a reset.
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while True:
                peer.sock.sendall(frame(PING, 0, 0, bytes(8)))
                time.sleep(0.05)


def test_a_websocket_has_the_line_that_it_has_in_http1(tmp_path: Path) -> None:
    with Service(tmp_path, source=APP) as service, Peer(service.port) as peer:
        peer.get("/")
        stream = peer.ask("/ws", "CONNECT", ("sec-websocket-version", "13"), ends=False, protocol="websocket")
        while not peer.responses[stream].fields:
            assert peer.read()
        assert peer.responses[stream].status == 200
        assert service.out.wait_for('"GET /ws HTTP/2" [0-9]+').group().endswith(" 101")


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            [(":method", "GET"), (":scheme", "http"), (":path", "/a?b"), ("connection", "close")],
            '"GET /a?b HTTP/2" 400',
        ),
        ([(":method", "GET"), (":scheme", "http"), (":authority", "a")], '"-" 400'),
    ],
    ids=["field", "no path"],
)
def test_a_head_that_is_refused_has_a_line(tmp_path: Path, fields: list[tuple[str, str]], line: str) -> None:
    """nghttp2 ends the connection instead of a response."""
    with Service(tmp_path, source=APP) as service, Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, Encoder().encode(fields)))
        raw.read_to_end()
        assert code_of(raw.got) == 1
        found = service.out.wait_for('".*" [0-9]+').group()
        assert found == line
