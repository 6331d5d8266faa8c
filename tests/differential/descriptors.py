"""Actions on the program's own sockets: readers, writers, sock_* calls, closing, numbers that are used again."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from tests.differential.author import Author, Draw
from tests.differential.program import Action, Body
from tests.differential.streams import Connection, read_now, socket_pair
from tests.differential.tasks import IN_TASKS, TASKS
from tests.differential.verb import Absent, verb
from tests.differential.world import World

# A reader that does not read is called in every tick; it takes itself away after so many calls.
MOST_CALLS = 4


@verb
def pair(world: World, label: str, kind: str) -> None:
    """Two connected sockets: ours for the loop's sock_* calls and readers; the peer's actions are those of streams."""
    connection = Connection(world, label, {})
    connection.ours, connection.peer = socket_pair(kind)
    world.things[label] = connection

    def end() -> None:
        with contextlib.suppress(Absent):
            shut(world, label)
        connection.end()

    world.endings.append(end)


def ours_of(world: World, label: str) -> socket.socket:
    connection: Connection = world.get(label)
    if connection.ours is None or connection.ours.fileno() < 0:
        raise Absent
    return connection.ours


class Watch:
    """What a reader or writer calls; takes itself away when it has been called often enough."""

    def __init__(self, world: World, label: str, ours: socket.socket, body: Body, remove: Any) -> None:
        self.world = world
        self.label = label
        self.ours = ours
        self.body = body
        self.remove = remove
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls >= MOST_CALLS and self.ours.fileno() >= 0:
            self.remove(self.ours)
        self.world.enter(self.label, self.body, self.calls)

    def __repr__(self) -> str:
        return f"<{self.label}>"


@verb
def reader(world: World, label: str, callback: str, body: Body) -> None:
    ours = ours_of(world, label)
    world.loop.add_reader(ours, Watch(world, callback, ours, body, world.loop.remove_reader))


@verb
def writer(world: World, label: str, callback: str, body: Body) -> None:
    ours = ours_of(world, label)
    world.loop.add_writer(ours, Watch(world, callback, ours, body, world.loop.remove_writer))


@verb
def no_reader(world: World, label: str) -> Any:
    return world.loop.remove_reader(ours_of(world, label))


@verb
def no_writer(world: World, label: str) -> Any:
    return world.loop.remove_writer(ours_of(world, label))


@verb
def take_now(world: World, label: str, size: int) -> Any:
    """The program reads from its end itself."""
    return read_now(ours_of(world, label), size)


@verb
def send_now(world: World, label: str, size: int) -> Any:
    connection: Connection = world.get(label)
    return ours_of(world, label).send(connection.data(size)) == size


@verb
def shut(world: World, label: str) -> Any:
    """Close our end as one should: out of the loop first."""
    ours = ours_of(world, label)
    removed = [] if world.loop.is_closed() else [world.loop.remove_reader(ours), world.loop.remove_writer(ours)]
    ours.close()
    return removed


def one_at_a_time(world: World, label: str, direction: str) -> Any:
    """Several tasks may wait on one socket here; in asyncio the later takes the earlier's place. Not drawn."""
    key = f"{label}.{direction}"
    if world.things.get(key):
        raise Absent
    return key


@verb
async def sock_recv(world: World, label: str, size: int) -> Any:
    key, ours = one_at_a_time(world, label, "in"), ours_of(world, label)
    world.things[key] = True
    try:
        return await world.loop.sock_recv(ours, size)
    finally:
        world.things[key] = False


@verb
async def sock_recv_into(world: World, label: str, size: int) -> Any:
    key, ours = one_at_a_time(world, label, "in"), ours_of(world, label)
    world.things[key] = True
    buffer = bytearray(size)
    try:
        count = await world.loop.sock_recv_into(ours, buffer)
    finally:
        world.things[key] = False
    return [count, buffer[:count]]


@verb
async def sock_sendall(world: World, label: str, size: int) -> None:
    key, ours = one_at_a_time(world, label, "out"), ours_of(world, label)
    connection: Connection = world.get(label)
    world.things[key] = True
    try:
        await world.loop.sock_sendall(ours, connection.data(size))
    finally:
        world.things[key] = False


@verb
async def sock_pass(world: World, label: str) -> None:
    """sock_connect() to a listening socket, and sock_accept() of what comes."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        server.setblocking(False)
        client.setblocking(False)
        await world.loop.sock_connect(client, server.getsockname())
        accepted, _ = await world.loop.sock_accept(server)
        with accepted:
            await world.loop.sock_sendall(client, label.encode())
            world.note("passed", await world.loop.sock_recv(accepted, 100))


# -- drawing -----------------------------------------------------------------------------------------

SIZES = [1, 10, 1000, 5000, 70_000]


def draw_pair(author: Author) -> Action:
    return ("pair", author.new("p"), author.choice(["unix", "unix", "small", "tcp"]))


def draw_sock_pair(author: Author) -> Action:
    return ("pair", author.new("k"), author.choice(["unix", "unix", "small", "tcp"]))


def draw_reader(author: Author) -> Action:
    return (author.choice(["reader", "reader", "writer"]), author.some("p"), author.new("r"), author.body(3))


def draw_taking_reader(author: Author) -> Action:
    """A reader that reads: it is called as often as something comes, and not once per tick."""
    label = author.some("p")
    return ("reader", label, author.new("r"), [("take_now", label, 1_000_000), *author.body(3)])


def draw_no_reader(author: Author) -> Action:
    return (author.choice(["no_reader", "no_reader", "no_writer"]), author.some("p"))


def draw_now(author: Author) -> Action:
    label = author.some("p")
    return author.choice([("take_now", label, 1_000_000), ("take_now", label, 1), ("send_now", label, 10)])


def draw_shut(author: Author) -> Action:
    return ("shut", author.some("p"))


def draw_peer(author: Author) -> Action:
    label = author.some(author.choice(["p", "k"]))
    kind = author.below(10)
    if kind < 5:
        return ("peer_send", label, author.choice(SIZES))
    if kind < 8:
        return ("peer_read", label, author.choice([1, 1_000_000, 1_000_000]))
    return (author.choice(["peer_shut", "peer_close", "peer_reset"]), label)


def draw_sock_call(author: Author) -> Action:
    label = author.some("k")
    kind = author.below(8)
    if kind < 3:
        return ("sock_recv", label, author.choice([1, 100, 100_000]))
    if kind < 5:
        return ("sock_recv_into", label, author.choice([1, 100, 100_000]))
    if kind < 7:
        return ("sock_sendall", label, author.choice([0, *SIZES, 300_000]))
    return ("sock_pass", author.new("z"))


def opening(author: Author) -> Body:
    return [draw_pair(author), draw_pair(author)]


def sock_opening(author: Author) -> Body:
    return [draw_sock_pair(author) for _ in range(1 + author.below(2))]


READERS = {
    draw_pair: 0.5,
    draw_reader: 4.0,
    draw_no_reader: 2.0,
    draw_now: 2.0,
    draw_shut: 0.7,
    draw_peer: 4.0,
}

SOCK_CALLS: dict[Draw, float] = {**TASKS, draw_sock_pair: 0.2, draw_peer: 5.0}
IN_SOCK_CALLS = {**IN_TASKS, draw_sock_call: 12.0}
