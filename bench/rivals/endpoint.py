"""Where a rival listens, said the same way to all of them. Standard library only; every Python rival imports it."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import socket
import ssl
import time
from dataclasses import dataclass
from typing import cast

BACKLOG = 4096
#: How long HTTP servers keep an idle connection; uvicorn's five seconds would end some before they are measured.
KEEP_ALIVE_S = 75
START_PATIENCE_S = 15.0

#: The module of oneloop's own TLS contexts, for `--contexts`.
ONELOOP_TLS = "oneloop.tls"


@dataclass(frozen=True)
class Endpoint:
    """What the starter asked for on the command line."""

    loop: str
    form: str
    family: str
    path: str
    tls: str
    size: int
    contexts: str = "ssl"
    program: str = ""


def parse() -> Endpoint:
    """Reads the command line that every rival shares."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", default="asyncio")
    parser.add_argument("--form", default="protocol")
    parser.add_argument("--family", default="tcp")
    parser.add_argument("--path", default="")
    parser.add_argument("--tls", default="")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--contexts", choices=("ssl", ONELOOP_TLS), default="ssl")
    parser.add_argument("--program", default="")
    options = parser.parse_args()
    grow_heap()
    return Endpoint(**vars(options))


def grow_heap() -> None:
    """Brings glibc's allocator into the state that a program of some size has reached after its imports.

    In a process that never freed a large block, every buffer above 128 KiB is mapped and unmapped again, which makes
    stock asyncio (256 KiB for each read) three times as slow as it is in real programs. Freeing one large block
    raises that threshold for good (man 3 mallopt, M_MMAP_THRESHOLD). Done for all Python rivals alike.
    """
    bytearray(4 << 20)


def listen(endpoint: Endpoint) -> socket.socket:
    """A nonblocking socket that listens (or, for udp, is bound) on loopback or on the path."""
    if endpoint.family == "unix":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(endpoint.path)
        sock.listen(BACKLOG)
    elif endpoint.family == "udp":
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("127.0.0.1", 0))
    else:
        # asyncio switches Nagle's delay off only where the protocol number is given; Linux passes the option of a
        # listening socket on to those it accepts, which serves the libraries that never set it.
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.bind(("127.0.0.1", 0))
        sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock


def make_inheritable(sock: socket.socket) -> int:
    """The number of a blocking socket that lives on in the program that this process becomes."""
    sock.setblocking(True)
    sock.set_inheritable(True)
    return sock.detach()


def hand_over_listener(endpoint: Endpoint) -> int:
    """The number of a listening socket for a server that takes it over; clients may connect from now on."""
    listener = listen(endpoint)
    port = port_of(listener)
    number = make_inheritable(listener)
    announce_port(port)
    return number


def port_of(sock: socket.socket) -> int:
    """The port to announce; to be asked before a loop takes the socket over."""
    return 0 if sock.family == socket.AF_UNIX else int(sock.getsockname()[1])


def announce(sock: socket.socket) -> None:
    """Tells the starter that the server serves."""
    announce_port(port_of(sock))


def announce_port(port: int) -> None:
    """The same, where a library made the socket."""
    print("ready", port, flush=True)


def find_nginx() -> str | None:
    """Debian has it where only root looks."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def free_port() -> int:
    """For a server that takes no socket. It may be gone when the server wants it, which the server then says."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def announce_when_served(port: int) -> None:
    """Announces a server that does not say itself when it listens; returns at once.

    A process asks for it, no thread: the server may fork, and its worker would inherit the locks that a thread holds at
    that moment. It is nobody's child, so that it is not counted as a part of the server.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    if os.fork() == 0:
        _await_server(port)
        announce_port(port)
    os._exit(0)


def _await_server(port: int) -> None:
    """Returns when somebody listens; ends the process when nobody ever does."""
    deadline = time.monotonic() + START_PATIENCE_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
            continue
        return
    os._exit(1)


def no_delay(sock: socket.socket | None) -> None:
    """TCP_NODELAY, as every rival has it; nothing on a Unix socket."""
    if sock is not None and sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def tls_context(endpoint: Endpoint, make: type[ssl.SSLContext] = ssl.SSLContext) -> ssl.SSLContext | None:
    """A server context from the PEM with key and chain, or None without --tls."""
    if not endpoint.tls:
        return None
    if endpoint.contexts == ONELOOP_TLS:
        ours = importlib.import_module(ONELOOP_TLS).server_context(endpoint.tls, alpn=())
        return cast("ssl.SSLContext", ours)
    context = make(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(endpoint.tls)
    return context
