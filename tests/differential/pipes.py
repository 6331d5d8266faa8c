"""Actions on pipe transports; the peer is the pipe's other end, and the actions are those of streams."""

from __future__ import annotations

import os
from typing import Any

from tests.differential.author import Author
from tests.differential.program import Action, Body, Hooks
from tests.differential.streams import PROTOCOLS, Connection, hooks_of, wait_for
from tests.differential.verb import verb
from tests.differential.world import World


class PipeEnd:
    """The peer's end of a pipe, with a socket's methods."""

    family = None

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def fileno(self) -> int:
        return self.fd

    def recv(self, size: int) -> bytes:
        return os.read(self.fd, size)

    def send(self, data: bytes) -> int:
        return os.write(self.fd, data)

    def shutdown(self, _how: int) -> None:
        self.close()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


@verb
def pipe(world: World, label: str, direction: str, hooks: Hooks) -> None:
    """A transport for one end of a new pipe."""
    connection = Connection(world, label, hooks)
    connection.is_brittle = True
    reading, writing = (
        {"pause_reading", "resume_reading", "is_reading"},
        {"write", "abort", "write_eof", "can_write_eof"},
    )
    connection.lacks = frozenset(writing if direction == "in" else reading)
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    os.set_blocking(write_fd, False)
    ours, theirs = (read_fd, write_fd) if direction == "in" else (write_fd, read_fd)
    end: Any = PipeEnd(theirs)
    connection.peer = end
    file = os.fdopen(ours, "rb" if direction == "in" else "wb", 0)
    start: Any = world.loop.connect_read_pipe if direction == "in" else world.loop.connect_write_pipe
    wait_for(world, connection.begin("pipe", lambda: start(lambda: PROTOCOLS["wire"](connection), file), file))


def draw_pipe(author: Author) -> Action:
    return ("pipe", author.new("w"), author.choice(["in", "out", "out"]), hooks_of(author))


def opening(author: Author) -> Body:
    return [draw_pipe(author), draw_pipe(author)]
