"""`oneloop.compat.linux_aio`: linux_aio's names on oneloop, and each of its defects put right.

The kinds of case are those of its own tests: limits of contexts, conversions of blocks, reading, writing,
vectors, syncing, polling; its poll of a public website is one of a loopback socket.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

import pytest

from oneloop.compat import linux_aio, linux_aio_bind
from oneloop.compat.linux_aio import (
    IOCBCMD,
    AIOBlock,
    AIOContext,
    AIOEvent,
    FDsyncBlock,
    FsyncBlock,
    IOCBFlag,
    IOCBPriorityClass,
    IOCBRWFlag,
    PollBlock,
    ReadBlock,
    ReadVBlock,
    WriteBlock,
    WriteVBlock,
)

Open = Callable[[int], AIOContext]

CONTENT = "content\n"

# The public names of linux_aio 0.4.1 and, of linux_aio_bind 1.0, the enumerations.
NAMES = [
    "AIOContext",
    "FDsyncBlock",
    "FsyncBlock",
    "PollBlock",
    "ReadBlock",
    "ReadVBlock",
    "WriteBlock",
    "WriteVBlock",
]
BLOCK_NAMES = [*NAMES[1:], "AIOBlock", "NonRWBlock", "NonVectorBlock", "RWBlock", "VectorBlock"]
BIND_NAMES = ["IOCBCMD", "IOCBFlag", "IOCBPriorityClass", "IOCBRWFlag", "IOPRIO_CLASS_SHIFT", "gen_io_priority"]


@pytest.fixture(params=["ring", "aio"])
def engine(request: pytest.FixtureRequest) -> Literal["ring", "aio"]:
    name: Literal["ring", "aio"] = request.param
    return name


@pytest.fixture
def opened(engine: Literal["ring", "aio"]) -> Open:
    return lambda max_jobs: AIOContext(max_jobs, engine=engine)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_text(CONTENT)
    return made


@pytest.fixture
def sockets(audit: None) -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        served, _ = server.accept()
    with client, served:
        yield client, served


def done(context: AIOContext, block: AIOBlock) -> AIOEvent:
    """Submit one block and return its event."""
    assert context.submit(block) == 1
    (event,) = context.get_events(1, 1)
    assert event.aio_block is block
    assert event.response2 == 0
    return event


def test_the_facade_has_the_names() -> None:
    for module, names in [(linux_aio, NAMES), (linux_aio.block, BLOCK_NAMES), (linux_aio_bind, BIND_NAMES)]:
        for name in names:
            assert hasattr(module, name), name


# Contexts.


def test_with_closes(opened: Open) -> None:
    with opened(2) as context:
        assert not context.closed
    assert context.closed


def test_closing_twice(opened: Open) -> None:
    with opened(2) as context:
        context.close()
    context.close()
    assert context.closed


def test_a_context_that_is_forgotten_closes_itself(opened: Open, path: Path) -> None:
    with path.open("r+b") as file:
        context = opened(2)
        context.submit(FsyncBlock(file))
        del context
        gc.collect()


def test_the_machines_limit() -> None:
    limit = int(Path("/proc/sys/fs/aio-max-nr").read_text())
    with pytest.raises(BlockingIOError) as caught:
        AIOContext(limit + 1, engine="aio")
    assert caught.value.errno == errno.EAGAIN


@pytest.mark.parametrize("max_jobs", [0, -1])
def test_a_context_for_nothing(opened: Open, max_jobs: int) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        opened(max_jobs)


def test_submitting_nothing(opened: Open) -> None:
    with opened(2) as context:
        assert context.submit() == 0
        assert context.get_events(0, 100) == ()


def test_more_than_there_is_room_for(opened: Open, sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    with opened(2) as context:
        blocks = [PollBlock(ours, select.EPOLLIN) for _ in range(3)]
        assert context.submit(*blocks) == 2
        with pytest.raises(BlockingIOError):
            context.submit(blocks[2])
        theirs.send(b"x")
        assert {event.aio_block for event in context.get_events(2, 2)} == set(blocks[:2])
        assert context.submit(blocks[2]) == 1
        context.get_events(1, 1)


def test_use_after_close(opened: Open, path: Path) -> None:
    with path.open() as file:
        context = opened(2)
        block = FsyncBlock(file)
        context.close()
        uses: list[Callable[[], object]] = [
            lambda: context.submit(block),
            lambda: context.get_events(0, 1),
            lambda: context.cancel(block),
        ]
        for use in uses:
            with pytest.raises(OSError, match="Invalid argument"):
                use()


def test_numbers_that_do_not_fit(opened: Open) -> None:
    with opened(2) as context:
        for numbers in [(2, 1), (-1, 1)]:
            with pytest.raises(OSError, match="Invalid argument"):
                context.get_events(*numbers)


# Blocks.


def test_a_file_needs_a_number() -> None:
    with pytest.raises(AttributeError, match=r"fileno\(\)"):
        PollBlock(object())  # type: ignore[arg-type]


def test_properties(path: Path) -> None:
    with path.open("r+b") as file, path.open("rb") as other:
        block = ReadBlock(file, bytearray(64), 1, 10, IOCBRWFlag.DSYNC, IOCBPriorityClass.BE, 3, 5)
        assert (block.file, block.fileno, block.cmd) == (file, file.fileno(), IOCBCMD.PREAD)
        assert (block.offset, block.length, block.rw_flag) == (1, 10, IOCBRWFlag.DSYNC)
        assert (block.priority_class, block.priority_value, block.res_fd) == (IOCBPriorityClass.BE, 3, 5)
        assert block.flag == IOCBFlag.IOPRIO | IOCBFlag.RESFD
        block.file = other
        assert (block.file, block.fileno) == (other, other.fileno())
        block.file = 1
        assert block.fileno == 1
        plain = WriteBlock(file, b"x")
        assert (plain.res_fd, plain.flag) == (None, IOCBFlag(0))
        plain.res_fd = 7
        plain.priority_value = 1
        assert (plain.res_fd, plain.flag) == (7, IOCBFlag.IOPRIO | IOCBFlag.RESFD)
        block.buffer = bytearray(3)
        assert block.length == 3


def test_priorities(opened: Open, path: Path) -> None:
    with opened(1) as context, path.open() as file:
        block = ReadBlock(file, bytearray(64), priority_class=IOCBPriorityClass.RT, priority_value=1)
        assert (block.priority_class, block.priority_value) == (IOCBPriorityClass.RT, 1)
        block.set_priority(IOCBPriorityClass.IDLE, 2)
        assert (block.priority_class, block.priority_value) == (IOCBPriorityClass.IDLE, 2)
        block.priority_value = 3
        block.priority_class = IOCBPriorityClass.BE
        assert (block.priority_class, block.priority_value) == (IOCBPriorityClass.BE, 3)
        event = done(context, block)
        assert event.stripped_buffer() == CONTENT.encode()
        assert linux_aio.gen_io_priority(IOCBPriorityClass.BE, 3) == 2 << linux_aio_bind.IOPRIO_CLASS_SHIFT | 3


def test_priorities_that_there_are_not(path: Path) -> None:
    with path.open() as file:
        for wrong in [(4, 0), (IOCBPriorityClass.BE, 1 << 13), (IOCBPriorityClass.BE, -1)]:
            with pytest.raises(ValueError, match=r"priority|IOCBPriorityClass"):
                FsyncBlock(file, *wrong)


def test_an_eventfd_hears_of_the_completion(opened: Open, path: Path) -> None:
    eventfd = os.eventfd(0, os.EFD_NONBLOCK)
    with opened(1) as context, path.open() as file:
        done(context, ReadBlock(file, bytearray(4), res_fd=eventfd))
        done(context, PollBlock(eventfd, select.EPOLLIN))
        assert os.eventfd_read(eventfd) == 1
        block = ReadBlock(file, bytearray(4), res_fd=eventfd)
        block.flag &= ~IOCBFlag.RESFD
        done(context, block)
        with pytest.raises(BlockingIOError):
            os.eventfd_read(eventfd)
    os.close(eventfd)


# Conversions.

KINDS: dict[IOCBCMD, type[AIOBlock]] = {
    IOCBCMD.PREAD: ReadBlock,
    IOCBCMD.PWRITE: WriteBlock,
    IOCBCMD.FSYNC: FsyncBlock,
    IOCBCMD.FDSYNC: FDsyncBlock,
    IOCBCMD.POLL: PollBlock,
    IOCBCMD.PREADV: ReadVBlock,
    IOCBCMD.PWRITEV: WriteVBlock,
}


def block_of(cmd: IOCBCMD, file: Any) -> AIOBlock:
    made: dict[IOCBCMD, Callable[[], AIOBlock]] = {
        IOCBCMD.PREAD: lambda: ReadBlock(file, b""),
        IOCBCMD.PWRITE: lambda: WriteBlock(file, b""),
        IOCBCMD.FSYNC: lambda: FsyncBlock(file),
        IOCBCMD.FDSYNC: lambda: FDsyncBlock(file),
        IOCBCMD.POLL: lambda: PollBlock(file),
        IOCBCMD.PREADV: lambda: ReadVBlock(file, [bytearray(0)]),
        IOCBCMD.PWRITEV: lambda: WriteVBlock(file, [b""]),
    }
    return made[cmd]()


@pytest.mark.parametrize("old", list(IOCBCMD), ids=lambda cmd: cmd.name.lower())
@pytest.mark.parametrize("new", list(IOCBCMD), ids=lambda cmd: cmd.name.lower())
def test_conversions(opened: Open, path: Path, old: IOCBCMD, new: IOCBCMD) -> None:
    with opened(1) as context, path.open("a+b", buffering=0) as file:
        block = block_of(old, file)
        # A regular file cannot be polled by kernel AIO.
        if old is not IOCBCMD.POLL:
            assert done(context, block).response == 0
        converted = block.change_cmd(new)
        assert (converted.file, converted.fileno, converted.cmd) == (file, file.fileno(), new)
        assert type(converted) is KINDS[new]
        if old is new:
            assert converted is block
        else:
            for refused in (context.submit, context.cancel):
                with pytest.raises(ValueError, match="change_cmd"):
                    refused(block)
        if new is not IOCBCMD.POLL:
            assert done(context, converted).response == 0


def test_a_converted_block_gets_its_buffer_later(opened: Open, path: Path) -> None:
    with opened(1) as context, path.open("a+b", buffering=0) as file:
        read = FDsyncBlock(file).change_cmd(IOCBCMD.PREAD)
        assert isinstance(read, ReadBlock)
        read.buffer = target = bytearray(64)
        assert done(context, read).stripped_buffer() == CONTENT.encode()
        assert target.rstrip(b"\0") == CONTENT.encode()
        write = read.change_cmd(IOCBCMD.PWRITE)
        assert isinstance(write, WriteBlock)
        assert write.buffer is target
        write.buffer = b"content2"
        assert done(context, write).response == 8
        assert path.read_bytes() == b"content\ncontent2"


def test_a_conversion_keeps_what_the_kinds_share(path: Path) -> None:
    with path.open() as file:
        block = ReadBlock(file, bytearray(8), 3, 2, IOCBRWFlag.SYNC, IOCBPriorityClass.BE, 4, 9)
        write = block.change_cmd(IOCBCMD.PWRITE)
        assert isinstance(write, WriteBlock)
        assert (write.offset, write.length, write.rw_flag) == (3, 2, IOCBRWFlag.SYNC)
        assert (write.priority_class, write.priority_value, write.res_fd) == (IOCBPriorityClass.BE, 4, 9)
        vectors = write.change_cmd(IOCBCMD.PWRITEV)
        assert isinstance(vectors, WriteVBlock)
        assert (vectors.buffer, vectors.offset) == ((), 0)
        poll = vectors.change_cmd(IOCBCMD.POLL)
        assert isinstance(poll, PollBlock)
        assert poll.event_masks == select.EPOLLIN | select.EPOLLOUT | select.EPOLLPRI
        assert (poll.priority_value, poll.res_fd, poll.flag) == (0, None, IOCBFlag(0))
        with pytest.raises(ValueError, match="6"):
            poll.change_cmd(6)


# Reading and writing.


def test_writing_bytes(opened: Open, path: Path) -> None:
    with opened(1) as context, path.open("wb") as file:
        event = done(context, WriteBlock(file, CONTENT.encode()))
        assert event.buffer == CONTENT.encode()
        assert event.response == len(CONTENT)
    assert path.read_text() == CONTENT


def test_writing_a_str(opened: Open, path: Path) -> None:
    with opened(1) as context, path.open("w") as file:
        event = done(context, WriteBlock(file, "schön"))
        assert event.buffer == "schön".encode()
        assert event.response == 6
    assert path.read_bytes() == "schön".encode()


@pytest.mark.parametrize("buffer", [bytearray(64), "\0" * 64], ids=["bytearray", "str"])
def test_reading(opened: Open, path: Path, buffer: Any) -> None:
    with opened(1) as context, path.open() as file:
        block = ReadBlock(file, buffer)
        assert block.length == 64
        event = done(context, block)
        assert isinstance(event.buffer, bytearray)
        assert event.buffer == CONTENT.encode().ljust(64, b"\0")
        assert event.stripped_buffer() == CONTENT.encode()
        assert event.response == len(CONTENT)


def test_reading_from_an_offset(opened: Open, path: Path) -> None:
    with opened(1) as context, path.open() as file:
        block = ReadBlock(file, bytearray(64))
        block.offset += 1
        event = done(context, block)
        assert event.stripped_buffer() == CONTENT[1:].encode()
        assert event.response == len(CONTENT) - 1
        block.length = 3
        assert done(context, block).response == 3


def test_reading_another_file(opened: Open, path: Path, tmp_path: Path) -> None:
    with opened(1) as context, (tmp_path / "other").open("w+b") as other, path.open() as file:
        block = ReadBlock(other, bytearray(64))
        assert done(context, block).response == 0
        block.file = file
        assert done(context, block).stripped_buffer() == CONTENT.encode()


def test_reading_with_flags(opened: Open, path: Path) -> None:
    with opened(1) as context, path.open() as file:
        block = ReadBlock(file, bytearray(64))
        block.rw_flag |= IOCBRWFlag.HIPRI
        assert done(context, block).stripped_buffer() == CONTENT.encode()


def test_writing_then_reading(opened: Open, path: Path) -> None:
    with opened(1) as context, path.open("w+b") as file:
        done(context, WriteBlock(file, CONTENT))
        assert done(context, ReadBlock(file, bytearray(64))).stripped_buffer() == CONTENT.encode()


def test_two_writes_at_once(opened: Open, path: Path) -> None:
    with opened(2) as context, path.open("w+b") as file:
        blocks = [WriteBlock(file, "first"), WriteBlock(file, "other", offset=5)]
        assert context.submit(*blocks) == 2
        events = context.get_events(2, 2)
        assert {event.aio_block for event in events} == set(blocks)
        assert [event.response for event in events] == [5, 5]
    assert path.read_text() == "firstother"


def test_reading_vectors(opened: Open, path: Path) -> None:
    with opened(1) as context, path.open() as file:
        block = ReadVBlock(file, [bytearray(1)])
        block.buffer = (bytearray(n) for n in (2, 3, 64))  # type: ignore[assignment]
        assert [len(memoryview(buffer)) for buffer in block.buffer] == [2, 3, 64]
        event = done(context, block)
        assert event.response == len(CONTENT)
        assert isinstance(event.buffer, tuple)
        joined = b"".join(bytes(buffer) for buffer in event.buffer)
        assert joined.rstrip(b"\0") == CONTENT.encode()
        assert event.stripped_buffer() == (b"co", b"nte", b"nt\n")


def test_writing_vectors(opened: Open, path: Path) -> None:
    with opened(1) as context, path.open("wb") as file:
        buffers: tuple[bytes | bytearray, ...] = (b"first ", bytearray(b"second "), b"third")
        event = done(context, WriteVBlock(file, list(buffers)))
        assert event.buffer == buffers
        assert event.response == sum(map(len, buffers))
    assert path.read_text() == "first second third"


@pytest.mark.parametrize("kind", [FsyncBlock, FDsyncBlock])
def test_syncing(opened: Open, path: Path, kind: type[FsyncBlock]) -> None:
    with opened(2) as context, path.open("w") as file:
        event = done(context, kind(file))
        assert (event.response, event.buffer, event.stripped_buffer()) == (0, None, None)


def test_errors(opened: Open, path: Path) -> None:
    with opened(1) as context, path.open("rb") as file:
        with pytest.raises(OSError, match="Bad file descriptor") as caught:
            context.submit(FsyncBlock(9999))
        assert caught.value.errno == errno.EBADF
        with pytest.raises(OSError, match="Bad file descriptor"):
            context.submit(WriteBlock(file, b"x"))


# Polling.


def test_polling(opened: Open, sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    with opened(2) as context:
        block = PollBlock(ours, select.EPOLLIN)
        context.submit(block)
        theirs.sendall(b"answer")
        (event,) = context.get_events(1, 1)
        assert event.aio_block is block
        assert event.response == select.EPOLLIN
        assert event.buffer is None
        assert event.stripped_buffer() is None


def test_polling_for_anything(opened: Open, sockets: tuple[socket.socket, socket.socket]) -> None:
    with opened(2) as context:
        assert done(context, PollBlock(sockets[0])).response == select.EPOLLOUT


# What linux_aio 0.4.1 does wrong.


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


# How a program gets it.

PROGRAM = """
import sys
import linux_aio
from linux_aio import AIOContext, ReadBlock
from linux_aio.block import AIOBlock
from linux_aio.block.non_vector import NonVectorBlock
from linux_aio_bind import IOCBCMD, IOCBPriorityClass
print(linux_aio.__name__)
with open(sys.argv[1]) as file, AIOContext(1) as context:
    block = ReadBlock(file, bytearray(64), priority_class=IOCBPriorityClass.BE)
    print(isinstance(block, AIOBlock), isinstance(block, NonVectorBlock), block.cmd is IOCBCMD.PREAD)
    context.submit(block)
    print(context.get_events(1, 1)[0].stripped_buffer())
"""
SHOWN = "oneloop.compat.linux_aio\nTrue True True\nbytearray(b'content\\n')\n"


def run(*command: str) -> str:
    finished = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_installing_it(path: Path) -> None:
    install = "from oneloop import compat\ncompat.install('linux_aio')\n"
    assert run("-W", "error", "-c", install + PROGRAM, str(path)) == SHOWN


def test_running_a_program_with_it(path: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert run("-m", "oneloop", "run", "--replace", "linux_aio", str(program), str(path)) == SHOWN


def test_what_the_facade_has_not_says_so() -> None:
    with pytest.raises(AttributeError, match=r"not its ctypes calls; oneloop\.aio"):
        _ = linux_aio_bind.io_submit


def test_a_package_in_use_is_not_replaced() -> None:
    shown = run(
        "-c",
        dedent(
            """
            import sys, types
            sys.modules["linux_aio_bind"] = types.ModuleType("linux_aio_bind")
            from oneloop import compat
            try:
                compat.install("linux_aio")
            except RuntimeError as error:
                print(error)
            """
        ),
    )
    assert shown == "'linux_aio_bind' has been imported already: install the facade before it\n"
