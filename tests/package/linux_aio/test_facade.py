"""`oneloop.compat.linux_aio`: linux_aio's names on oneloop.

The kinds of case are those of its own tests: limits of contexts, reading, writing,
vectors, syncing, polling; its poll of a public website is one of a loopback socket.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from oneloop.compat import linux_aio, linux_aio_bind
from oneloop.compat.linux_aio import (
    IOCBCMD,
    AIOContext,
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
from oneloop.compat.linux_aio.room import room_for
from tests.package.linux_aio.conftest import CONTENT, Open, done

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


def test_the_machines_limit(opened: Open) -> None:
    limit = int(Path("/proc/sys/fs/aio-max-nr").read_text())
    for open_one in (opened, AIOContext):
        with pytest.raises(BlockingIOError) as caught:
            open_one(limit + 1)
        assert caught.value.errno == errno.EAGAIN


def test_more_than_any_context_takes(opened: Open) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        opened((1 << 22) + 1)


@pytest.mark.parametrize("max_jobs", [0, -1])
def test_a_context_for_nothing(opened: Open, max_jobs: int) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        opened(max_jobs)


def test_submitting_nothing(opened: Open) -> None:
    with opened(2) as context:
        assert context.submit() == 0
        assert context.get_events(0, 100) == ()


def test_more_than_there_is_room_for(opened: Open, sockets: tuple[socket.socket, socket.socket]) -> None:
    """There is more than was asked for, as much as io_setup(2) makes: see `test_the_kernels_room`."""
    ours, theirs = sockets
    with opened(2) as context:
        blocks = [PollBlock(ours, select.EPOLLIN) for _ in range(room_for(2) + 1)]
        taken = context.submit(*blocks)
        # Some of the kernel's own room may be set aside for CPUs.
        assert 2 < taken <= room_for(2)
        with pytest.raises(BlockingIOError):
            context.submit(*blocks[taken:])
        theirs.send(b"x")
        assert {event.aio_block for event in context.get_events(taken, taken)} == set(blocks[:taken])
        assert context.submit(blocks[taken]) == 1
        context.get_events(1, 1)


@pytest.mark.parametrize("max_jobs", [1, 63, 1000])
def test_the_kernels_room(sockets: tuple[socket.socket, socket.socket], max_jobs: int) -> None:
    ours, theirs = sockets
    with AIOContext(max_jobs, engine="aio") as context:
        polls = [PollBlock(ours, select.EPOLLIN) for _ in range(room_for(max_jobs) + 1)]
        taken = 0
        with pytest.raises(BlockingIOError):
            while True:
                taken += context.submit(polls[taken])
        assert max_jobs <= taken <= room_for(max_jobs)
        theirs.send(b"x")
        assert len(context.get_events(taken, taken)) == taken


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
    with pytest.raises(AttributeError, match=r"not its ctypes calls; use oneloop\.aio"):
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
    assert shown == "'linux_aio_bind' was already imported: install the facade before the first import\n"
