"""Writes of destructors and signal handlers, which run when no callback does: the loop does not sleep over them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import settle
from tests.peers import KINDS, Peer, connect
from tests.transport.conftest import ALL, write_all


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Parting:
    """Writes when it is destroyed."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.cycle: Any = None

    def __del__(self) -> None:
        write_all(self.transport)


@contextlib.contextmanager
def stopped_when_readable(loop: asyncio.AbstractEventLoop, peer: Peer) -> Iterator[list[bytes]]:
    """A thread that takes what comes and stops the loop then: it has nothing else to wake it for an hour."""
    seen: list[bytes] = []

    def watch() -> None:
        seen.append(peer.take(len(ALL)))
        loop.call_soon_threadsafe(loop.stop)

    timer = loop.call_later(3600, print)
    thread = threading.Thread(target=watch)
    thread.start()
    yield seen
    thread.join()
    timer.cancel()


def close_after(loop: asyncio.AbstractEventLoop, transport: Any, peer: Peer) -> None:
    transport.close()
    loop.run_until_complete(settle())
    peer.close()


@pytest.mark.parametrize("scheduled", ["call_soon", "call_later", "task"])
def test_a_destructor_that_writes(loop: asyncio.AbstractEventLoop, kind: str, scheduled: str) -> None:
    """It runs when the loop gives up a handle or a task: after the callback, before the loop sleeps."""
    transport, _, peer = loop.run_until_complete(connect(kind))

    async def hold(_: object) -> None:
        await asyncio.sleep(0)

    if scheduled == "call_soon":
        loop.call_soon(lambda _: None, Parting(transport))
    elif scheduled == "call_later":
        loop.call_later(0.001, lambda _: None, Parting(transport))
    else:
        loop.create_task(hold(Parting(transport)))
    with stopped_when_readable(loop, peer) as seen:
        loop.run_forever()
    assert seen == [ALL]
    close_after(loop, transport, peer)


def test_a_destructor_of_a_cycle_that_writes(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    transport, _, peer = loop.run_until_complete(connect(kind))
    parting = Parting(transport)
    parting.cycle = parting
    del parting
    loop.call_soon(gc.collect)
    with stopped_when_readable(loop, peer) as seen:
        loop.run_forever()
    assert seen == [ALL]
    close_after(loop, transport, peer)


@pytest.fixture
def usr1() -> Iterator[int]:
    before = signal.getsignal(signal.SIGUSR1)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("registered", ["signal.signal", "add_signal_handler"])
def test_a_signal_handler_that_writes_while_the_loop_sleeps(
    loop: asyncio.AbstractEventLoop, kind: str, usr1: int, registered: str
) -> None:
    transport, _, peer = loop.run_until_complete(connect(kind))
    if registered == "signal.signal":
        signal.signal(usr1, lambda *_: write_all(transport))
    else:
        loop.add_signal_handler(usr1, write_all, transport)
    # A thread that is started by the last callback before the loop sleeps; whenever it comes, the handler must write.
    sender = threading.Thread(target=os.kill, args=(os.getpid(), usr1))
    loop.call_later(0.001, sender.start)
    with stopped_when_readable(loop, peer) as seen:
        loop.run_forever()
    sender.join()
    assert seen == [ALL]
    loop.remove_signal_handler(usr1)
    close_after(loop, transport, peer)


def test_a_signal_handler_that_writes_within_a_callback(loop: asyncio.AbstractEventLoop, kind: str, usr1: int) -> None:
    transport, _, peer = loop.run_until_complete(connect(kind))
    signal.signal(usr1, lambda *_: transport.write(b"signal"))
    seen: list[bytes] = []

    def act() -> None:
        signal.raise_signal(usr1)
        seen.append(peer.take(6))

    loop.call_soon(act)
    loop.run_until_complete(settle())
    assert seen == [b"signal"]
    close_after(loop, transport, peer)
