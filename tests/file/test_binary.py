"""Binary files: the cursor and whose turn it is, what a cancelled call leaves, failing writes, the end."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.file.stand_in import StandIn

pytestmark = pytest.mark.usefixtures("loop")


@pytest.fixture
def held(loop: Any) -> StandIn:
    """Operations wait until the test lets them happen."""
    engine = StandIn(loop, "now")
    loop._files = engine
    return engine


async def ticks(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


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
        await ticks()
        assert not reading.done()
        await writer.write(b"one\ntwo\nth")
        await writer.flush()
        assert await reading == b"one\n"
        assert await reader.readline() == b"two\n"
        third = asyncio.ensure_future(reader.read(5))
        await ticks()
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
            task = asyncio.ensure_future(operation)
            await ticks()
            task.cancel()
            await asyncio.wait([task])
            held.mode = "now"
            assert task.cancelled()
            held.release()
            await ticks()
            assert await file.tell() == 10
        assert await file.read(3) == bytes([110, 111, 112])


async def test_a_cancelled_write_is_written(held: StandIn, path: Path) -> None:
    async with files.open(path, "wb") as file:
        await file.write(b"first ")
        held.mode = "held"
        task = asyncio.ensure_future(file.write(b"x" * 1_000_000))
        await ticks()
        task.cancel()
        await asyncio.wait([task])
        held.mode = "now"
        after = asyncio.ensure_future(file.write(b" last"))
        await ticks()
        assert not after.done()
        held.limit_bytes = 10
        held.release()
        await after
        held.limit_bytes = None
        assert await file.tell() == 6 + 1_000_000 + 5
    assert path.read_bytes() == b"first " + b"x" * 1_000_000 + b" last"


async def test_a_cancelled_write_that_fails_is_tried_again(held: StandIn, path: Path) -> None:
    async with files.open(path, "wb") as file:
        held.mode = "held"
        task = asyncio.ensure_future(file.write(b"x" * 1_000_000))
        await ticks()
        task.cancel()
        await asyncio.wait([task])
        held.mode = "now"
        held.faults["write"] = [OSError(errno.ENOSPC, "full"), OSError(errno.ENOSPC, "still full")]
        held.release()
        with pytest.raises(OSError, match="still full"):
            await file.flush()
    assert path.read_bytes() == b"x" * 1_000_000


async def test_a_waiting_call_can_be_cancelled(held: StandIn, path: Path) -> None:
    path.write_bytes(b"abcdef")
    async with files.open(path, "rb", 0) as file:
        held.mode = "held"
        tasks = [asyncio.ensure_future(file.read(2)) for _ in range(4)]
        await ticks()
        tasks[1].cancel()
        await ticks()
        tasks[2].cancel()
        for _ in range(6):
            held.release()
            await ticks()
        assert [task.result() for task in (tasks[0], tasks[3])] == [b"ab", b"cd"]
        held.mode = "now"


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


# -- failing writes ----------------------------------------------------------------------------------


async def test_a_full_disk_is_told_and_nothing_is_forgotten() -> None:
    """What is told when is io's way: at each flush, and at close, which closes."""
    with open("/dev/full", "wb") as model:
        file = await files.open("/dev/full", "wb")
        for target in (model, file):
            assert await outcome(target.write(b"x" * 100)) == 100
            for _ in range(2):
                with pytest.raises(OSError, match="No space left"):
                    await outcome(target.flush())
            with pytest.raises(OSError, match="No space left"):
                await outcome(target.write(b"y" * 1_000_000))
            with pytest.raises(OSError, match="No space left"):
                await outcome(target.close())
            assert target.closed
            await outcome(target.close())


async def outcome(result: Any) -> Any:
    return await result if asyncio.iscoroutine(result) else result


async def test_a_failed_flush_keeps_what_it_could_not_write(held: StandIn, path: Path) -> None:
    async with files.open(path, "wb") as file:
        await file.write(b"0123456789")
        held.limit_bytes = 4
        await file.flush()
        await file.write(b"abc")
        held.faults["write"] = [OSError(errno.EIO, "broken")]
        with pytest.raises(OSError, match="broken"):
            await file.flush()
        assert await file.tell() == 13
        await file.write(b"def")
    assert path.read_bytes() == b"0123456789abcdef"


# -- the end -----------------------------------------------------------------------------------------


async def test_close_is_shielded_and_happens_once(held: StandIn, path: Path) -> None:
    file = await files.open(path, "wb")
    await file.write(b"x" * 10)
    held.mode = "held"
    closing = [asyncio.ensure_future(file.close()) for _ in range(3)]
    await ticks()
    closing[0].cancel()
    await ticks()
    assert closing[0].cancelled()
    for _ in range(3):
        held.release()
        await ticks()
    await asyncio.gather(*closing[1:])
    assert held.log.count("close") == 1
    assert path.read_bytes() == b"x" * 10
    await file.close()


async def test_the_number_stays_open_until_the_last_operation(held: StandIn, path: Path) -> None:
    path.write_bytes(b"x" * 10)
    file = await files.open(path, "rb")
    held.mode = "held"
    reading = asyncio.ensure_future(file.pread(10, 0))
    await ticks()
    reading.cancel()
    closing = asyncio.ensure_future(file.close())
    await ticks()
    assert "close" not in held.log
    held.mode = "now"
    held.release()
    await closing
    assert held.log[-2:] == ["read", "close"]


async def test_a_failing_close_is_told(held: StandIn, path: Path) -> None:
    for mode in ("now", "later"):
        file = await files.open(path, "wb")
        number = file._descriptor.number
        held.mode = mode
        held.faults["close"] = [OSError(errno.EIO, "late news")]
        with pytest.raises(OSError, match="late news"):
            await file.close()
        assert file.closed
        held.mode = "now"
        os.close(number)


@pytest.mark.parametrize("buffering", [-1, 0])
async def test_a_closed_file_says_so(path: Path, buffering: int) -> None:
    file: Any = await files.open(path, "w+b", buffering)
    await file.close()
    await file.close()
    for name, arguments in {
        "read": (),
        "readall": (),
        "readline": (),
        "readlines": (),
        "readinto": (bytearray(1),),
        "write": (b"x",),
        "writelines": ([b"x"],),
        "seek": (0,),
        "tell": (),
        "truncate": (),
        "flush": (),
        "fsync": (),
        "fdatasync": (),
        "pread": (1, 0),
        "pwrite": (b"x", 0),
        "readv": ([bytearray(1)], 0),
        "writev": ([b"x"], 0),
    }.items():
        with pytest.raises(ValueError, match="I/O operation on closed file"):
            await getattr(file, name)(*arguments)
    for name in ("fileno", "isatty", "readable", "writable", "seekable", "__aiter__"):
        with pytest.raises(ValueError, match="I/O operation on closed file"):
            getattr(file, name)()
    with pytest.raises(ValueError, match="I/O operation on closed file"):
        async with file:
            pass


async def test_syncing(path: Path) -> None:
    async with files.open(path, "wb") as file:
        await file.write(b"x")
        await file.fsync()
        assert path.read_bytes() == b"x"
        await file.write(b"y")
        await file.fdatasync()
        assert path.read_bytes() == b"xy"


@pytest.mark.parametrize("wrong", ["text", 3, None])
async def test_what_is_not_bytes_is_refused(path: Path, wrong: Any) -> None:
    async with files.open(path, "w+b") as file:
        with pytest.raises(TypeError, match="a bytes-like object is required, not"):
            await file.write(wrong)
        with pytest.raises(TypeError, match=r"readinto\(\) argument must be read-write bytes-like object, not"):
            await file.readinto(wrong)
        with pytest.raises(TypeError, match="not bytes"):
            await file.readinto(b"xyz")  # type: ignore[arg-type]


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("size", [3, 4, 5, 8, 9])
async def test_what_fills_the_buffer_goes_when_open_lets_it_go(path: Path, engine: str, before: int, size: int) -> None:
    theirs = path.with_name("model")
    with theirs.open("ab", 4) as model:
        model.write(b"a" * before)
        model.write(b"b" * size)
        async with files.open(path, "ab", 4) as file:
            await file.write(b"a" * before)
            await file.write(b"b" * size)
            assert path.stat().st_size == theirs.stat().st_size
            assert await file.tell() == model.tell()


@pytest.mark.parametrize("reader", ["read", "readline", "peek"])
async def test_what_a_finished_pwrite_has_written_is_read(path: Path, reader: str) -> None:
    """Whatever was read ahead before it or while it went on."""
    old, new = b"old line\n" * 2000, b"new line\n" * 2000
    for steps in range(8):
        path.write_bytes(old)
        async with files.open(path, "r+b") as file:
            first = await file.readline()
            writing = asyncio.create_task(file.pwrite(new, 0))
            for _ in range(steps):
                await asyncio.sleep(0)
            got = b"" if reader == "peek" else await getattr(file, reader)(9)
            if reader == "peek":
                await file.peek(9)
            assert await writing == len(new)
            assert (first, got in (b"", old[:9], new[:9])) == (old[:9], True)
            assert await file.read() == new[9 + len(got) :], steps


@pytest.mark.parametrize("mode", ["rb", "r"])
@pytest.mark.parametrize("hint", [-1, 0, 1, 5, 6, 7, 11, 12, 13, 100, None])
async def test_readlines_stops_where_open_does(path: Path, mode: str, hint: int | None) -> None:
    path.write_bytes(b"first\nsecond\nthird\n" * 2)
    with open(path, mode) as model:
        expected = model.readlines(hint) if hint is not None else model.readlines()
        rest = model.read()
    async with files.open(path, mode) as file:
        assert await file.readlines(hint) == expected
        assert await file.read() == rest
