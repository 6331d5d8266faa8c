"""The name of the server in a request, over both protocols: what the application is told, and what is refused.

HTTP/1.1: RFC 9112 sections 3.2 and 3.3. HTTP/2: the field `:authority` (RFC 9113 section 8.3.1).
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from hpack import Decoder, Encoder

from tests.http.file_server import serving
from tests.http.http2_peer import END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, Raw, frame, frames, text_of
from tests.http.wsgi_peers import read_all


class Host:
    """An application whose response is the field `host`, as ASGI or WSGI has it."""

    def __init__(self) -> None:
        self.hosts: list[bytes | None] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        (host,) = [value for name, value in scope["headers"] if name == b"host"] or [None]
        self.hosts.append(host)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    def wsgi(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        host = environ.get("HTTP_HOST")
        self.hosts.append(None if host is None else host.encode())
        start_response("204 No Content", [])
        return []


# What the application is told; None: the request is refused.
HOSTS: list[tuple[bytes, bytes | None]] = [
    (b"a", b"a"),
    (b"a:80", b"a:80"),
    (b"[::1]:80", b"[::1]:80"),
    (b"[fe80::1%25eth0]", b"[fe80::1%25eth0]"),
    (b"[fe80::1%eth0]:80", b"[fe80::1%eth0]:80"),
    (b"", b""),
    (b":80", None),
    (b"[::1%25]", None),
    (b"a:b", None),
    (b"a:65536", None),
    (b"u@a", None),
    (b"a b", None),
    (b"a/b", None),
]


def ask(port: int, request: bytes) -> int:
    with socket.create_connection(("127.0.0.1", port), 60) as sock:
        sock.sendall(request)
        return int(read_all(sock).split()[1])


async def told(interface: str, asked: Any, *arguments: Any) -> tuple[int, list[bytes | None]]:
    host = Host()
    app: Any = host if interface == "asgi" else host.wsgi
    async with serving(app=app, interface=interface) as running:
        status = await asyncio.to_thread(asked, running.port, *arguments)
        for thread in running.http.end_threads():
            await asyncio.to_thread(thread.join, 60)
    return status, host.hosts


@pytest.mark.parametrize("interface", ["asgi", "wsgi"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize(("sent", "seen"), HOSTS)
async def test_http1(sent: bytes, seen: bytes | None, version: str, interface: str) -> None:
    request = b"GET / HTTP/%b\r\nHost: %b\r\nConnection: close\r\n\r\n" % (version.encode(), sent)
    expected = (400, []) if seen is None else (204, [seen])
    assert await told(interface, ask, request) == expected


@pytest.mark.parametrize("interface", ["asgi", "wsgi"])
@pytest.mark.parametrize(
    ("target", "sent", "seen"),
    [
        (b"http://b/", b"Host: a\r\n", b"b"),
        (b"http://b:8080/x", b"Host: a\r\n", b"b:8080"),
        (b"http://b", b"Host:\r\n", b"b"),
        (b"https://[::1]/", b"Host: a\r\n", b"[::1]"),
        (b"http://b/", b"", None),
        (b"http://b/", b"Host: a b\r\n", None),
        (b"http://b/", b"Host: b\r\nHost: b\r\n", None),
        (b"http:///", b"Host: a\r\n", None),
        (b"http://u@b/", b"Host: b\r\n", None),
    ],
)
async def test_the_target_of_a_proxy(target: bytes, sent: bytes, seen: bytes | None, interface: str) -> None:
    """RFC 9112 section 3.2.2: the Host is ignored, and the target's host is used."""
    request = b"GET %b HTTP/1.1\r\n%bConnection: close\r\n\r\n" % (target, sent)
    expected = (400, []) if seen is None else (204, [seen])
    assert await told(interface, ask, request) == expected


@pytest.mark.parametrize("interface", ["asgi", "wsgi"])
@pytest.mark.parametrize(
    ("target", "sent", "seen"),
    [(b"http://b:80/", b"", b"b:80"), (b"http://b/", b"Host: a\r\n", b"b"), (b"/", b"", None)],
)
async def test_a_target_of_http10(target: bytes, sent: bytes, seen: bytes | None, interface: str) -> None:
    """It need not have the field, so the target is the only one to name the host."""
    request = b"GET %b HTTP/1.0\r\n%b\r\n" % (target, sent)
    assert await told(interface, ask, request) == (204, [seen])


def ask_2(port: int, authority: bytes | None, host: bytes | None) -> int:
    """0: the stream or the connection has ended without a response."""
    fields = [(":method", "GET"), (":scheme", "http"), (":path", "/")]
    if authority is not None:
        fields.append((":authority", authority.decode()))
    if host is not None:
        fields.append(("host", host.decode()))
    encoder = Encoder()
    encoder.header_table_size = 0
    with Raw(port) as raw:
        raw.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, encoder.encode(fields)))
        while True:
            for kind, stream, payload in frames(raw.got):
                if kind == HEADERS and stream == 1:
                    return int(text_of(Decoder().decode(payload))[":status"])
                if (kind == RST_STREAM and stream == 1) or kind == GOAWAY:
                    return 0
            data = raw.sock.recv(65536)
            if not data:
                return 0
            raw.got += data


@pytest.mark.parametrize("interface", ["asgi", "wsgi"])
@pytest.mark.parametrize(("sent", "seen"), HOSTS)
@pytest.mark.parametrize("is_authority", [True, False])
async def test_http2(sent: bytes, seen: bytes | None, is_authority: bool, interface: str) -> None:
    if not sent:
        # RFC 9113 section 8.3.1: a request for http or https has one, and nghttp2 knows.
        seen = None
    status, hosts = await told(interface, ask_2, *((sent, None) if is_authority else (None, sent)))
    assert (status in (0, 400), hosts) == (seen is None, [] if seen is None else [seen])


async def test_an_authority_replaces_the_host() -> None:
    assert await told("asgi", ask_2, b"b", b"a") == (204, [b"b"])
