"""add_reader and add_writer: what is watched, replaced, removed; descriptors that are closed or reused."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import socket
from typing import Any

import pytest

from tests.conftest import settle
from tests.descriptors import room_for
from tests.loop.conftest import Pair, run_ticks


@pytest.mark.parametrize("by_number", [False, True])
def test_a_reader_is_called_while_readable(loop: asyncio.AbstractEventLoop, pair: Pair, by_number: bool) -> None:
    ours, theirs = pair
    seen: list[bytes] = []

    def read(label: str) -> None:
        assert label == "label"
        seen.append(ours.recv(1))
        if len(seen) == 3:
            loop.stop()

    watched: Any = ours.fileno() if by_number else ours
    loop.add_reader(watched, read, "label")
    theirs.send(b"abc")
    loop.run_forever()
    assert seen == [b"a", b"b", b"c"]
    assert loop.remove_reader(watched) is True
    assert loop.remove_reader(watched) is False
    theirs.send(b"d")
    run_ticks(loop, 3)
    assert len(seen) == 3


def test_a_writer_is_called_while_writable(loop: asyncio.AbstractEventLoop, pair: Pair) -> None:
    calls: list[int] = []

    def write() -> None:
        calls.append(1)
        if len(calls) == 3:
            loop.stop()

    loop.add_writer(pair[0], write)
    loop.run_forever()
    assert len(calls) == 3
    assert loop.remove_writer(pair[0]) is True
    assert loop.remove_writer(pair[0]) is False
    run_ticks(loop, 3)
    assert len(calls) == 3


def test_reader_and_writer_of_one_descriptor(loop: asyncio.AbstractEventLoop, pair: Pair) -> None:
    seen: set[str] = set()

    def note(what: str) -> None:
        seen.add(what)
        if len(seen) == 2:
            loop.stop()

    loop.add_reader(pair[0], note, "read")
    loop.add_writer(pair[0], note, "write")
    pair[1].send(b"x")
    loop.run_forever()
    loop.remove_reader(pair[0])
    seen.clear()
    run_ticks(loop, 3)
    assert seen == {"write"}
    loop.remove_writer(pair[0])


def test_adding_again_replaces(loop: asyncio.AbstractEventLoop, pair: Pair) -> None:
    loop.add_reader(pair[0], pytest.fail, "replaced, but called")
    loop.add_reader(pair[0], loop.stop)
    pair[1].send(b"x")
    loop.run_forever()
    assert loop.remove_reader(pair[0])


def test_removing_in_the_same_tick(loop: asyncio.AbstractEventLoop) -> None:
    """Two readable descriptors, each reader removes the other: only one may be called."""
    pairs = [socket.socketpair(), socket.socketpair()]
    calls: list[int] = []

    def read(own: int) -> None:
        calls.append(own)
        loop.remove_reader(pairs[1 - own][0])

    for number, (ours, theirs) in enumerate(pairs):
        loop.add_reader(ours, read, number)
        theirs.send(b"x")
    run_ticks(loop, 1)
    assert len(calls) == 1
    for each in pairs:
        loop.remove_reader(each[0])
        for end in each:
            end.close()


def test_hang_up_makes_readable(loop: asyncio.AbstractEventLoop, pair: Pair) -> None:
    loop.add_reader(pair[0], loop.stop)
    pair[1].close()
    loop.run_forever()
    assert pair[0].recv(1) == b""
    loop.remove_reader(pair[0])


def test_a_reader_that_raises_is_reported_each_time(loop: asyncio.AbstractEventLoop, pair: Pair, reported: Any) -> None:
    def fail() -> None:
        pair[0].recv(1)
        raise LookupError("in a reader")

    loop.add_reader(pair[0], fail)
    pair[1].send(b"xy")
    run_ticks(loop, 4)
    assert len(reported.take()) == 2
    loop.remove_reader(pair[0])


def test_pipes_and_eventfds(loop: asyncio.AbstractEventLoop) -> None:
    read_end, write_end = os.pipe()
    event = os.eventfd(0)
    for fd, fire in ((read_end, lambda: os.write(write_end, b"x")), (event, lambda: os.eventfd_write(event, 1))):
        loop.add_reader(fd, loop.stop)
        fire()
        loop.run_forever()
        loop.remove_reader(fd)
    for fd in (read_end, write_end, event):
        os.close(fd)


def test_regular_files_cannot_be_watched(loop: asyncio.AbstractEventLoop, tmp_path: Any) -> None:
    with (tmp_path / "file").open("wb") as file, pytest.raises(PermissionError):
        loop.add_reader(file, print)


@pytest.mark.parametrize("fd", [-1, "text", 1.5, None, object()])
def test_what_is_not_a_descriptor(loop: asyncio.AbstractEventLoop, fd: Any) -> None:
    for operation in (loop.add_reader, loop.add_writer):
        with pytest.raises((ValueError, TypeError)):
            operation(fd, print)
    for remove in (loop.remove_reader, loop.remove_writer):
        with pytest.raises((ValueError, TypeError)):
            remove(fd)


def test_a_closed_descriptor(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    ours.close()
    theirs.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        loop.add_reader(number, print)
    with pytest.raises(ValueError, match="Invalid file"):
        loop.add_reader(ours, print)
    assert loop.remove_reader(number) is False


@pytest.mark.parametrize("kind", ["reader", "writer"])
def test_a_closed_socket_can_be_removed(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    """By the object that it was added with: anyio and others close first and remove then."""
    ours, theirs = socket.socketpair()
    getattr(loop, f"add_{kind}")(ours, pytest.fail, "called for a closed socket")
    ours.close()
    theirs.close()
    assert getattr(loop, f"remove_{kind}")(ours) is True
    run_ticks(loop, 3)


async def test_descriptors_of_transports_are_refused(loop: asyncio.AbstractEventLoop, pair: Pair) -> None:
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=pair[0])
    for operation in (loop.add_reader, loop.add_writer):
        with pytest.raises(RuntimeError, match="is used by transport"):
            operation(pair[0].fileno(), print)
    for remove in (loop.remove_reader, loop.remove_writer):
        with pytest.raises(RuntimeError, match="is used by transport"):
            remove(pair[0].fileno())
    transport.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@pytest.mark.oneloop_only("stock asyncio believes that the old registration stands and never watches the new one")
def test_a_number_that_is_reused_is_watched_anew(loop: asyncio.AbstractEventLoop) -> None:
    """Closed without remove_reader: the kernel forgets it; the same number can be watched again."""
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    loop.add_reader(number, pytest.fail, "the old owner was called")
    theirs.send(b"x")
    ours.close()
    theirs.close()
    new_ours, new_theirs = socket.socketpair()
    if new_ours.fileno() != number:
        os.dup2(new_ours.fileno(), number)
        watched = number
    else:
        watched = new_ours.fileno()
    run_ticks(loop, 3)
    loop.add_reader(watched, loop.stop)
    new_theirs.send(b"y")
    loop.run_forever()
    assert loop.remove_reader(watched)
    if watched != new_ours.fileno():
        os.close(watched)
    new_ours.close()
    new_theirs.close()


def test_urgent_load_of_many_descriptors(loop: asyncio.AbstractEventLoop) -> None:
    """More ready descriptors than one poll returns: each is served."""
    with room_for(3200):
        serve_pairs(loop, [socket.socketpair() for _ in range(1500)])


def serve_pairs(loop: asyncio.AbstractEventLoop, pairs: list[Pair]) -> None:
    served: set[int] = set()

    def read(number: int) -> None:
        pairs[number][0].recv(1)
        served.add(number)
        if len(served) == len(pairs):
            loop.stop()

    for number, (ours, theirs) in enumerate(pairs):
        loop.add_reader(ours, read, number)
        theirs.send(b"x")
    loop.run_forever()
    for ours, theirs in pairs:
        loop.remove_reader(ours)
        ours.close()
        theirs.close()


def polls(loop: Any) -> int:
    """So often ours has polled."""
    return int(loop.statistics().polls) if hasattr(loop, "statistics") else 0


@pytest.mark.parametrize("order", ["recv first", "writer first"])
def test_a_writer_and_sock_recv_on_one_socket(loop: asyncio.AbstractEventLoop, pair: Pair, order: str) -> None:
    """Once the writer is removed nothing is asked for: data that stays unread does not keep the loop awake."""
    ours, theirs = pair
    calls: list[int] = []

    def write() -> None:
        calls.append(1)
        if len(calls) == 3:
            loop.remove_writer(ours)

    if order == "writer first":
        loop.add_writer(ours, write)
    task = loop.create_task(loop.sock_recv(ours, 1))  # type: ignore[arg-type]
    run_ticks(loop, 3)
    if order == "recv first":
        loop.add_writer(ours, write)
    theirs.send(b"0123456789")
    assert loop.run_until_complete(task) == b"0"
    run_ticks(loop, 5)
    assert len(calls) == 3
    before = polls(loop)
    loop.call_later(0.05, loop.stop)
    loop.run_forever()
    assert polls(loop) - before < 10
    assert len(calls) == 3
    assert loop.run_until_complete(loop.sock_recv(ours, 100)) == b"123456789"


def test_a_writer_beside_unread_data_is_called_once_a_tick(loop: asyncio.AbstractEventLoop, pair: Pair) -> None:
    """A registration that sock_recv has left behind brings no further calls."""
    ours, theirs = pair
    task = loop.create_task(loop.sock_recv(ours, 1))  # type: ignore[arg-type]
    run_ticks(loop, 3)
    theirs.send(b"0123456789")
    assert loop.run_until_complete(task) == b"0"
    calls: list[int] = []
    loop.add_writer(ours, calls.append, 1)
    run_ticks(loop, 10)
    assert 9 <= len(calls) <= 10
    loop.remove_writer(ours)


async def test_a_reader_on_the_descriptor_of_a_transport_that_is_closing(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    """It is allowed by then, as on asyncio; all that is queued arrives, and the reader is called."""
    ours, theirs = pair
    number = ours.fileno()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    transport.write(bytes(1_000_000))
    transport.close()
    called = loop.create_future()

    def read() -> None:
        called.set_result(os.read(number, 100))
        loop.remove_reader(number)

    loop.add_reader(number, read)
    theirs.send(b"hello")
    assert await called == b"hello"
    total = 0
    with contextlib.suppress(ConnectionResetError):
        while data := await loop.sock_recv(theirs, 1 << 16):
            total += len(data)
    assert total == 1_000_000
    await settle(3)


@pytest.mark.parametrize("is_writer", [False, True])
def test_callbacks_run_in_the_context_in_which_they_were_added(
    loop: asyncio.AbstractEventLoop, pair: Pair, is_writer: bool
) -> None:
    """In a copy of it that lasts: what one call sets the next one sees, and nobody else."""
    ours, theirs = pair
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nothing")
    seen: list[str] = []

    def call() -> None:
        seen.append(variable.get())
        variable.set(variable.get() + "+")
        if len(seen) == 3:
            loop.stop()

    def add() -> None:
        variable.set("added")
        (loop.add_writer if is_writer else loop.add_reader)(ours, call)
        variable.set("later")

    theirs.send(b"x")
    contextvars.copy_context().run(add)
    variable.set("running")
    loop.run_forever()
    assert seen == ["added", "added+", "added++"]
    assert variable.get() == "running"
    assert (loop.remove_writer if is_writer else loop.remove_reader)(ours)


def test_what_an_earlier_owner_of_the_number_was_told_is_not_told_to_the_next(
    loop: asyncio.AbstractEventLoop, audit: None
) -> None:
    """Two descriptors are ready in one poll; who is called first gives the other's number to a new file (S4)."""
    pairs = [socket.socketpair() for _ in range(2)]
    fresh = socket.socketpair()
    called: list[str] = []
    wrong: list[str] = []

    def replace(mine: int, other: int) -> None:
        called.append(f"{mine} first")
        for watched, _ in pairs:
            loop.remove_reader(watched)
        number = pairs[other][0].fileno()
        pairs[other][0].close()
        os.dup2(fresh[0].fileno(), number)
        loop.add_reader(number, wrong.append, "a descriptor on which nothing has come")
        loop.call_soon(loop.call_soon, end, number)

    def end(number: int) -> None:
        assert loop.remove_reader(number)
        os.close(number)
        loop.stop()

    for index, (watched, peer) in enumerate(pairs):
        loop.add_reader(watched, replace, index, 1 - index)
        peer.send(b"x")
    loop.run_forever()
    assert len(called) == 1
    assert not wrong
    for each in (*fresh, *pairs[0], *pairs[1]):
        each.close()
