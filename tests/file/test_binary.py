"""Binary files: the position, whose turn it is, what a cancelled call leaves; how they end: `test_binary_end`."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.conftest import cancelled, settle
from tests.file.stand_in import StandIn

pytestmark = pytest.mark.usefixtures("loop")


# -- transfers ---------------------------------------------------------------------------------------


async def test_positional_calls_leave_the_cursor(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 1000)
    async with files.open(path, "r+b") as file:
        await file.seek(100)
        await file.write(b"buffered")
        assert await file.pread(10, 98) == b"\x62\x63buffered"
        parts = await asyncio.gather(*(file.pread(256, 256 * block) for block in range(1, 50)))
        assert set(parts) == {bytes(range(256))}
        assert await file.pwrite(b"at 5", 5) == 4
        assert await file.tell() == 108
        buffers = [bytearray(3), bytearray(4), bytearray(0)]
        assert await file.readv(buffers, 4) == 7
        assert buffers == [b"\x04at", b" 5\x09\x0a", b""]
        assert await file.writev([b"ab", b"", b"cd"], 0) == 4
        assert await file.pread(5, 0) == b"abcd\x04"
        assert await file.readv([bytearray(2)]) == 2
        assert await file.tell() == 110
        assert await file.pread(5, 1 << 40) == b""
        for wrong in (file.pread(-1, 0), file.pread(1, -1), file.pwrite(b"x", -1), file.readv([], -1)):
            with pytest.raises(OSError, match="Invalid argument"):
                await wrong
    assert path.read_bytes()[:10] == b"abcd\x04at 5\x09"


async def test_more_reads_than_a_tick_has_time_for(path: Path) -> None:
    path.write_bytes(bytes(1 << 20))
    async with files.open(path, "rb") as file:
        parts = await asyncio.gather(*(file.pread(1 << 20, offset) for offset in range(64)))
    assert [len(part) for part in parts] == [(1 << 20) - offset for offset in range(64)]
    contents = await asyncio.gather(*(files.read_file(path) for _ in range(64)))
    assert {len(content) for content in contents} == {1 << 20}


async def test_a_read_of_what_the_cache_has_in_part(path: Path) -> None:
    content = os.urandom(1 << 20)
    path.write_bytes(content)
    async with files.open(path, "r+b") as file:
        await file.fsync()
        os.posix_fadvise(file.fileno(), 1 << 19, 1 << 19, os.POSIX_FADV_DONTNEED)
        assert await file.pread(1 << 20, 0) == content


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_flushes_come_one_after_the_other(path: Path, is_cancelled: bool) -> None:
    parts = [bytes([turn]) * (3 << 20) for turn in range(4)]
    async with files.open(path, "wb", 4 << 20) as file:
        for part in parts:
            await file.write(part)
            flushing = asyncio.ensure_future(file.flush())
            await asyncio.sleep(0)
            if is_cancelled:
                flushing.cancel()
            await file.write(b"after")
            await file.flush()
            await asyncio.wait([flushing])
    assert path.read_bytes() == b"".join(part + b"after" for part in parts)


async def test_appending_appends(path: Path) -> None:
    path.write_bytes(b"0123")
    async with files.open(path, "a+b") as file, files.open(path, "ab") as other:
        await file.write(b"45")
        await file.flush()
        await other.write(b"67")
        await other.flush()
        await file.write(b"89")
        await file.flush()
        assert await file.tell() == 10
        await file.seek(0)
        assert await file.read() == b"0123456789"


async def test_a_child_goes_on_where_the_program_stopped(path: Path) -> None:
    async with files.open(path, "wb") as file:
        await file.write(b"program\n")
        await file.flush()
        child = await asyncio.create_subprocess_exec("echo", "child", stdout=file.fileno())
        await child.wait()
        await file.write(b"program again\n")
    assert path.read_bytes() == b"program\nchild\nprogram again\n"


async def test_concurrent_calls_take_turns(path: Path) -> None:
    path.write_bytes(b"".join(b"%05d\n" % number for number in range(20_000)))
    async with files.open(path, "rb") as file:
        lines = await asyncio.gather(*(file.readline() for _ in range(1000)))
        assert lines == [b"%05d\n" % number for number in range(1000)]
        rest = [line async for line in file]
        assert len(rest) == 19_000
    async with files.open(path, "wb") as file:
        await asyncio.gather(*(file.write(b"%06d" % number * 1000) for number in range(30)))
    assert path.read_bytes() == b"".join(b"%06d" % number * 1000 for number in range(30))


@pytest.mark.parametrize("limit", [1, 7, 4096])
async def test_short_transfers_are_resumed(held: StandIn, path: Path, limit: int) -> None:
    held.limit_bytes = limit
    content = os.urandom(10_000)
    async with files.open(path, "w+b") as file:
        assert await file.write(content) == len(content)
        await file.seek(0)
        assert await file.read(9000) == content[:9000]
        await file.seek(0)
        assert await file.read() == content
        await file.seek(0)
        buffer = bytearray(10_001)
        assert await file.readinto(buffer) == 10_000
        assert buffer[:-1] == content
        assert await file.pread(5000, 10) == content[10:5010]
        assert await file.pwrite(content[::-1], 0) == 10_000
    assert path.read_bytes() == content[::-1]


async def test_a_file_that_shrinks_and_grows(path: Path) -> None:
    path.write_bytes(b"x" * 100_000)
    async with files.open(path, "rb", 4096) as file:
        assert len(await file.read(10)) == 10
        os.truncate(path, 50_000)
        assert len(await file.read()) == 50_000 - 10
        assert await file.read() == b""
        os.truncate(path, 100)
        assert await file.read(10) == b""
        os.truncate(path, 60_000)
        assert await file.read() == b"\0" * 10_000


@pytest.mark.parametrize("name", ["/proc/self/status", "/proc/mounts", "/sys/kernel/mm/transparent_hugepage/enabled"])
async def test_files_that_do_not_tell_their_size(name: str) -> None:
    if not os.path.exists(name):
        pytest.skip(f"the kernel has no {name}")
    async with files.open(name, "rb") as file:
        whole = await file.read()
        assert whole
        await file.seek(0)
        assert b"".join([line async for line in file])[:10] == whole[:10]


async def test_devices() -> None:
    async with files.open("/dev/null", "r+b") as file:
        assert await file.read() == b""
        assert await file.write(b"x") == 1
    async with files.open("/dev/zero", "rb") as file:
        assert await file.read(100_000) == bytes(100_000)


async def test_an_error_of_the_disk() -> None:
    async with files.open("/proc/self/mem", "rb", 0) as file:
        with pytest.raises(OSError, match="Input/output error") as caught:
            await file.read(10)
        assert caught.value.errno == errno.EIO


# -- pipes -------------------------------------------------------------------------------------------


async def test_a_pipe_is_read_as_it_comes() -> None:
    source, sink = os.pipe()
    async with files.open(source, "rb") as reader, files.open(sink, "wb") as writer:
        reading = asyncio.ensure_future(reader.readline())
        await settle()
        assert not reading.done()
        await writer.write(b"one\ntwo\nth")
        await writer.flush()
        assert await reading == b"one\n"
        assert await reader.readline() == b"two\n"
        third = asyncio.ensure_future(reader.read(5))
        await settle()
        await writer.write(b"ree")
        await writer.close()
        assert await third == b"three"
        assert await reader.read() == b""
        with pytest.raises(OSError, match="not seekable"):
            await reader.seek(0)
        with pytest.raises(OSError, match="Illegal seek"):
            await reader.tell()


@pytest.mark.parametrize("buffering", [-1, 0])
async def test_a_cancelled_read_of_a_pipe_loses_nothing(buffering: int) -> None:
    source, sink = os.pipe()
    async with files.open(source, "rb", buffering) as reader:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await reader.read(3, timeout=0.01)
        os.write(sink, b"one")
        assert await reader.read(3) == b"one"
        os.close(sink)
        assert await reader.read() == b""


async def test_a_cancelled_filling_of_a_buffer_loses_nothing_of_a_pipe() -> None:
    source, sink = os.pipe()
    async with files.open(source, "rb") as reader:
        buffer = bytearray(100_000)
        os.write(sink, b"one ")
        with pytest.raises(TimeoutError):
            await reader.readinto(buffer, timeout=0.01)
        os.write(sink, b"two")
        os.close(sink)
        assert await reader.readinto(buffer) == 7
        assert buffer[:7] == b"one two"


async def test_a_cancelled_line_of_an_unbuffered_pipe_is_kept() -> None:
    source, sink = os.pipe()
    async with files.open(source, "rb", 0) as reader:
        os.write(sink, b"one ")
        with pytest.raises(TimeoutError):
            await reader.readline(timeout=0.05)
        os.write(sink, b"line\nnext")
        os.close(sink)
        assert await reader.readline() == b"one line\n"
        assert await reader.readlines() == [b"next"]


async def test_lines_of_an_unbuffered_file(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree")
    async with files.open(path, "rb", 0) as file:
        assert await file.readline() == b"one\n"
        assert await file.tell() == 4
        assert await file.readline(2) == b"tw"
        assert await file.readlines() == [b"o\n", b"three"]


async def test_truncating_comes_after_what_was_written(path: Path) -> None:
    async with files.open(path, "wb") as file:
        await file.write(b"0123456789")
        assert await file.truncate(4) == 4
        assert path.read_bytes() == b"0123"
        await file.seek(2)
        await file.write(b"x")
        assert await file.truncate() == 3
    assert path.read_bytes() == b"01x"


async def test_syncing_does_not_wait_for_what_a_pipe_brings() -> None:
    reader, writer = os.pipe()
    async with files.open(reader, "rb") as file:
        await cancelled(file.read(1))
        with pytest.raises(OSError, match="Invalid argument"):
            await asyncio.wait_for(file.fsync(), 60)
        os.write(writer, b"x")
        assert await file.read(1) == b"x"
    os.close(writer)


async def test_closing_ends_a_read_that_waits() -> None:
    source, sink = os.pipe()
    reader = await files.open(source, "rb")
    reading = asyncio.ensure_future(reader.read(3))
    await asyncio.sleep(0.01)
    assert not reading.done()
    await reader.close()
    with pytest.raises(ValueError, match="closed file"):
        await reading
    # A thread may be in there still.
    os.close(sink)
    await asyncio.sleep(0.01)


# -- cancelled ---------------------------------------------------------------------------------------


async def test_a_cancelled_read_has_read_nothing(held: StandIn, path: Path) -> None:
    path.write_bytes(bytes(range(100, 200)) * 300)
    async with files.open(path, "rb", 4096) as file:
        await file.read(10)
        for operation in (file.read(20_000), file.readinto(bytearray(20_000)), file.read(), file.readline()):
            await file.seek(10)
            held.mode = "held"
            task = await cancelled(operation)
            held.mode = "now"
            assert task.cancelled()
            held.release()
            await settle()
            assert await file.tell() == 10
        assert await file.read(3) == bytes([110, 111, 112])


async def test_a_failed_read_has_read_nothing(held: StandIn, path: Path) -> None:
    path.write_bytes(b"0123456789")
    async with files.open(path, "rb") as file:
        held.mode, held.limit_bytes = "held", 4
        task = asyncio.ensure_future(file.read())
        for _ in range(2):
            await settle()
            held.release()
        await settle()
        held.faults["read"] = [OSError(errno.EIO, "broken")]
        held.release()
        with pytest.raises(OSError, match="broken"):
            await task
        held.mode = "now"
        assert await file.tell() == 0
        assert await file.read() == b"0123456789"


async def test_a_cancelled_write_is_written(held: StandIn, path: Path) -> None:
    async with files.open(path, "wb") as file:
        await file.write(b"first ")
        held.mode = "held"
        await cancelled(file.write(b"x" * 1_000_000))
        held.mode = "now"
        after = asyncio.ensure_future(file.write(b" last"))
        await settle()
        assert not after.done()
        held.limit_bytes = 10
        held.release()
        await after
        held.limit_bytes = None
        assert await file.tell() == 6 + 1_000_000 + 5
    assert path.read_bytes() == b"first " + b"x" * 1_000_000 + b" last"


async def test_close_writes_the_rest_of_a_cancelled_write(held: StandIn, path: Path) -> None:
    file = await files.open(path, "wb")
    held.mode = "held"
    await cancelled(file.write(b"x" * 20_000))
    held.mode, held.limit_bytes = "now", 1000
    closing = asyncio.ensure_future(file.close())
    await settle()
    held.release()
    await closing
    assert path.read_bytes() == b"x" * 20_000


async def test_a_cancelled_write_that_fails_is_tried_again(held: StandIn, path: Path) -> None:
    async with files.open(path, "wb") as file:
        held.mode = "held"
        await cancelled(file.write(b"x" * 1_000_000))
        held.mode = "now"
        held.faults["write"] = [OSError(errno.ENOSPC, "full"), OSError(errno.ENOSPC, "still full")]
        held.release()
        with pytest.raises(OSError, match="still full"):
            await file.flush()
    assert path.read_bytes() == b"x" * 1_000_000


async def test_what_a_cancelled_write_writes_is_read_and_synced(held: StandIn, path: Path) -> None:
    async with files.open(path, "w+b") as file:
        held.mode = "held"
        await cancelled(file.write(b"x" * 1_000_000))
        held.mode = "now"
        others = [asyncio.ensure_future(other) for other in (file.pread(3, 999_997), file.fsync())]
        await settle()
        assert not any(other.done() for other in others)
        assert "fsync" not in held.log
        held.release()
        assert await asyncio.gather(*others) == [b"xxx", None]


async def test_a_failed_write_keeps_what_was_written_before_it(held: StandIn, path: Path) -> None:
    async with files.open(path, "wb", 8192) as file:
        await file.write(b"before")
        held.mode, held.limit_bytes = "held", 4
        task = asyncio.ensure_future(file.write(b"x" * 20_000))
        await settle()
        held.release()
        await settle()
        held.faults["write"] = [OSError(errno.EIO, "broken")]
        held.release()
        with pytest.raises(OSError, match="broken"):
            await task
        held.mode = "now"
        assert await file.tell() == len(b"before")
    assert path.read_bytes() == b"before"


async def test_the_number_can_be_asked_for_in_the_middle_of_a_read(held: StandIn, path: Path) -> None:
    path.write_bytes(b"abcdef")
    async with files.open(path, "rb", 0) as file:
        held.mode = "held"
        task = asyncio.ensure_future(file.read(2))
        await settle()
        number = file.fileno()
        held.release()
        assert await task == b"ab"
        held.mode = "now"
        assert await file.read(2) == b"cd"
        assert file.fileno() == number
        assert os.lseek(number, 0, os.SEEK_CUR) == 4


async def test_a_waiting_call_can_be_cancelled(held: StandIn, path: Path) -> None:
    path.write_bytes(b"abcdef")
    async with files.open(path, "rb", 0) as file:
        held.mode = "held"
        tasks = [asyncio.ensure_future(file.read(2)) for _ in range(4)]
        await settle()
        tasks[1].cancel()
        await settle()
        tasks[2].cancel()
        for _ in range(6):
            held.release()
            await settle()
        assert [task.result() for task in (tasks[0], tasks[3])] == [b"ab", b"cd"]
        held.mode = "now"


async def test_a_turn_that_comes_with_the_cancellation_is_passed_on(path: Path) -> None:
    async with files.open(path, "wb") as file:
        assert file.handle.take_turn()
        task = asyncio.ensure_future(file.tell())
        await settle()
        file.handle.leave()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert await asyncio.wait_for(file.tell(), 60) == 0


async def test_who_waits_behind_a_close_is_told(path: Path) -> None:
    file = await files.open(path, "wb")
    assert file.handle.take_turn()
    closing = asyncio.ensure_future(file.close())
    await settle()
    late = [asyncio.ensure_future(call) for call in (file.tell(), file.write(b"x"), file.flush())]
    await settle()
    file.handle.leave()
    await closing
    for call in late:
        with pytest.raises(ValueError, match="closed file"):
            await call
    assert path.read_bytes() == b""


async def test_timeouts(held: StandIn, path: Path) -> None:
    path.write_bytes(b"line\n")
    file: Any = await files.open(path, "r+b")
    held.mode = "held"
    calls = {"read": (), "readline": (), "pread": (1, 0), "fsync": (), "truncate": (3,), "close": ()}
    for name, arguments in calls.items():
        with pytest.raises(TimeoutError):
            await getattr(file, name)(*arguments, timeout=0)
    held.mode = "now"
    held.release()
    await file.close()
    assert file.closed


async def test_a_device_without_a_position_is_at_its_start() -> None:
    """As with `open()`, whose own position is negative on Python 3.11."""
    async with files.open("/dev/zero", "rb") as file:
        assert await file.read(10) == bytes(10)
        assert await file.tell() == 0
        assert await file.read(10) == bytes(10)
