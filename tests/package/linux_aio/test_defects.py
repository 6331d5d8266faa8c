"""What linux_aio 0.4.1 does wrong, put right."""

from __future__ import annotations

import errno
import gc
import select
import signal
import socket
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from oneloop.compat.linux_aio import (
    IOCBCMD,
    AIOEvent,
    IOCBFlag,
    IOCBRWFlag,
    PollBlock,
    ReadBlock,
    ReadVBlock,
    WriteBlock,
)
from tests.package.linux_aio.conftest import Open, done


def test_a_zero_timeout_does_not_block(opened: Open, sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    with opened(1) as context:
        context.submit(PollBlock(ours, select.EPOLLIN))
        assert context.get_events(1, 1, 0) == ()
        assert context.get_events(1, 1, timeout_ns=0) == ()
        began = time.monotonic()
        assert context.get_events(1, 1, 20_000_000) == ()
        assert time.monotonic() - began >= 0.02
        theirs.send(b"x")
        assert len(context.get_events(1, 1)) == 1


def test_changed_event_masks_count(opened: Open, sockets: tuple[socket.socket, socket.socket]) -> None:
    with opened(2) as context:
        block = PollBlock(sockets[0], select.EPOLLIN)
        block.event_masks |= select.EPOLLOUT
        assert block.event_masks == select.EPOLLIN | select.EPOLLOUT
        assert done(context, block).response == select.EPOLLOUT


@pytest.mark.parametrize("buffer", [b"immutable", memoryview(b"immutable")])
def test_reads_do_not_accept_what_is_immutable(path: Path, buffer: Any) -> None:
    with path.open() as file:
        with pytest.raises(TypeError, match="writable"):
            ReadBlock(file, buffer)
        with pytest.raises(TypeError, match="writable"):
            ReadVBlock(file, [bytearray(1), buffer])
        block = ReadBlock(file, bytearray(1))
        with pytest.raises(TypeError, match="writable"):
            block.buffer = buffer


def test_a_converted_write_does_not_read_into_what_is_immutable(opened: Open, path: Path) -> None:
    with opened(1) as context, path.open("r+b") as file:
        read = WriteBlock(file, b"immutable").change_cmd(IOCBCMD.PREAD)
        with pytest.raises(TypeError, match="writable"):
            context.submit(read)


def test_the_context_keeps_its_blocks(opened: Open, sockets: tuple[socket.socket, socket.socket]) -> None:
    class Mine(PollBlock):
        """Can be referred to weakly."""

    with opened(64) as context:
        gone = []
        for _ in range(64):
            block = Mine(sockets[0], select.EPOLLIN)
            gone.append(weakref.ref(block))
            context.submit(block)
        del block
        gc.collect()
        assert all(reference() is not None for reference in gone)
        sockets[1].send(b"x")
        events = context.get_events(64, 64)
        assert {event.aio_block for event in events} == {reference() for reference in gone}
        del events
        gc.collect()
        assert all(reference() is None for reference in gone)


def test_cancelling_in_progress_does_not_raise(opened: Open, sockets: tuple[socket.socket, socket.socket]) -> None:
    with opened(2) as context:
        block = PollBlock(sockets[0], select.EPOLLIN)
        with pytest.raises(OSError, match="Invalid argument"):
            context.cancel(block)
        context.submit(block)
        asked = context.cancel(block)
        assert isinstance(asked, AIOEvent)
        assert (asked.aio_block, asked.response) == (block, -errno.EINPROGRESS)
        (event,) = context.get_events(1, 1)
        assert (event.aio_block, event.response) == (block, -errno.ECANCELED)


def test_zero_is_compared_by_value(opened: Open, path: Path) -> None:
    """Zeros that are not the interpreter's own: a flag, a subclass of int."""

    class Number(int):
        pass

    with opened(1) as context, path.open() as file:
        block = ReadBlock(file, bytearray(8), Number(0), None, IOCBRWFlag(0), Number(0), Number(0), Number(0))
        assert block.flag == IOCBFlag(0)
        assert block.res_fd is None
        assert done(context, block).response == 8


def test_a_block_in_flight_may_be_submitted_again(opened: Open, sockets: tuple[socket.socket, socket.socket]) -> None:
    with opened(4) as context:
        block = PollBlock(sockets[0], select.EPOLLIN)
        assert context.submit(block, block) == 2
        context.cancel(block)
        assert [event.aio_block for event in context.get_events(2, 2)] == [block, block]


def test_ctrl_c_while_waiting(opened: Open, sockets: tuple[socket.socket, socket.socket]) -> None:
    with opened(1) as context:
        block = PollBlock(sockets[0], select.EPOLLIN)
        context.submit(block)
        main = threading.main_thread().ident
        assert main is not None
        timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            context.get_events(1, 1)
        timer.join()
        sockets[1].send(b"x")
        assert context.get_events(1, 1)[0].aio_block is block
