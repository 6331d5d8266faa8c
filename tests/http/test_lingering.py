"""A client that still sends when the server ends the connection: it is not reset, and learns why, with TLS too."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from tests.certificates import client_context
from tests.http.service import Service
from tests.http.test_http2 import TLS

if TYPE_CHECKING:
    from pathlib import Path

APP = """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    headers = [(b"content-length", b"4")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": b"much"})
"""
PIECE = bytes(100_000)


@pytest.mark.parametrize("pieces", [3, 100])
@pytest.mark.parametrize(
    "options", [(), TLS, (*TLS, "--ssl-ciphers", "ECDHE+AESGCM")], ids=["plain", "rustls", "OpenSSL"]
)
def test_an_upload_that_is_refused_is_not_reset(tmp_path: Path, options: tuple[str, ...], pieces: int) -> None:
    """With TLS, data behind a close_notify is an error for asyncio's transports, which abort."""
    with Service(tmp_path, *options, source=APP) as service:
        client = socket.create_connection(("127.0.0.1", service.port), timeout=60)
        with client_context().wrap_socket(client, server_hostname="localhost") if options else client as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n")
            for _ in range(pieces):
                client.sendall(PIECE)
            got = b""
            while data := client.recv(65536):
                got += data
            assert got.startswith(b"HTTP/1.1 413 ")
            assert got.endswith(b"much")
