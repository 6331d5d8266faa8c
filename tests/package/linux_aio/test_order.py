"""Buffered files are read and written in the order of the submission, as by io_submit(2), on both engines.

The first block of each test is so long that a worker of the kernel gets it in a ring; the one after it is done at once,
if nothing keeps it from overtaking. `AIOContext(1)` takes both, as the kernel's io_setup(2) does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from oneloop.compat.linux_aio import AIOBlock, AIOContext, FsyncBlock, ReadBlock, WriteBlock
from tests.package.linux_aio.conftest import Open

LONG = 32 << 20

Submit = Callable[[AIOContext, AIOBlock, AIOBlock], None]


def together(context: AIOContext, first: AIOBlock, second: AIOBlock) -> None:
    assert context.submit(first, second) == 2


def one_by_one(context: AIOContext, first: AIOBlock, second: AIOBlock) -> None:
    assert context.submit(first) == 1
    assert context.submit(second) == 1


@pytest.fixture(params=[together, one_by_one])
def submit(request: pytest.FixtureRequest) -> Submit:
    chosen: Submit = request.param
    return chosen


def responses(context: AIOContext, *blocks: AIOBlock) -> list[int]:
    by_block = {id(event.aio_block): event.response for event in context.get_events(len(blocks), len(blocks))}
    return [by_block[id(block)] for block in blocks]


def test_a_read_sees_the_write_before_it(opened: Open, submit: Submit, path: Path) -> None:
    """Also by another descriptor of the same file."""
    path.write_bytes(bytes(LONG))
    with path.open("r+b") as file, path.open("rb") as other, opened(1) as context:
        target = bytearray(4)
        write, read = WriteBlock(file, b"x" * LONG), ReadBlock(other, target, LONG - 4)
        submit(context, write, read)
        assert responses(context, write, read) == [LONG, 4]
        assert target == b"xxxx"


def test_the_last_write_wins(opened: Open, submit: Submit, path: Path) -> None:
    path.write_bytes(bytes(LONG))
    with path.open("r+b") as file, opened(1) as context:
        first, second = WriteBlock(file, b"x" * LONG), WriteBlock(file, b"last", LONG - 4)
        submit(context, first, second)
        assert responses(context, first, second) == [LONG, 4]
        assert os.pread(file.fileno(), 8, LONG - 8) == b"xxxxlast"


def test_a_write_does_not_change_what_is_read_before_it(opened: Open, submit: Submit, path: Path) -> None:
    path.write_bytes(b"x" * LONG)
    with path.open("r+b") as file, opened(1) as context:
        # So that it has to be read from the disk.
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        target = bytearray(LONG)
        read, write = ReadBlock(file, target), WriteBlock(file, b"last", LONG - 4)
        submit(context, read, write)
        assert responses(context, read, write) == [LONG, 4]
        assert target[-8:] == b"xxxxxxxx"


def test_the_end_of_the_file_is_where_the_write_before_has_put_it(opened: Open, submit: Submit, path: Path) -> None:
    path.write_bytes(b"")
    with path.open("r+b") as file, opened(1) as context:
        write, read = WriteBlock(file, b"x" * LONG), ReadBlock(file, bytearray(8), LONG - 4)
        submit(context, write, read)
        assert responses(context, write, read) == [LONG, 4]


def test_a_sync_comes_after_the_write_before_it(opened: Open, submit: Submit, path: Path) -> None:
    with path.open("r+b") as file, opened(1) as context:
        write, sync = WriteBlock(file, b"x" * LONG), FsyncBlock(file)
        submit(context, write, sync)
        assert [event.aio_block for event in context.get_events(2, 2)] == [write, sync]


def test_many_in_order(opened: Open, path: Path) -> None:
    """More than there is room for in the ring's queue."""
    with path.open("r+b") as file, opened(600) as context:
        blocks = [WriteBlock(file, number.to_bytes(4)) for number in range(600)]
        assert context.submit(*blocks) == 600
        assert responses(context, *blocks) == [4] * 600
        assert os.pread(file.fileno(), 4, 0) == (599).to_bytes(4)
