"""Text files beyond the random comparison with open(): iteration, long lines, places, marks, what is wrong."""

from __future__ import annotations

import asyncio
import codecs
import io
import os
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from tests.conftest import cancelled, settle
from tests.file.stand_in import StandIn

pytestmark = pytest.mark.usefixtures("loop")

ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "latin-1", "utf-7", "shift_jis", "hz"]
NEWLINES: list[str | None] = [None, "", "\n", "\r", "\r\n"]


@pytest.mark.parametrize("text", ["ab\ncd\n", "ab\rcd\n", "abcdef"])
async def test_line_ends_that_were_seen_in_a_part_and_in_the_whole(path: Path, text: str) -> None:
    path.write_bytes(text.encode())
    with open(path) as model:
        async with files.open(path) as file:
            for size in (1, -1):
                # Without an argument, native code reads the whole file.
                assert await (file.read() if size < 0 else file.read(size)) == model.read(size)
                assert file.newlines == model.newlines
                assert await file.seek(0) == model.seek(0) == 0


@pytest.mark.parametrize("newline", NEWLINES, ids=repr)
async def test_iteration_gives_the_lines_of_open(path: Path, newline: str | None) -> None:
    path.write_bytes(b"".join(b"line %d" % number + (b"\n", b"\r\n", b"\r")[number % 3] for number in range(30_000)))
    with open(path, newline=newline) as model:
        expected = list(model)
        async with files.open(path, newline=newline) as file:
            assert [line async for line in file] == expected
            assert file.newlines == model.newlines
            await file.seek(0)
            assert await file.readlines() == expected
    with open(path, "rb") as model_of_bytes:
        async with files.open(path, "rb") as binary:
            assert [line async for line in binary] == list(model_of_bytes)


async def test_long_lines(path: Path) -> None:
    lines = ["é" * size + "\n" for size in (0, 1, 8191, 8192, 8193, 70_000, 1_000_000, 3)] + ["end"]
    path.write_text("".join(lines), encoding="utf-8")
    async with files.open(path, encoding="utf-8") as file:
        assert [line async for line in file] == lines
        await file.seek(0)
        assert [await file.readline() for _ in lines] == lines
        assert await file.readline() == ""


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_tell_during_iteration_leads_back(path: Path, encoding: str) -> None:
    lines = [f"{number} " + "äあ"[number % 2 :] * (number % 7) + "\n" for number in range(3000)]
    if encoding == "latin-1":
        lines = [line.replace("あ", "a") for line in lines]
    if encoding in ("shift_jis", "hz"):
        lines = [line.replace("ä", "a") for line in lines]
    path.write_text("".join(lines), encoding=encoding)
    places = {}
    async with files.open(path, encoding=encoding) as file:
        number = 0
        async for line in file:
            assert line == lines[number]
            number += 1
            if number % 250 == 1:
                places[number] = await file.tell()
        assert number == len(lines)
        for number, place in reversed(places.items()):
            assert await file.seek(place) == place
            assert await file.readline() == lines[number]
            await file.seek(place)
            assert await file.tell() == place
            assert await file.read(5) == "".join(lines[number : number + 5])[:5]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
async def test_a_mark_stands_at_the_beginning_and_nowhere_else(path: Path, encoding: str) -> None:
    for _ in range(2):
        async with files.open(path, "a", encoding=encoding) as file:
            await file.write("é")
    assert path.read_bytes() == "éé".encode(encoding)
    async with files.open(path, "r+", encoding=encoding) as file:
        await file.seek(0, os.SEEK_END)
        await file.write("x")
        await file.seek(0)
        assert await file.read() == "ééx"
        await file.seek(0)
        await file.write("y")
    assert path.read_bytes()[: len("y".encode(encoding))] == "y".encode(encoding)


async def test_concurrent_calls_take_turns(path: Path) -> None:
    path.write_text("".join(f"{number:05d}\n" for number in range(20_000)))
    async with files.open(path) as file:
        lines = await asyncio.gather(*(file.readline() for _ in range(3000)))
        assert lines == [f"{number:05d}\n" for number in range(3000)]

        async def some(count: int) -> list[str]:
            found = []
            async for line in file:
                found.append(line)
                await asyncio.sleep(0)
                if len(found) == count:
                    break
            return found

        parts = await asyncio.gather(*(some(100) for _ in range(20)))
        assert sorted(line for part in parts for line in part) == [f"{number:05d}\n" for number in range(3000, 5000)]


async def test_line_buffering_flushes_lines(path: Path) -> None:
    async with files.open(path, "w", buffering=1) as file:
        assert file.line_buffering
        await file.write("half")
        assert path.read_text() == ""
        await file.write(" whole\n")
        assert path.read_text() == "half whole\n"


async def test_a_terminal_is_buffered_by_line() -> None:
    leader, follower = os.openpty()
    name = os.ttyname(follower)
    async with files.open(name, "w") as file:
        assert file.isatty()
        assert file.line_buffering
        await file.write("hello\n")
        assert os.read(leader, 100) == b"hello\r\n"
    async with files.open(name) as reader:
        reading = asyncio.ensure_future(reader.readline())
        await asyncio.sleep(0.01)
        assert not reading.done()
        os.write(leader, b"typed\n")
        assert await reading == "typed\n"
    os.close(leader)
    os.close(follower)


async def test_a_cancelled_read_loses_nothing(loop: Any, path: Path) -> None:
    path.write_text("line\n" * 20_000)
    held = loop._files = StandIn(loop, "now")
    async with files.open(path) as file:
        for operation in (file.read(50_000), file.read(), file.readlines()):
            held.mode = "held"
            task = await cancelled(operation)
            held.mode = "now"
            assert task.cancelled()
            held.release()
            await settle()
        assert await file.read() == "line\n" * 20_000


async def test_what_was_read_ahead_is_lost_to_buffer_alone(path: Path) -> None:
    path.write_text("one\ntwo\n")
    async with files.open(path) as file:
        assert await file.buffer.peek() == b"one\ntwo\n"
        assert await file.buffer.read(4) == b"one\n"
        assert await file.readline() == "two\n"


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "utf-16", "euc-jp", "shift-jis"])
async def test_a_wrong_byte_in_a_long_text_is_told_of_the_whole(path: Path, encoding: str) -> None:
    letter = "a" if encoding == "ascii" else "\u3042"
    data = ("a" + letter * 100_000).encode(encoding) + b"\xff"
    path.write_bytes(data)
    with pytest.raises(UnicodeDecodeError) as expected:
        codecs.getincrementaldecoder(encoding)().decode(data, True)
    with pytest.raises(UnicodeDecodeError) as told:
        await files.read_text(path, encoding)
    assert str(told.value) == str(expected.value)
    assert told.value.object == data


async def test_a_long_text_that_breaks_off(path: Path) -> None:
    data = ("aaa" + "\u3042" * 65_534).encode("euc-jp") + b"\xa4"
    assert len(data) % (64 * 1024) == 0
    path.write_bytes(data)
    with pytest.raises(UnicodeDecodeError, match="incomplete multibyte sequence"):
        await files.read_text(path, "euc-jp")


@pytest.mark.parametrize("newline", [None, "", "\n", "\r", "\r\n"])
async def test_a_short_text_is_read_whole_as_by_open(path: Path, newline: str | None) -> None:
    for content in (b"a\r\nb\rc\n", b"a\nb\n", b"a\r", "\u3042\n".encode()):
        path.write_bytes(content)
        with open(path, encoding="utf-8", newline=newline) as model:
            expected = (model.read(), model.newlines)
        # The kernel has it in its cache the second time.
        for _ in range(2):
            async with files.open(path, encoding="utf-8", newline=newline) as file:
                assert (await file.read(), file.newlines) == expected


async def test_what_the_decoder_keeps_back_is_not_lost(path: Path) -> None:
    path.write_bytes(b"a" * 8191 + b"\rb")
    async with files.open(path, encoding="utf-8") as file:
        assert await file.read(8191) == "a" * 8191
        assert await file.read() == "\nb"


async def test_a_carriage_return_ends_a_buffered_line(path: Path) -> None:
    async with files.open(path, "w", 1, encoding="utf-8") as file:
        await file.write("line\r")
        assert path.read_bytes() == b"line\r"


async def test_a_write_goes_where_buffer_has_read_to(path: Path) -> None:
    contents = []
    path.write_bytes(b"one\ntwo\nthree\n")
    model: Any
    with open(path, "r+", encoding="utf-8") as model:
        model.buffer.readline()
        model.write("TWO")
    contents.append(path.read_bytes())
    path.write_bytes(b"one\ntwo\nthree\n")
    async with files.open(path, "r+", encoding="utf-8") as file:
        await file.buffer.readline()
        await file.write("TWO")
    contents.append(path.read_bytes())
    assert contents == [b"one\nTWO\nthree\n"] * 2


async def test_an_encoding_error_writes_nothing(path: Path) -> None:
    async with files.open(path, "w", encoding="ascii") as file:
        await file.write("fine ")
        with pytest.raises(UnicodeEncodeError):
            await file.write("naïve")
        with pytest.raises(TypeError, match="must be str, not bytes"):
            await file.write(b"x")  # type: ignore[arg-type]
        await file.writelines(["a", "b"])
    assert path.read_bytes() == b"fine ab"


async def test_wrong_directions_and_places(path: Path) -> None:
    async with files.open(path, "w") as file:
        for name in ("read", "readline", "readlines"):
            with pytest.raises(io.UnsupportedOperation, match="not readable"):
                await getattr(file, name)()
        with pytest.raises(io.UnsupportedOperation, match="not readable"):
            async for _ in file:
                pass
        with pytest.raises(io.UnsupportedOperation, match="can't do nonzero cur-relative seeks"):
            await file.seek(1, os.SEEK_CUR)
        with pytest.raises(io.UnsupportedOperation, match="can't do nonzero end-relative seeks"):
            await file.seek(1, os.SEEK_END)
        with pytest.raises(ValueError, match="invalid whence"):
            await file.seek(0, 9)
        with pytest.raises(ValueError, match="negative seek position -1"):
            await file.seek(-1)
    async with files.open(path) as file:
        with pytest.raises(io.UnsupportedOperation, match="not writable"):
            await file.write("x")
        with pytest.raises(io.UnsupportedOperation, match="truncate"):
            await file.truncate()
    source, sink = os.pipe()
    os.close(sink)
    async with files.open(source) as file:
        with pytest.raises(io.UnsupportedOperation, match="underlying stream is not seekable"):
            await file.tell()
        with pytest.raises(io.UnsupportedOperation, match="underlying stream is not seekable"):
            await file.seek(0)
        assert await file.read() == ""


@pytest.mark.parametrize("text", ["€" + 30_000 * "a", 8191 * "a" + "€" + 30_000 * "b", 30_000 * "a", 9_000 * "é"])
@pytest.mark.parametrize("seeks", [False, True])
async def test_truncate_at_the_place_of_open(path: Path, tmp_path: Path, text: str, seeks: bool) -> None:
    """That is where the last chunk ends, whose size io estimates from the chunk before."""
    model_path = tmp_path / "model"
    for place in (path, model_path):
        place.write_text(text, encoding="utf-8")
    with open(model_path, "r+", encoding="utf-8") as model:
        async with files.open(path, "r+", encoding="utf-8") as file:
            if seeks:
                assert model.read(18) == await file.read(18)
                assert model.seek(0, os.SEEK_CUR) == await file.seek(0, os.SEEK_CUR)
            assert model.read(8193) == await file.read(8193)
            assert model.truncate() == await file.truncate()


async def test_a_closed_file_says_so(path: Path) -> None:
    file: Any = await files.open(path, "w+")
    await file.write("x")
    await file.close()
    await file.close()
    calls: dict[str, tuple[Any, ...]] = {"write": ("x",), "writelines": (["x"],), "seek": (0,)}
    for name in ("read", "readline", "readlines", "tell", "truncate", "flush", "fsync", "fdatasync", *calls):
        with pytest.raises(ValueError, match="I/O operation on closed file"):
            await getattr(file, name)(*calls.get(name, ()))
    lines = None
    with pytest.raises(ValueError, match="I/O operation on closed file"):
        lines = aiter(file)
    assert lines is None


async def test_iteration_ends_with_the_file(path: Path) -> None:
    path.write_text("a\nb\n")
    file = await files.open(path)
    lines = aiter(file)
    assert await anext(lines) == "a\n"
    await file.close()
    with pytest.raises(ValueError, match="I/O operation on closed file"):
        await anext(lines)


async def test_a_full_disk_is_told() -> None:
    file = await files.open("/dev/full", "w")
    await file.write("x" * 100)
    for call in (file.flush, file.flush, lambda: file.write("y" * 1_000_000), file.close):
        with pytest.raises(OSError, match="No space left"):
            await call()
    assert file.closed


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize("newline", [None, "", "\n", "\r", "\r\n"])
async def test_line_ends_of_a_long_text(path: Path, newline: str | None, end: str) -> None:
    path.write_bytes(f"a{end}b".encode() * 50_000)
    with open(path, encoding="utf-8", newline=newline) as blocking:
        expected = blocking.read()
        assert await files.read_text(path, "utf-8", newline=newline) == expected
        async with files.open(path, encoding="utf-8", newline=newline) as file:
            assert await file.read() == expected
            assert file.newlines == blocking.newlines
