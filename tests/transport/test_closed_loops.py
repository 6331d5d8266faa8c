"""Transports whose loop is closed, or whose context the program has named: found by hostile scripts."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import socket
import threading
import warnings
from typing import Any

import pytest

from tests import programs
from tests.loops import LoopFactory
from tests.protocols import Recorder


def connected(loop: asyncio.AbstractEventLoop) -> tuple[Any, socket.socket]:
    ours, theirs = socket.socketpair()
    transport, _ = loop.run_until_complete(loop.create_connection(asyncio.Protocol, sock=ours))
    theirs.setblocking(False)
    return transport, theirs


def test_writes_after_the_loop_is_closed(loop_factory: LoopFactory) -> None:
    loop = loop_factory()
    transport, theirs = connected(loop)
    loop.close()
    transport.pause_reading()
    transport.write(b"hello")
    assert theirs.recv(9) == b"hello"
    for method in (transport.close, transport.abort):
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            method()
            # asyncio schedules nothing for one that it counts as closing already.
            if transport.is_closing():
                raise RuntimeError("Event loop is closed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del transport, method
        gc.collect()
    assert theirs.recv(9) == b""
    theirs.close()


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_pipe_is_closed_after_its_loop(loop_factory: LoopFactory, kind: str) -> None:
    loop = loop_factory()
    read_end, write_end = os.pipe()
    ours, theirs = (read_end, write_end) if kind == "read" else (write_end, read_end)
    making: Any = loop.connect_read_pipe if kind == "read" else loop.connect_write_pipe
    transport, _ = loop.run_until_complete(making(asyncio.Protocol, open(ours, "rb" if kind == "read" else "wb", 0)))
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        transport.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del transport
        gc.collect()
    os.close(theirs)


def test_descriptors_are_freed_with_their_transports(loop_factory: LoopFactory) -> None:
    loop = loop_factory()
    made = [connected(loop) for _ in range(20)]
    loop.close()
    before = len(os.listdir("/proc/self/fd"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peers = []
        for transport, theirs in made:
            peers.append(theirs)
            with pytest.raises(RuntimeError):
                transport.close()
        del made, transport
        gc.collect()
    assert before - len(os.listdir("/proc/self/fd")) == 20
    for theirs in peers:
        theirs.close()


def test_a_destructor_finds_a_closed_loop(loop_factory: LoopFactory) -> None:
    raised: list[str] = []
    loop = loop_factory()

    class Late:
        def __del__(self) -> None:
            try:
                loop.call_soon(print)
            except RuntimeError as error:
                raised.append(str(error))

    loop.call_soon(print, Late())
    loop.close()
    assert raised == ["Event loop is closed"]


@pytest.mark.oneloop_only("raises the same on asyncio, where the transport is left half closed by its own check")
def test_debug_mode_refuses_closes_from_other_threads(loop: asyncio.AbstractEventLoop) -> None:
    loop.set_debug(True)
    transport, theirs = connected(loop)
    raised: list[BaseException] = []

    def close() -> None:
        try:
            transport.abort()
        except RuntimeError as error:
            raised.append(error)

    async def main() -> None:
        thread = threading.Thread(target=close)
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.001)

    loop.run_until_complete(main())
    assert "Non-thread-safe operation" in str(raised[0])
    loop.set_debug(False)
    theirs.close()
    loop.run_until_complete(asyncio.sleep(0.01))
    transport.abort()
    loop.run_until_complete(asyncio.sleep(0))


@pytest.mark.oneloop_only("hands the context to oneloop's own hook, as Python 3.15 does for every transport")
def test_writes_are_gathered_in_a_given_context(loop: Any) -> None:
    class Twice(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.write(b"one")
            self.transport.write(b"two")

    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    protocol = Twice()

    async def main() -> bytes:
        waiter = loop.create_future()
        loop._make_socket_transport(ours, protocol, waiter, context=contextvars.copy_context())
        await waiter
        theirs.send(b"x")
        await protocol.wait_received(1)
        received = theirs.recv(100)
        protocol.transport.abort()
        await protocol.wait_lost()
        return received

    assert loop.run_until_complete(main()) == b"onetwo"
    theirs.close()


def test_a_destructor_at_exit_is_quiet(loop_name: str) -> None:
    """What it asks of a transport is refused; nothing panics, and nothing is printed."""
    text = """
    import builtins
    loop = new_loop()

    async def main():
        ours, theirs = socket.socketpair()
        return (await loop.create_connection(asyncio.Protocol, sock=ours))[0], theirs

    transport, peer = loop.run_until_complete(main())
    transport.pause_reading()
    loop.close()

    class Late:
        def __init__(self, transport):
            self.transport = transport
            self.me = self
            # The module's names and the built-in ones are gone by then.
            self.say, self.errors = os.write, (BaseException, repr)

        def __del__(self):
            error, describe = self.errors
            try:
                self.transport.resume_reading()
            except error as exc:
                self.say(1, describe(exc).encode())
            else:
                self.say(1, b"nothing")

    builtins.late = Late(transport)
    del transport
    """
    done = programs.run(loop_name, text)
    assert done.stdout == "RuntimeError('Event loop is closed')"
    assert done.stderr == ""
    assert done.returncode == 0
