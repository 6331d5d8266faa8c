"""Contexts on both engines, a file with some content, two connected sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from oneloop.compat.linux_aio import (
    AIOBlock,
    AIOContext,
    AIOEvent,
)

Open = Callable[[int], AIOContext]

CONTENT = "content\n"


@pytest.fixture(params=["ring", "aio"])
def engine(request: pytest.FixtureRequest) -> Literal["ring", "aio"]:
    name: Literal["ring", "aio"] = request.param
    return name


@pytest.fixture
def opened(engine: Literal["ring", "aio"]) -> Open:
    return lambda max_jobs: AIOContext(max_jobs, engine=engine)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_text(CONTENT)
    return made


@pytest.fixture
def sockets(audit: None) -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        served, _ = server.accept()
    with client, served:
        yield client, served


def done(context: AIOContext, block: AIOBlock) -> AIOEvent:
    """Submit one block and return its event."""
    assert context.submit(block) == 1
    (event,) = context.get_events(1, 1)
    assert event.aio_block is block
    assert event.response2 == 0
    return event
