"""`change_cmd()`: every kind of block becomes every other."""

from __future__ import annotations

import select
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oneloop.compat.linux_aio import (
    IOCBCMD,
    AIOBlock,
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
from tests.package.linux_aio.conftest import CONTENT, Open, done

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
