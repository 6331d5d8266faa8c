"""The address and options of a rival, with one command line for all. Uses the standard library only."""

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
#: How long HTTP servers keep an idle connection. With uvicorn's five seconds some would end before they are measured.
KEEP_ALIVE_S = 75
START_PATIENCE_S = 15.0

#: The module with oneloop's TLS contexts, for `--contexts`.
ONELOOP_TLS = "oneloop.tls"


@dataclass(frozen=True)
class Endpoint:
    """The options of the command line."""

    loop: str
    form: str
    family: str
    path: str
    tls: str
    size: int
    contexts: str = "ssl"
    program: str = ""
    workers: int = 1


def parse() -> Endpoint:
    """Parses the command line, which is the same for every rival."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", default="asyncio")
    parser.add_argument("--form", default="protocol")
    parser.add_argument("--family", default="tcp")
    parser.add_argument("--path", default="")
    parser.add_argument("--tls", default="")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--contexts", choices=("ssl", ONELOOP_TLS), default="ssl")
    parser.add_argument("--program", default="")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    grow_heap()
    return Endpoint(**vars(options))


def grow_heap() -> None:
    """Puts glibc's allocator into the state that it has in a larger program after its imports.

    In a process that has never freed a large block, every buffer above 128 KiB is mapped and unmapped. This makes stock
    asyncio (256 KiB for each read) three times as slow as in real programs. Freeing one large block raises that
    threshold permanently (man 3 mallopt, M_MMAP_THRESHOLD). All Python rivals call this.
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
        # asyncio turns off Nagle's algorithm only if the protocol number is given; accepted sockets inherit
        # the option from the listening socket on Linux, which helps the libraries that never set it.
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.bind(("127.0.0.1", 0))
        sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock


def make_inheritable(sock: socket.socket) -> int:
    """The number of a blocking socket that stays open in the program that replaces this process (exec)."""
    sock.setblocking(True)
    sock.set_inheritable(True)
    return sock.detach()


def hand_over_listener(endpoint: Endpoint) -> int:
    """The number of a listening socket for a server that inherits it; clients may connect from now on."""
    listener = listen(endpoint)
    port = port_of(listener)
    number = make_inheritable(listener)
    announce_port(port)
    return number


def port_of(sock: socket.socket) -> int:
    """The port to announce; must be called before a loop takes over the socket."""
    return 0 if sock.family == socket.AF_UNIX else int(sock.getsockname()[1])


def announce(sock: socket.socket) -> None:
    """Prints that the server is ready."""
    announce_port(port_of(sock))


def announce_port(port: int) -> None:
    """The same for a socket that a library created."""
    print("ready", port, flush=True)


def find_nginx() -> str | None:
    """The path of nginx. Debian installs it in a folder that is only on root's PATH."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def free_port() -> int:
    """A free port for a server that cannot use an existing socket. If it is taken meanwhile, the server reports it."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def announce_when_served(port: int) -> None:
    """Announces a server that does not report when it listens; returns immediately.

    A separate process waits for it, not a thread: the server may fork, and its worker would inherit locks that a thread
    holds at that moment. The process is detached, so that it is not counted as a part of the server.
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
    """Returns when the port accepts connections; ends the process if this never happens."""
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
    """Sets TCP_NODELAY, as for every rival; does nothing on a Unix socket."""
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
