"""Actions on servers: listening, dialling, closing; every accepted connection plays the server's hooks.

"Accepted connections start in the tick of their accept" (differences-from-asyncio.md): clients dial outside of the
loop, one after the other, and the loop runs until nothing happens before the program goes on.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

from tests.differential.author import Author
from tests.differential.program import Action, Body, Hooks
from tests.differential.running import settle
from tests.differential.streams import PROTOCOLS, Connection, hooks_of
from tests.differential.verb import Absent, verb
from tests.differential.world import World, plain


class Listening:
    """A server, its address, and the client that dialled last and has not been accepted."""

    def __init__(self, sock: socket.socket) -> None:
        self.server: Any = None
        self.sock = sock
        self.address = sock.getsockname()
        self.family = sock.family
        self.dialling: Connection | None = None
        self.dialled = 0


@verb
def serve(world: World, label: str, kind: str, protocol: str, hooks: Hooks, start: bool) -> None:
    if world.loop.is_running():
        raise Absent
    sock = socket.socket(socket.AF_INET if kind == "tcp" else socket.AF_UNIX)
    sock.bind(("127.0.0.1", 0) if kind == "tcp" else "")
    listening = Listening(sock)

    def factory() -> Any:
        connection = listening.dialling
        if connection is None:
            world.note("accepted a stranger")
            connection = Connection(world, f"{label}.stranger", {})
        connection.hooks = hooks
        if protocol == "refuses":
            raise world.error("value")
        return PROTOCOLS[protocol](connection)

    async def make() -> None:
        create: Any = world.loop.create_server if kind == "tcp" else world.loop.create_unix_server
        listening.server = await create(factory, sock=sock, start_serving=start)

    world.loop.run_until_complete(make())
    world.things[label] = listening
    world.endings.append(lambda: _end(world, listening))


def _end(world: World, listening: Listening) -> None:
    if not world.loop.is_closed():
        listening.server.close()
    listening.sock.close()


@verb
def dial(world: World, label: str, server: str) -> None:
    """A client connects; the loop runs until nothing happens."""
    if world.loop.is_running():
        raise Absent
    listening: Listening = world.get(server)
    # Nothing else may be under way in the tick of the accept.
    settle(world)
    connection = Connection(world, label, {})
    world.things[label] = connection
    client = socket.socket(listening.family)
    connection.peer = client
    world.endings.append(connection.end)
    try:
        client.connect(listening.address)
    except OSError as exc:
        # The text of a refused Unix address has the address in it.
        world.note("refused", type(exc).__name__)
        client.close()
        return
    client.setblocking(False)
    if listening.family == socket.AF_INET:
        # Or a small send waits for the acknowledgement of the one before it, which comes when the kernel likes.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.dialling = connection
    listening.dialled += 1
    settle(world)
    listening.dialling = None


@verb
def server_call(world: World, label: str, method: str) -> Any:
    """A method of the server; newer ones where they are."""
    server = world.get(label).server
    if method in ("close_clients", "abort_clients") and (sys.version_info < (3, 13) or world.get(label).dialled > 1):
        # Clients stand in a set: several are closed in any order.
        raise Absent
    if method == "sockets":
        return len(server.sockets)
    return getattr(server, method)()


@verb
async def start_serving(world: World, label: str) -> None:
    await world.get(label).server.start_serving()


@verb
async def server_closed(world: World, label: str) -> None:
    await world.get(label).server.wait_closed()


@verb
def waiter(world: World, label: str) -> None:
    """A task that waits for the server to be closed."""
    server = world.get(label).server

    async def main() -> None:
        try:
            await server.wait_closed()
        except Exception as exc:
            world.note("raised", "wait_closed", plain(exc))
        world.note("server closed", label)

    world.loop.create_task(main(), name=f"waiter {label}")


# -- drawing -----------------------------------------------------------------------------------------


def draw_serve(author: Author) -> Action:
    hooks = hooks_of(author)
    protocol = author.weighted({"wire": 6.0, "buffered": 3.0, "refuses": 1.0})
    return ("serve", author.new("s"), author.choice(["tcp", "unix"]), protocol, hooks, author.chance(0.9))


def draw_dial(author: Author) -> Action:
    return ("dial", author.new("w"), author.some("s"))


def draw_server_call(author: Author) -> Action:
    methods = {"close": 1.0, "close_clients": 0.5, "abort_clients": 0.5, "is_serving": 1.0, "sockets": 1.0}
    return ("server_call", author.some("s"), author.weighted(methods))


def draw_waiter(author: Author) -> Action:
    return ("waiter", author.some("s"))


def opening(author: Author) -> Body:
    return [draw_serve(author), draw_dial(author)]


SERVERS = {draw_serve: 0.1, draw_dial: 2.0, draw_server_call: 1.0, draw_waiter: 0.3}
