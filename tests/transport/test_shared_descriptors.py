"""Two parties on one descriptor, and descriptors whose number changes hands: each hears of its own (S4)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import socket
import sys
import tty
from typing import Any

import pytest

from tests import programs
from tests.protocols import Recorder

LARGE = 1_000_000


def pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


async def drain(sock: socket.socket, length: int) -> int:
    """Receive so many bytes, or what comes until nothing does any more."""
    received = 0
    for _ in range(2000):
        try:
            data = sock.recv(1 << 20)
        except BlockingIOError:
            await asyncio.sleep(0.001)
            continue
        received += len(data)
        if not data or received >= length:
            break
    return received


async def test_a_terminal_is_read_and_written(loop: asyncio.AbstractEventLoop) -> None:
    """One file object, a reading and a writing transport."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    file = os.fdopen(master, "r+b", 0)
    reading, protocol = await loop.connect_read_pipe(Recorder, file)
    writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, file)
    writing.write(b"hello")
    assert os.read(slave, 10) == b"hello"
    os.write(slave, b"back")
    assert await protocol.wait_received(4) == b"back"
    writing.abort()
    reading.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    os.close(slave)


@pytest.mark.parametrize("blocked", range(3))
@pytest.mark.parametrize("ending", [None, 0, 1, 2])
async def test_three_transports_of_one_pipe(loop: asyncio.AbstractEventLoop, blocked: int, ending: int | None) -> None:
    """A program's logs, its progress and its results, all to standard output."""
    if blocked == ending:
        return
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    transports = []
    for number in range(3):
        file = open(write_end, "wb", 0, closefd=False)
        transport, _ = await loop.connect_write_pipe(Recorder, file)
        if number == blocked:
            transport.set_write_buffer_limits(1 << 30)
            transport.write(bytes(LARGE))
        transports.append(transport)
    if ending is not None:
        transports[ending].abort()
        await asyncio.sleep(0)
    received = 0
    for _ in range(2000):
        try:
            received += len(os.read(read_end, 1 << 16))
        except BlockingIOError:
            await asyncio.sleep(0.001)
        if received == LARGE:
            break
    assert received == LARGE
    for number, transport in enumerate(transports):
        # Stock asyncio cannot abort what has ended.
        if number != ending:
            transport.abort()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    os.close(read_end)
    os.close(write_end)


async def test_a_new_transport_beside_one_that_is_closing(loop: asyncio.AbstractEventLoop) -> None:
    ours, theirs = pair()
    first, protocol = await loop.create_connection(Recorder, sock=ours)
    first.write(b"x" * LARGE)
    first.close()
    second, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    assert await drain(theirs, LARGE) == LARGE
    await protocol.wait_lost()
    second.abort()
    theirs.close()
    await asyncio.sleep(0)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="__buffer__ of Python classes came with 3.12 (PEP 688)")
@pytest.mark.parametrize("is_datagram", [False, True], ids=["stream", "datagram"])
async def test_a_buffer_that_closes_the_socket(
    loop: asyncio.AbstractEventLoop, is_datagram: bool, reported: Any
) -> None:
    """What it gives must not go to whoever gets the number."""
    kind = socket.SOCK_DGRAM if is_datagram else socket.SOCK_STREAM
    ours, theirs = socket.socketpair(type=kind)
    ours.setblocking(False)
    others: list[socket.socket] = []

    class Evil(bytearray):
        def __buffer__(self, flags: int) -> memoryview:
            if not others:
                number = ours.fileno()
                ours.close()
                while not any(sock.fileno() == number for sock in others):
                    others.extend(socket.socketpair(type=kind))
            return memoryview(b"SECRET")

    if is_datagram:
        datagrams, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, sock=ours)
        datagrams.sendto(Evil(b"123456"))
        datagrams.abort()
    else:
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
        transport.write(Evil(b"123456"))
        transport.abort()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for sock in (*others, theirs):
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            assert sock.recv(100) == b""
        sock.close()
    reported.take()


async def test_waiting_for_a_lost_transport(loop: asyncio.AbstractEventLoop, loop_name: str) -> None:
    """sendfile() asks after the abort: nothing is registered any more."""
    if loop_name == "asyncio":
        pytest.skip("asks oneloop's own transport")
    ours, theirs = pair()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    transport.abort()
    with pytest.raises(ConnectionError):
        transport._wait_writable()  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    theirs.close()


@pytest.mark.oneloop_only("stock asyncio keeps the readers that were left behind, with their files")
async def test_a_number_that_became_a_regular_files(loop: asyncio.AbstractEventLoop) -> None:
    """A reader left behind on a number that is a regular file's by now, and one whose file lives on elsewhere."""
    heard: list[Any] = []
    kept: list[Any] = []
    ours, theirs = pair()
    number = ours.fileno()
    loop.add_reader(number, heard.append, "left behind")
    ours.close()
    file = open(__file__)
    assert file.fileno() == number
    ghost, peer = pair()
    ghost_number = ghost.fileno()
    loop.add_reader(ghost_number, heard.append, "ghost")
    kept.append(ghost.dup())
    ghost.close()
    honest, other = pair()
    loop.add_reader(honest, lambda: heard.append(honest.recv(10)))
    peer.send(b"x")
    for _ in range(50):
        await asyncio.sleep(0.001)
    other.send(b"again")
    for _ in range(100):
        if b"again" in heard:
            break
        await asyncio.sleep(0.001)
    assert b"again" in heard
    loop.remove_reader(honest)
    for one in (theirs, file, peer, honest, other, *kept):
        one.close()


def test_a_large_number_is_refused(loop_name: str) -> None:
    """As by asyncio, and without memory for all the numbers below."""
    text = """
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    loop = new_loop()
    try:
        loop.add_reader(2**31 - 1, print)
    except OSError as error:
        print(error.errno)
    loop.close()
    """
    done = programs.run(loop_name, text)
    assert done.stdout.strip() == "9", done.stderr
