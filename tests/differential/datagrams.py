"""Actions on datagram transports: a pair of Unix datagram sockets, or two UDP sockets on the loopback interface."""

from __future__ import annotations

import asyncio
import functools
import socket
from typing import Any

from tests.differential.author import Author
from tests.differential.program import Action, Body, Hooks
from tests.differential.streams import Connection, Wire, peer_of, transport_of, wait_for
from tests.differential.verb import verb
from tests.differential.world import World, plain


class Post(asyncio.DatagramProtocol):
    """Plays bodies. An address is shown as what it is, not as the port that the kernel chose."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    connection_made = Wire.connection_made  # type: ignore[assignment]
    connection_lost = Wire.connection_lost
    pause_writing = Wire.pause_writing
    resume_writing = Wire.resume_writing

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.connection.call("data", data, type(addr).__name__)

    def error_received(self, exc: Exception) -> None:
        self.connection.call("error", exc)


def datagram_pair(kind: str) -> tuple[socket.socket, socket.socket]:
    if kind == "unix":
        # Named, by the kernel: asyncio cannot send on a socket whose peer has no name.
        ours = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        theirs = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in (ours, theirs):
            end.bind("")
        theirs.connect(ours.getsockname())
        ours.connect(theirs.getsockname())
    else:
        ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        theirs = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for end in (ours, theirs):
            end.bind(("127.0.0.1", 0))
        theirs.connect(ours.getsockname())
        if kind == "connected":
            ours.connect(theirs.getsockname())
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


@verb
def post(world: World, label: str, kind: str, hooks: Hooks) -> None:
    """A datagram transport for one of two new sockets."""
    connection = Connection(world, label, hooks)
    ours, connection.peer = datagram_pair(kind)
    make = functools.partial(world.loop.create_datagram_endpoint, lambda: Post(connection), sock=ours)
    wait_for(world, connection.begin("post", make, ours))


@verb
def send_to(world: World, label: str, size: int, to: str) -> None:
    connection, transport = transport_of(world, label)
    addresses: dict[str, Any] = {"peer": None, "nobody": ("127.0.0.1", 1), "wrong": "nowhere"}
    address = addresses[to]
    if to == "peer" and connection.peer is not None and connection.peer.fileno() >= 0:
        inet = connection.peer.family == socket.AF_INET
        address = connection.peer.getsockname() if inet else None
    if transport.is_closing():
        # asyncio raises AttributeError on a closed one, or sends; ours does nothing.
        return
    connection.note_write()
    transport.sendto(connection.data(size), address)


@verb
def peer_takes(world: World, label: str) -> Any:
    """Every datagram that the peer can read now."""
    peer = peer_of(world, label)
    if world.get(label).may_be_gathered():
        return None
    found = []
    while True:
        try:
            found.append(plain(peer.recv(100_000)))
        except OSError as exc:
            return [*found, type(exc).__name__]


# -- drawing -----------------------------------------------------------------------------------------


def hooks_of(author: Author) -> Hooks:
    hooks: Hooks = {}
    for hook, probability in (("made", 0.5), ("data", 0.6), ("error", 0.3), ("lost", 0.4)):
        if author.chance(probability):
            hooks[hook] = author.body(3)
    return hooks


def draw_post(author: Author) -> Action:
    return ("post", author.new("w"), author.choice(["unix", "udp", "connected"]), hooks_of(author))


def draw_send_to(author: Author) -> Action:
    to = author.weighted({"peer": 10.0, "nobody": 0.5, "wrong": 0.3})
    return ("send_to", author.some("w"), author.choice([1, 10, 1000, 9000]), to)


def draw_peer(author: Author) -> Action:
    label = author.some("w")
    kind = author.below(10)
    if kind < 5:
        return ("peer_send", label, author.choice([1, 10, 1000, 9000]))
    return ("peer_takes", label) if kind < 9 else ("peer_close", label)


def draw_method(author: Author) -> Action:
    return ("call", author.some("w"), author.choice(["close", "abort", "is_closing"]))


def opening(author: Author) -> Body:
    return [draw_post(author) for _ in range(1 + author.below(2))]


DATAGRAMS = {draw_send_to: 5.0, draw_peer: 6.0, draw_method: 0.8, draw_post: 0.2}
