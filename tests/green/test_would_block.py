"""EAGAIN of calls that tell nobody when they would succeed, or that do not say which descriptor is not ready.

| call | what EAGAIN means | what is done | tried in |
|---|---|---|---|
| connect(2), Unix sockets | the backlog is full, nothing begun | try again | tests/transport/test_full_backlogs.py |
| connect(2), others | the kernel lacks ports or memory | raise | tests/transport/test_full_backlogs.py |
| sendto(2), sendmsg(2), Unix datagrams | the receiver's queue is full, and only its peers are told | try again | here |
| splice(2) | one of two descriptors is not ready | ask both | here |
| fork(2), clone(2) | too many processes | raise | here |
| io_uring_enter(2) | no memory, or completions have to be taken first | try again in the next tick | tests/faults |
| flock(2) | another process has the lock | JournalError | tests/check |
| inotify(7) | nothing is queued | wait | tests/file |
| tee(2) | the FIFO has a writer, and no data | that is the answer | tests/file |
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket as stock
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oneloop import green
from oneloop.green import os as green_os
from oneloop.green import socket
from tests.conftest import settle


class FullQueue:
    """A receiver of Unix datagrams whose queue others have filled."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.receiver = stock.socket(stock.AF_UNIX, stock.SOCK_DGRAM)
        self.receiver.bind(path)
        self.fillers: list[stock.socket] = []
        self.count = 0
        is_full = False
        while not is_full:
            # One sender alone may run out of its own memory before.
            filler = stock.socket(stock.AF_UNIX, stock.SOCK_DGRAM)
            filler.setblocking(False)
            self.fillers.append(filler)
            before = self.count
            with contextlib.suppress(BlockingIOError):
                while True:
                    filler.sendto(b"other", path)
                    self.count += 1
            is_full = self.count == before

    def take(self) -> None:
        """Make room: receive all that the others have sent."""
        self.receiver.setblocking(False)
        assert {self.receiver.recv(100) for _ in range(self.count)} == {b"other"}

    def close(self) -> None:
        for sock in (self.receiver, *self.fillers):
            sock.close()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[FullQueue]:
    made = FullQueue(str(tmp_path / "queue"))
    yield made
    made.close()


@pytest.mark.parametrize("blocks", [False, True])
def test_a_coroutine_sends_to_a_full_queue(loop: asyncio.AbstractEventLoop, full: FullQueue, blocks: bool) -> None:
    """Its own socket is writable all the time, so that nothing is reported to it."""

    async def main() -> None:
        with stock.socket(stock.AF_UNIX, stock.SOCK_DGRAM) as mine:
            mine.setblocking(blocks)
            sending = asyncio.ensure_future(loop.sock_sendto(mine, b"mine", full.path))
            await settle()
            assert not sending.done()
            full.take()
            assert await sending == 4
            assert full.receiver.recv(100) == b"mine"

    loop.run_until_complete(main())


SENDERS: dict[str, Callable[[Any, str], int]] = {
    "sendto": lambda sock, path: sock.sendto(b"mine", path),  # type: ignore[no-any-return]
    "sendmsg": lambda sock, path: sock.sendmsg([b"mi", b"ne"], [], 0, path),  # type: ignore[no-any-return]
    "sendmsg with a descriptor": lambda sock, path: sock.sendmsg(  # type: ignore[no-any-return]
        [b"mine"], [(stock.SOL_SOCKET, stock.SCM_RIGHTS, sock.fileno().to_bytes(4, "little"))], 0, path
    ),
    "connected": lambda sock, path: sock.connect(path) or sock.send(b"mine"),
}


@pytest.mark.parametrize("send", SENDERS.values(), ids=SENDERS)
def test_a_green_thread_sends_to_a_full_queue(full: FullQueue, send: Callable[[Any, str], int]) -> None:
    mine = socket.socket(stock.AF_UNIX, stock.SOCK_DGRAM)
    sending = green.spawn(send, mine, full.path)
    ticks = []
    for _ in range(5):
        green.sleep(0)
        ticks.append(sending.ready())
    assert not any(ticks)
    full.take()
    assert sending.get() == 4
    assert full.receiver.recv(100) == b"mine"
    mine.close()


def test_the_time_limit_of_a_full_queue(full: FullQueue) -> None:
    with socket.socket(stock.AF_UNIX, stock.SOCK_DGRAM) as mine:
        mine.settimeout(0.02)
        with pytest.raises(TimeoutError):
            mine.sendto(b"mine", full.path)
        mine.setblocking(False)
        with pytest.raises(BlockingIOError):
            mine.sendto(b"mine", full.path)


def test_the_queue_of_a_connected_socket(loop: asyncio.AbstractEventLoop, full: FullQueue) -> None:
    """A transport and `sock_sendall`: here the kernel reports room."""

    async def main() -> None:
        with stock.socket(stock.AF_UNIX, stock.SOCK_DGRAM) as mine:
            mine.setblocking(False)
            mine.connect(full.path)
            sending = asyncio.ensure_future(loop.sock_sendall(mine, b"mine"))
            await settle()
            assert not sending.done()
            full.take()
            await sending
            assert full.receiver.recv(100) == b"mine"

    loop.run_until_complete(main())


def test_splice_when_somebody_else_was_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has the socket too. EAGAIN is not for the program, for which the socket blocks."""
    one, other = stock.socketpair()
    mine = socket.socket(fileno=one.detach())
    reader, writer = os.pipe()
    splice = os.splice
    taken: list[bytes] = []

    def after_somebody_else(*args: Any) -> int:
        if not taken:
            taken.append(os.read(mine.fileno(), 100))
        return splice(*args)

    monkeypatch.setattr(green_os, "_splice", after_somebody_else)
    splicing = green.spawn(green_os.splice, mine.fileno(), writer, 100)
    green.sleep(0)
    other.sendall(b"first")
    while not taken:
        green.sleep(0)
    other.sendall(b"second")
    assert splicing.get() == 6
    assert (taken, os.read(reader, 100)) == ([b"first"], b"second")
    for fd in (reader, writer):
        os.close(fd)
    mine.close()
    other.close()


def test_splice_that_shall_not_wait_for_a_pipe() -> None:
    reader, writer = os.pipe()
    into, out = os.pipe()
    with pytest.raises(BlockingIOError):
        green_os.splice(reader, out, 10, flags=os.SPLICE_F_NONBLOCK)
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        green_os.splice(reader, out, 10)
    for fd in (reader, writer, into, out):
        os.close(fd)


def test_no_more_processes(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of fork(2) is the class that elsewhere means `try again later`."""

    def refuse(*_: Any) -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    if hasattr(subprocess, "_fork_exec"):
        monkeypatch.setattr(subprocess, "_fork_exec", refuse)
    else:
        monkeypatch.setattr(subprocess._posixsubprocess, "fork_exec", refuse)  # type: ignore[attr-defined]
    monkeypatch.setattr(subprocess, "_USE_POSIX_SPAWN", False)

    async def main() -> None:
        with pytest.raises(BlockingIOError):
            await asyncio.create_subprocess_exec("true", stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    loop.run_until_complete(main())
