"""The callbacks of a loop that a program can write in."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

from tests.conftest import settle

Action = Callable[[], Any]


async def _in_call_soon(action: Action) -> None:
    asyncio.get_running_loop().call_soon(action)


async def _in_call_later(action: Action) -> None:
    asyncio.get_running_loop().call_later(0, action)


async def _in_call_soon_threadsafe(action: Action) -> None:
    thread = threading.Thread(target=asyncio.get_running_loop().call_soon_threadsafe, args=(action,))
    thread.start()
    thread.join()


async def _in_task_step(action: Action) -> None:
    async def step() -> None:
        await asyncio.sleep(0)
        action()

    await asyncio.create_task(step())


async def _in_reader_callback(action: Action) -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    ran = loop.create_future()

    def read() -> None:
        loop.remove_reader(ours)
        ran.set_result(None)
        action()

    with ours, theirs:
        loop.add_reader(ours, read)
        theirs.send(b"x")
        await ran


async def _in_writer_callback(action: Action) -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    ran = loop.create_future()

    def write() -> None:
        loop.remove_writer(ours)
        ran.set_result(None)
        action()

    with ours, theirs:
        loop.add_writer(ours, write)
        await ran


class _Acting(asyncio.Protocol):
    """Calls an action in one of its methods."""

    def __init__(self, method: str, action: Action) -> None:
        self.method = method
        self.action = action

    def _act(self, method: str) -> None:
        if method == self.method:
            self.action()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._act("connection_made")

    def data_received(self, data: bytes) -> None:
        self._act("data_received")

    def eof_received(self) -> None:
        self._act("eof_received")

    def connection_lost(self, exc: Exception | None) -> None:
        self._act("connection_lost")


def _in_protocol_method(method: str) -> Callable[[Action], Any]:
    async def run(action: Action) -> None:
        ours, theirs = socket.socketpair()
        ended = asyncio.get_running_loop().create_future()

        def act() -> None:
            ended.set_result(None)
            action()

        with theirs:
            transport, _ = await asyncio.get_running_loop().create_connection(lambda: _Acting(method, act), sock=ours)
            theirs.send(b"x")
            theirs.shutdown(socket.SHUT_WR)
            await ended
            transport.close()

    return run


PLACES: dict[str, Callable[[Action], Any]] = {
    "call_soon": _in_call_soon,
    "call_later": _in_call_later,
    "call_soon_threadsafe": _in_call_soon_threadsafe,
    "task step": _in_task_step,
    "reader": _in_reader_callback,
    "writer": _in_writer_callback,
    "connection_made": _in_protocol_method("connection_made"),
    "data_received": _in_protocol_method("data_received"),
    "eof_received": _in_protocol_method("eof_received"),
    "connection_lost": _in_protocol_method("connection_lost"),
}


async def run_in(place: str, action: Action) -> Any:
    """Run an action in such a callback, and return or raise what it does."""
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def act() -> None:
        try:
            done.set_result(action())
        except BaseException as error:
            done.set_exception(error)

    await PLACES[place](act)
    result = await done
    await settle(4)
    return result
