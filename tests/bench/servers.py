"""Servers that misbehave, for the tests of how the bench judges them. Run as `python -m tests.bench.servers KIND`."""

from __future__ import annotations

import os
import socket
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


if __name__ == "__main__":
    globals()[sys.argv[1]]()
