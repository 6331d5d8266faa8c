"""Actions on asyncio's own streams: a StreamReader and a StreamWriter over a socket pair."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.differential.author import Author
from tests.differential.program import Action, Body
from tests.differential.streams import Connection, socket_pair, wait_for
from tests.differential.tasks import IN_TASKS, TASKS
from tests.differential.verb import Absent, verb
from tests.differential.world import World


class Dialogue(Connection):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def end(self) -> None:
        super().end()
        if self.transport is None and self.ours is not None:
            self.ours.close()


@verb
def dialogue(world: World, label: str, kind: str, limit: int) -> None:
    """A reader and a writer for one end of a new pair."""
    made = Dialogue(world, label, {})
    made.ours, made.peer = socket_pair(kind)
    world.things[label] = made
    world.endings.append(made.end)

    async def start() -> None:
        made.reader, made.writer = await asyncio.open_connection(sock=made.ours, limit=limit)
        made.transport = made.writer.transport
        world.note("connected", label)

    wait_for(world, world.loop.create_task(start(), name=f"connect {label}"))


def of(world: World, label: str) -> Dialogue:
    made: Dialogue = world.get(label)
    if made.transport is None:
        raise Absent
    return made


@verb
async def read(world: World, label: str, size: int) -> Any:
    return await of(world, label).reader.read(size)


@verb
async def read_exactly(world: World, label: str, size: int) -> Any:
    return await of(world, label).reader.readexactly(size)


@verb
async def read_until(world: World, label: str, separator: str) -> Any:
    return await of(world, label).reader.readuntil(separator.encode())


@verb
async def drain(world: World, label: str) -> None:
    await of(world, label).writer.drain()


@verb
async def wait_closed(world: World, label: str) -> None:
    await of(world, label).writer.wait_closed()


@verb
def about_reader(world: World, label: str) -> Any:
    reader = of(world, label).reader
    return [reader.at_eof(), reader.exception()]


# -- drawing -----------------------------------------------------------------------------------------


def draw_dialogue(author: Author) -> Action:
    kind = author.choice(["unix", "unix", "small", "tcp"])
    return ("dialogue", author.new("w"), kind, author.choice([65536, 65536, 100]))


def draw_read(author: Author) -> Action:
    label = author.some("w")
    kind = author.below(6)
    if kind < 3:
        return ("read", label, author.choice([1, 100, 100_000, 100_000, -1]))
    if kind < 4:
        return ("read_exactly", label, author.choice([1, 100, 5000]))
    return ("read_until", label, author.choice(["a", "b", "cd", "e", "gh"]))


def draw_drain(author: Author) -> Action:
    return (author.choice(["drain", "drain", "wait_closed"]), author.some("w"))


def draw_about(author: Author) -> Action:
    return ("about_reader", author.some("w"))


def opening(author: Author) -> Body:
    return [draw_dialogue(author)]


DIALOGUES = {**TASKS, draw_about: 0.5}
IN_DIALOGUES = {**IN_TASKS, draw_read: 8.0, draw_drain: 3.0}
