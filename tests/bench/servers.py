"""Servers that misbehave, for the tests of how the bench judges them.

Run as `python -m tests.bench.servers KIND`; those that speak TLS need a file with key and chain as well.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
import time
from collections.abc import Iterator

from bench.rivals.endpoint import announce


def listen() -> socket.socket:
    sock = socket.create_server(("127.0.0.1", 0), backlog=64)
    announce(sock)
    return sock


def dies_after_some_messages() -> None:
    client, _ = listen().accept()
    for _ in range(50):
        client.sendall(client.recv(65_536))
    print("out of luck", file=sys.stderr, flush=True)
    os._exit(3)


def answers_and_then_hangs() -> None:
    client, _ = listen().accept()
    for _ in range(50):
        client.sendall(client.recv(65_536))
    time.sleep(60)


def says_too_much() -> None:
    client, _ = listen().accept()
    while data := client.recv(65_536):
        client.sendall(data + b"!")


def closes_at_once() -> None:
    sock = listen()
    while True:
        sock.accept()[0].close()


def never_ready() -> None:
    print("hello", flush=True)
    time.sleep(60)


def serve_tls(context: ssl.SSLContext) -> None:
    """One echo for each connection; it then waits for the other end and says no goodbye itself."""
    context.load_cert_chain(sys.argv[2])
    sock = listen()
    while True:
        with context.wrap_socket(sock.accept()[0], server_side=True) as client:
            client.sendall(client.recv(65_536))
            client.recv(1)


def ends_tls_abruptly() -> None:
    serve_tls(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


def sends_no_tickets() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    serve_tls(context)


def speaks_old_tls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    serve_tls(context)


def requests_of(client: socket.socket) -> Iterator[bytes]:
    """Each request's head, as a generator sends it: one at a time, without a body."""
    while head := client.recv(65_536):
        yield head


def serve_http(answer: bytes, closes: bool) -> None:
    """The same answer to everything."""
    sock = listen()
    while True:
        with sock.accept()[0] as client:
            for _ in requests_of(client):
                client.sendall(answer)
                if closes:
                    break


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n"


def answers_with_a_changed_byte() -> None:
    serve_http(OK + b"x" * 63 + b"y", closes=False)


def answers_with_an_error() -> None:
    serve_http(OK.replace(b"200 OK", b"500 No") + b"x" * 64, closes=False)


def answers_with_too_much() -> None:
    serve_http(OK + b"x" * 65, closes=False)


def answers_without_a_length() -> None:
    serve_http(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 64, closes=True)


def answers_and_closes() -> None:
    serve_http(OK + b"x" * 64, closes=True)


def answers_and_never_closes() -> None:
    serve_http(OK + b"x" * 64, closes=False)


def refuses_the_upgrade() -> None:
    serve_http(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", closes=False)


def serve_websocket(frame: bytes) -> None:
    """Accepts the generator's key, the one of RFC 6455, and sends the same frame for every message."""
    client, _ = listen().accept()
    client.recv(65_536)
    accept = b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    client.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + accept + b"\r\n\r\n"
    )
    while client.recv(65_536):
        client.sendall(frame)


def sends_another_message() -> None:
    serve_websocket(b"\x82\x40" + bytes(64))


def sends_a_masked_frame() -> None:
    serve_websocket(b"\x82\xc0" + bytes(68))


def sends_a_short_message() -> None:
    serve_websocket(b"\x82\x00")


def closes_the_websocket() -> None:
    serve_websocket(b"\x88\x02\x03\xe8")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
