"""How the loop is left: what was written in the last tick leaves all the same, and what waits is not lost."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.protocols import Recorder


class LeftError(SystemExit):
    """Raised by a callback to leave the loop."""


def interrupt(_loop: asyncio.AbstractEventLoop) -> None:
    raise KeyboardInterrupt


def leave(_loop: asyncio.AbstractEventLoop) -> None:
    raise LeftError


LEAVING: dict[str, Callable[[asyncio.AbstractEventLoop], None]] = {
    "stop": lambda loop: loop.stop(),
    "KeyboardInterrupt": interrupt,
    "SystemExit": leave,
}
# How a callback comes to run.
WAYS = ("soon", "later", "reader", "protocol", "task")


def start(loop: asyncio.AbstractEventLoop, way: str, callback: Callable[[], None], ours: Any, theirs: Any) -> None:
    """Have the loop run `callback` in this way, once."""

    def once() -> None:
        loop.remove_reader(ours)
        callback()

    async def main() -> None:
        callback()

    if way == "soon":
        loop.call_soon(callback)
    elif way == "later":
        loop.call_later(0.001, callback)
    elif way == "reader":
        loop.add_reader(ours, once)
        theirs.send(b"x")
    elif way == "task":
        loop.create_task(main())


@pytest.mark.parametrize("leaving", LEAVING)
@pytest.mark.parametrize("way", WAYS)
def test_what_was_written_has_left(loop: asyncio.AbstractEventLoop, way: str, leaving: str, reported: Any) -> None:
    ours, peer = socket.socketpair()
    watched, signalling = socket.socketpair()
    for each in (peer, watched, signalling):
        each.setblocking(False)

    class Writer(Recorder):
        def data_received(self, data: bytes) -> None:
            write_and_leave()

    def write_and_leave() -> None:
        for piece in (b"one ", b"two ", b"three"):
            transport.write(piece)
        LEAVING[leaving](loop)

    transport, _ = loop.run_until_complete(loop.create_connection(Writer, sock=ours))
    if way == "protocol":
        peer.send(b"x")
    else:
        start(loop, way, write_and_leave, watched, signalling)
    try:
        if leaving == "stop":
            loop.run_forever()
        else:
            with pytest.raises((KeyboardInterrupt, LeftError)):
                loop.run_forever()
        # The loop does not run: nothing can leave any more.
        assert peer.recv(100) == b"one two three"
    finally:
        transport.close()
        loop.run_until_complete(asyncio.sleep(0))
        for each in (peer, watched, signalling):
            each.close()
    if way == "task" and leaving != "stop":
        gc.collect()
        reported.take_one(BaseException)  # nobody has asked the task


def test_callbacks_behind_the_one_that_left_run_later(loop: asyncio.AbstractEventLoop) -> None:
    ran: list[int] = []
    loop.call_soon(ran.append, 1)
    loop.call_soon(interrupt, loop)
    loop.call_soon(ran.append, 2)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    assert ran == [1]
    loop.run_until_complete(asyncio.sleep(0))
    assert ran == [1, 2]
