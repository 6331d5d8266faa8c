"""Two connected sockets, and single ticks of a loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from tests.transport.conftest import socket_pair

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair(audit: None) -> Iterator[Pair]:
    """Neither blocks."""
    ours, theirs = socket_pair("unix")
    with ours, theirs:
        yield ours, theirs


def run_ticks(loop: asyncio.AbstractEventLoop, count: int = 1) -> None:
    for _ in range(count):
        loop.stop()
        loop.run_forever()
