"""The farm's ports: plain HTTP, TLS with right and wrong certificates, and what goes wrong before HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tests.check.farm.connection import HEAD_LIMIT_BYTES, Serving

BACKLOG = 4096
PORTS_TRIED = 20
TLS = ("tls", "self_signed", "expired", "wrong_name", "unknown_authority")
"""Each is a listener, and the name of its certificate's file."""


def bound(hosts: Sequence[str]) -> list[socket.socket]:
    """A socket for each of these addresses, all with the same port."""
    socks: list[socket.socket] = []
    for _ in range(PORTS_TRIED):
        try:
            for host in hosts:
                socks.append(bound_to(host, port_of(socks[0]) if socks else 0))
        except OSError as error:
            # The kernel chooses a port that is free on the first address; another program may have it on the others.
            for sock in socks:
                sock.close()
            socks.clear()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return socks
    raise OSError(errno.EADDRINUSE, f"no port in {PORTS_TRIED} is free on all of {', '.join(hosts)}")


def bound_to(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def listen(handler: Handler, hosts: Sequence[str], context: ssl.SSLContext | None = None) -> int:
    """Serves on all of these addresses; returns the port."""
    socks = bound(hosts)
    for sock in socks:
        await asyncio.start_server(handler, sock=sock, ssl=context, backlog=BACKLOG, limit=HEAD_LIMIT_BYTES)
    return port_of(socks[0])


async def listen_tls(make: Callable[[str], Serving], hosts: Sequence[str], folder: Path) -> dict[str, int]:
    """A listener for each certificate."""
    ports = {}
    for name in TLS:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / f"{name}.pem")
        ports[name] = await listen(make(name), hosts, context)
    return ports


async def cut_handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ends the connection after the client's hello."""
    with contextlib.suppress(ConnectionError):
        await reader.read(1)
    writer.close()


async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never says a word: neither HTTP's nor TLS's."""
    with contextlib.suppress(ConnectionError):
        while await reader.read(65_536):
            pass
    writer.close()


class Dead:
    """Ports that no connection is made to. They keep their sockets for as long as the farm lives."""

    def __init__(self) -> None:
        self.kept: list[socket.socket] = []

    def closed(self) -> int:
        """A port that refuses: bound, so that it is nobody else's, and not listening."""
        (sock,) = bound(["127.0.0.1"])
        self.kept.append(sock)
        return port_of(sock)

    async def full(self) -> int:
        """A port whose backlog is full: Linux drops further SYNs, and connections are never made."""
        (sock,) = bound(["127.0.0.1"])
        sock.listen(0)
        self.kept.append(sock)
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(sock.getsockname())
            self.kept.append(client)
        return port_of(sock)
