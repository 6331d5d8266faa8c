"""Servers that misbehave, for the tests of how the bench judges them.

Run as `python -m tests.bench.servers KIND`; those that speak TLS need a file with key and chain as well.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
import time

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


if __name__ == "__main__":
    globals()[sys.argv[1]]()
