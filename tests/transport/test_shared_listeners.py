"""Listeners whose socket other processes accept from too, as the workers of a server do."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from functools import partial
from typing import Any

import pytest

import oneloop


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_loop_leaves_connections_to_those_that_share_its_listener(is_shared: bool) -> None:
    """Of those that wait together the first loop takes all, unless others accept from the same socket."""
    counts = [0, 0]
    lost: list[BaseException | None] = []

    class Leaver(asyncio.Protocol):
        def __init__(self, place: int) -> None:
            counts[place] += 1

        def connection_made(self, transport: Any) -> None:
            transport.abort()

        def connection_lost(self, exc: BaseException | None) -> None:
            lost.append(exc)

    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        loops = [stack.enter_context(contextlib.closing(oneloop.new_event_loop())) for _ in counts]
        for place, loop in enumerate(loops):
            sock = listener.dup()
            if is_shared:
                loop._shared[sock] = lambda: None
            making = loop.create_server(partial(Leaver, place), sock=sock)
            stack.callback(loop.run_until_complete(making).close)
        clients = [stack.enter_context(socket.create_connection(listener.getsockname())) for _ in range(10)]
        for _ in clients:
            for loop in loops:
                # One iteration.
                loop.call_soon(loop.stop)
                loop.run_forever()
        for loop in loops * len(clients):
            # Until they have left.
            loop.run_until_complete(asyncio.sleep(0))
    assert len(lost) == 10
    assert counts == ([5, 5] if is_shared else [10, 0])


def test_what_ends_tells_those_that_share_its_listener() -> None:
    """The kernel may have told this loop alone of a connection that it has not accepted yet."""
    told = []
    with contextlib.closing(oneloop.new_event_loop()) as loop:
        sock = socket.create_server(("127.0.0.1", 0))
        loop._shared[sock] = lambda: told.append("short")
        server = loop.run_until_complete(loop.create_server(asyncio.Protocol, sock=sock))
        # One of the program's own, which no other process knows.
        loop.run_until_complete(loop.create_server(asyncio.Protocol, "127.0.0.1", 0)).close()
        assert not told
        server.close()
        assert told == ["short"]
        assert not loop._shared
