"""Reading, writing, vectors, syncing: on both engines, on cached files and with O_DIRECT."""

from __future__ import annotations

import array
import errno
import mmap
import os
import random
from typing import TYPE_CHECKING

import pytest

from oneloop import aio
from tests.aio.conftest import BLOCK, Storage

if TYPE_CHECKING:
    from typing_extensions import Buffer


def done(context: aio.Context, *requests: aio.Request) -> list[aio.Event]:
    """Submit, wait for all, and return the events in the order of the requests."""
    assert context.submit(*requests) == len(requests)
    events = context.get_events(len(requests), len(requests))
    by_request = {event.request: event for event in events}
    return [by_request[request] for request in requests]


def aligned(size: int = BLOCK) -> mmap.mmap:
    return mmap.mmap(-1, size)


def test_reads_fill_their_buffers(context: aio.Context, storage: Storage) -> None:
    numbers = [3, 0, 15, 7]
    buffers = [aligned() for _ in numbers]
    reads = [aio.Read(storage.fd, buffer, number * BLOCK) for number, buffer in zip(numbers, buffers, strict=True)]
    for number, buffer, event in zip(numbers, buffers, done(context, *reads), strict=True):
        assert event.result() == BLOCK
        assert (event.response, event.response2) == (BLOCK, 0)
        assert buffer[:] == bytes([ord("a") + number]) * BLOCK


def test_writes_reach_the_file(context: aio.Context, storage: Storage) -> None:
    source = aligned()
    source[:] = b"X" * BLOCK
    (event,) = done(context, aio.Write(storage.fd, source, 2 * BLOCK))
    assert event.result() == BLOCK
    target = aligned(3 * BLOCK)
    (event,) = done(context, aio.Read(storage.fd, target, BLOCK))
    assert target[:] == b"b" * BLOCK + b"X" * BLOCK + b"d" * BLOCK


def test_vectors(context: aio.Context, storage: Storage) -> None:
    first, second = aligned(), aligned(2 * BLOCK)
    (event,) = done(context, aio.ReadV(storage.fd, [first, second], BLOCK))
    assert event.result() == 3 * BLOCK
    assert first[:] == b"b" * BLOCK
    assert second[:] == b"c" * BLOCK + b"d" * BLOCK
    (event,) = done(context, aio.WriteV(storage.fd, (second, first), 0))
    assert event.result() == 3 * BLOCK
    target = aligned(3 * BLOCK)
    done(context, aio.Read(storage.fd, target))
    assert target[:] == b"c" * BLOCK + b"d" * BLOCK + b"b" * BLOCK


@pytest.mark.parametrize("count", [0, 1, 1024])
def test_as_many_vectors_as_the_kernel_takes(context: aio.Context, file: int, count: int) -> None:
    buffers = [bytearray(1) for _ in range(count)]
    (event,) = done(context, aio.ReadV(file, iter(buffers)))
    assert event.result() == min(count, 10)
    assert b"".join(buffers[:10]) == b"0123456789"[:count]


def test_more_vectors_are_an_error(context: aio.Context, file: int) -> None:
    read = aio.ReadV(file, [bytearray(1) for _ in range(1025)])
    # Kernel AIO says so at the submission, the ring in the event.
    with pytest.raises(OSError, match="Invalid argument"):
        done(context, read)[0].result()
    assert not read.in_flight


def test_syncs(context: aio.Context, storage: Storage) -> None:
    events = done(context, aio.Fsync(storage.fd), aio.Fdsync(storage.fd))
    assert [event.result() for event in events] == [0, 0]


def test_the_end_of_the_file_makes_reads_short(context: aio.Context, storage: Storage) -> None:
    target = aligned(2 * BLOCK)
    events = done(
        context, aio.Read(storage.fd, target, Storage.SIZE - BLOCK), aio.Read(storage.fd, aligned(), Storage.SIZE)
    )
    assert [event.result() for event in events] == [BLOCK, 0]
    assert target[:BLOCK] == b"p" * BLOCK
    assert target[BLOCK:] == bytes(BLOCK)


def test_a_misaligned_read_of_a_direct_file_is_an_error(context: aio.Context, storage: Storage) -> None:
    (event,) = done(context, aio.Read(storage.fd, aligned(), 3, 5))
    if not storage.is_direct:
        assert event.result() == 5
        return
    with pytest.raises(OSError, match="Invalid argument") as caught:
        event.result()
    assert event.response == -errno.EINVAL
    assert caught.value.__notes__ == ["read"]


def test_every_kind_of_buffer(context: aio.Context, file: int) -> None:
    digits = array.array("H", [0] * 5)
    view = memoryview(bytearray(20))[5:15]
    writable: list[Buffer] = [bytearray(10), digits, view, aligned()]
    done(context, *(aio.Read(file, target) for target in writable))
    for target in writable:
        assert bytes(target)[:10] == b"0123456789"
    readable: list[Buffer] = [
        b"ab",
        bytearray(b"ab"),
        memoryview(b"xabx")[1:3],
        array.array("H", [ord("a") + 256 * ord("b")]),
    ]
    for source in readable:
        (event,) = done(context, aio.Write(file, source))
        assert event.result() == 2
        assert os.pread(file, 3, 0) == b"ab2"
        os.pwrite(file, b"01", 0)


def test_a_part_of_a_buffer(context: aio.Context, file: int) -> None:
    target = bytearray(b"-" * 8)
    read = aio.Read(file, target, 2, 3)
    assert (read.offset, read.length) == (2, 3)
    (event,) = done(context, read)
    assert event.result() == 3
    assert target == b"234-----"
    assert aio.Read(file, target).length == 8


def test_an_empty_buffer(context: aio.Context, file: int) -> None:
    events = done(context, aio.Read(file, bytearray()), aio.Write(file, b""))
    assert [event.result() for event in events] == [0, 0]


def test_files_are_asked_for_their_number(context: aio.Context, tmp_path: object) -> None:
    with open(f"{tmp_path}/named", "w+b") as file:
        done(context, aio.Write(file, b"hello"))
        target = bytearray(5)
        read = aio.Read(file, target)
        done(context, read)
        assert target == b"hello"
        assert read.file is file
    # Its number may be another file's by now.
    with pytest.raises(ValueError, match="closed file"):
        context.submit(read)
    assert not read.in_flight


def test_rw_flags(context: aio.Context, file: int) -> None:
    flag = os.RWF_DSYNC
    write = aio.Write(file, b"X", 3, rw_flags=flag)
    assert write.rw_flags == flag
    (event,) = done(context, write)
    assert event.result() == 1
    read = aio.Read(file, bytearray(1), rw_flags=os.RWF_NOWAIT)
    (event,) = done(context, read)
    assert event.response in (1, -errno.EAGAIN)


@pytest.mark.parametrize("priority", [aio.PriorityClass.BEST_EFFORT, aio.PriorityClass.IDLE])
def test_priorities(context: aio.Context, file: int, priority: aio.PriorityClass) -> None:
    read = aio.Read(file, bytearray(4), priority_class=priority, priority_value=3)
    assert (read.priority_class, read.priority_value) == (priority, 3)
    (event,) = done(context, read)
    assert event.result() == 4


def test_a_priority_that_the_kernel_does_not_know(context: aio.Context, file: int) -> None:
    read = aio.Read(file, bytearray(4), priority_class=7)
    with pytest.raises(OSError, match="Invalid argument"):
        done(context, read)[0].result()


def test_an_eventfd_is_raised(context: aio.Context, file: int) -> None:
    signal = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        reads = [aio.Read(file, bytearray(4), res_fd=signal) for _ in range(3)]
        assert reads[0].res_fd == signal
        done(context, *reads)
        poll = aio.Poll(signal, 1)
        done(context, poll)
        raised = 0
        while raised < 3:
            raised += os.eventfd_read(signal)
        assert raised == 3
    finally:
        os.close(signal)


def test_only_an_eventfd_can_be_raised(context: aio.Context, file: int) -> None:
    before = os.pread(file, 10, 0)
    with pytest.raises(OSError, match="Invalid argument"):
        context.submit(aio.Read(file, bytearray(1), res_fd=file))
    with pytest.raises(OSError, match="Bad file descriptor"):
        context.submit(aio.Read(file, bytearray(1), res_fd=9999))
    assert os.pread(file, 10, 0) == before


def test_random_operations_against_a_model(context: aio.Context, storage: Storage) -> None:
    chance = random.Random(7)
    model = bytearray(Storage.content())
    for _ in range(150):
        offset, size = chance.randrange(16) * BLOCK, chance.randint(1, 4) * BLOCK
        size = min(size, Storage.SIZE - offset)
        buffer = aligned(size)
        if chance.random() < 0.5:
            buffer[:] = data = chance.randbytes(size)
            model[offset : offset + size] = data
            (event,) = done(context, aio.Write(storage.fd, buffer, offset))
        else:
            (event,) = done(context, aio.Read(storage.fd, buffer, offset))
            assert buffer[:] == model[offset : offset + size]
        assert event.result() == size
