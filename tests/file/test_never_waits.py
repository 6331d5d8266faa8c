"""Files that are in the cache, or in memory, hold the loop for a small part of a tick; the others have their turns.

Asserted are counts and medians of processor time, and bounds well below what holding the loop would take.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from time import process_time, thread_time
from typing import Any

import pytest

from oneloop import files
from tests.conftest import Reported
from tests.file.conftest import ENGINES
from tests.file.turns import Turns, compute, measured

pytestmark = [
    pytest.mark.usefixtures("loop"),
    pytest.mark.engines_only("the stand-in has no budget"),
]

# -- the program computes between lines ------------------------------------------------------------------

COMPUTE_S = 20e-6
LINES = [f"line {number:6} {'x' * 40}\n" for number in range(19_000)]
TEXT = "".join(LINES)
# The design: 0.4 ms of a tick. Between two looks at the clock, and where processors are shared, it may be more.
GAP_S = 0.003
TYPICAL_S = 0.002

Use = Callable[[Path, str], Coroutine[Any, Any, int]]


def as_mode(text: str, mode: str) -> Any:
    return text.encode() if "b" in mode else text


async def lines_iterated(path: Path, mode: str) -> int:
    count = 0
    async with files.open(path, mode) as file:
        async for _ in file:
            count += 1
            compute(COMPUTE_S)
    return count


async def lines_read(path: Path, mode: str) -> int:
    count = 0
    async with files.open(path, mode) as file:
        while await file.readline():
            count += 1
            compute(COMPUTE_S)
    return count


async def pieces_read(path: Path, mode: str) -> int:
    count = 0
    async with files.open(path, mode) as file:
        while await file.read(len(LINES[0])):
            count += 1
            compute(COMPUTE_S)
    return count


async def lines_written(path: Path, mode: str) -> int:
    """Into a buffer that has room for all of them."""
    async with files.open(path, mode.replace("r", "w"), buffering=4 * len(TEXT)) as file:
        for line in LINES:
            await file.write(as_mode(line, mode))
            compute(COMPUTE_S)
    assert path.read_text() == TEXT
    return len(LINES)


async def all_lines_read(path: Path, mode: str) -> int:
    count = 0
    async with files.open(path, mode) as file:
        for _ in range(20):
            await file.seek(0)
            count = len(await file.readlines())
    return count


async def all_lines_written(path: Path, mode: str) -> int:
    lines = [as_mode(line, mode) for line in LINES]
    await asyncio.sleep(0)
    async with files.open(path, mode.replace("r", "w"), buffering=40 * len(TEXT)) as file:
        for _ in range(20):
            await file.writelines(lines)
    assert path.read_text() == TEXT * 20
    return len(LINES)


USES: list[Use] = [lines_iterated, lines_read, pieces_read, lines_written, all_lines_read, all_lines_written]


@pytest.mark.parametrize("mode", ["r", "rb"])
@pytest.mark.parametrize("use", USES)
@measured
async def test_the_others_have_turns(path: Path, use: Use, mode: str) -> None:
    path.write_text(TEXT)
    turns = Turns()
    assert await turns.beside(use(path, mode)) == len(LINES)
    turns.check(GAP_S, TYPICAL_S)


@measured
async def test_the_others_have_turns_beside_pread(path: Path) -> None:
    path.write_text(TEXT)
    size = len(LINES[0])

    async def lines_read_at_offsets() -> list[bytes]:
        lines = []
        async with files.open(path, "rb") as file:
            for number in range(len(LINES)):
                lines.append(await file.pread(size, number * size))
                compute(COMPUTE_S)
        return lines

    turns = Turns()
    assert b"".join(await turns.beside(lines_read_at_offsets())) == TEXT.encode()
    turns.check(GAP_S, TYPICAL_S)


@measured
async def test_the_others_have_turns_beside_many_files(path: Path) -> None:
    """Each by itself is too short to be noticed."""
    path.write_text(TEXT)

    async def lines_of_many() -> int:
        counts = await asyncio.gather(*(lines_iterated(path, "r") for _ in range(4)))
        return sum(counts)

    turns = Turns()
    assert await turns.beside(lines_of_many()) == 4 * len(LINES)
    turns.check(GAP_S, TYPICAL_S)


@measured
async def test_the_others_have_turns_beside_whole_files(path: Path) -> None:
    path.write_bytes(b"x" * 4000)

    async def whole_read() -> None:
        for _ in range(10_000):
            assert len(await files.read_file(path)) == 4000
            compute(COMPUTE_S)

    turns = Turns()
    await turns.beside(whole_read())
    turns.check(GAP_S, TYPICAL_S)


# -- calls that need no waiting ---------------------------------------------------------------------------

CALLS = 2000

CALLED: dict[str, Callable[[files.BinaryFile], Coroutine[Any, Any, object]]] = {
    "tell": lambda file: file.tell(),
    "seek": lambda file: file.seek(10),
    "flush": lambda file: file.flush(),
    "peek": lambda file: file.peek(10),
    "read1": lambda file: file.read1(10),
    "readinto": lambda file: file.readinto(bytearray(10)),
    "readline-limited": lambda file: file.readline(10),
    "stat": lambda file: files.stat(file.name),
    "exists": lambda file: files.exists(file.name),
    "getsize": lambda file: files.getsize(file.name),
}


@pytest.mark.parametrize("call", CALLED.values(), ids=CALLED)
@measured
async def test_the_others_have_turns_beside_calls(path: Path, call: Any) -> None:
    path.write_text(TEXT)

    async def called() -> None:
        async with files.open(path, "r+b") as file:
            for _ in range(CALLS):
                await call(file)
                compute(10 * COMPUTE_S)

    turns = Turns()
    await turns.beside(called())
    turns.check(2 * GAP_S, 2 * TYPICAL_S)


@measured
async def test_the_others_have_turns_beside_opening(path: Path) -> None:
    path.write_text(TEXT)

    async def opened() -> None:
        for _ in range(CALLS):
            async with files.open(path, "rb"):
                compute(10 * COMPUTE_S)

    turns = Turns()
    await turns.beside(opened())
    turns.check(2 * GAP_S, 2 * TYPICAL_S)


# -- long contents ----------------------------------------------------------------------------------------

HELD_S = 0.060
"""No gap may be so long. In one go on the loop, each of what follows takes 60 to 300 ms."""
SHARE = 0.2
"""Of the processor time: two threads that never wait for each other have half each."""


@measured
async def test_a_long_line_of_bytes(path: Path) -> None:
    content = b"x" * 80_000_000
    path.write_bytes(content)
    async with files.open(path, "rb") as file:
        turns = Turns()
        result = await turns.beside(file.readline())
        assert result == content
    turns.check_aside(HELD_S, SHARE)


async def test_more_buffers_than_one_call_takes(path: Path) -> None:
    pieces = [b"%05d" % number for number in range(3000)]
    async with files.open(path, "w+b") as file:
        assert await file.writev(pieces) == 15_000
        assert await file.writev(pieces, 15_000) == 15_000
        assert await file.pread(30_000, 0) == b"".join(pieces) * 2
        buffers = [bytearray(5) for _ in pieces]
        assert await file.readv(buffers, 15_000) == 15_000
        assert buffers == pieces


@measured
async def test_a_full_buffer_is_written(path: Path) -> None:
    content = b"x" * 160_000_000
    async with files.open(path, "wb", buffering=len(content) + 80) as file:
        for start in range(0, len(content), 160_000):
            await file.write(content[start : start + 160_000])
            await asyncio.sleep(0)
        turns = Turns()
        await turns.beside(file.flush())
    assert path.stat().st_size == len(content)
    turns.check_aside(HELD_S, SHARE)


# -- long texts --------------------------------------------------------------------------------------------

LONG_BYTES = 50_000_000

ASCII = "plain ascii text of a line\n"
LATIN = "plöin ascii text öf a line\n"
MIXED = "ein größerer Text, 日本語 und \U0001f600 darin\n"

CODINGS = {
    "ascii": (ASCII, "utf-8"),
    "latin-as-utf-8": (LATIN, "utf-8"),
    "mixed-as-utf-8": (MIXED, "utf-8"),
    "crlf-as-utf-8": (MIXED.replace("\n", "\r\n"), "utf-8"),
    "mixed-as-utf-16": (MIXED, "utf-16"),
    "latin-1": (LATIN, "latin-1"),
    "crlf-as-latin-1": (LATIN.replace("\n", "\r\n"), "latin-1"),
}
# Coding knows no engine: all of the cases on one, one of them on all.
ON_ENGINES = [
    *((engine, "mixed-as-utf-8") for engine in ENGINES),
    *((ENGINES[-1], name) for name in CODINGS if name != "mixed-as-utf-8"),
]
on_engines = pytest.mark.parametrize(("engine", "coding"), ON_ENGINES, indirect=["engine"])


def long_text(name: str) -> tuple[str, str]:
    line, encoding = CODINGS[name]
    return line * (LONG_BYTES // len(line.encode(encoding))), encoding


async def opened_and_read(path: Path, **arguments: Any) -> str:
    async with files.open(path, **arguments) as file:
        content = await file.read()
    assert isinstance(content, str)
    return content


async def opened_and_written(path: Path, text: str, **arguments: Any) -> None:
    async with files.open(path, "w", **arguments) as file:
        assert await file.write(text) == len(text)


@on_engines
@pytest.mark.parametrize("read", [files.read_text, opened_and_read])
@measured
async def test_a_long_text_is_read(path: Path, coding: str, read: Any) -> None:
    text, encoding = long_text(coding)
    path.write_bytes(text.encode(encoding))
    turns = Turns()
    result = await turns.beside(read(path, encoding=encoding))
    assert result == text.replace("\r\n", "\n")
    turns.check_aside(HELD_S, SHARE)


@on_engines
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("is_opened", [False, True], ids=["write_text", "open-write"])
@measured
async def test_a_long_text_is_written(path: Path, coding: str, newline: str, is_opened: bool) -> None:
    text, encoding = long_text(coding)
    turns = Turns()
    if is_opened:
        await turns.beside(opened_and_written(path, text, encoding=encoding, newline=newline))
    else:
        await turns.beside(files.write_text(path, text, encoding, newline=newline))
    assert path.read_bytes() == text.replace("\n", newline).encode(encoding)
    turns.check_aside(HELD_S, SHARE)


@pytest.mark.parametrize("engine", ENGINES[-1:], indirect=True)
@pytest.mark.parametrize("read", [files.read_text, opened_and_read])
@measured
async def test_a_long_text_is_wrong_at_its_end(path: Path, read: Any) -> None:
    text, encoding = long_text("mixed-as-utf-8")
    path.write_bytes(text.encode() + b"\xff")
    turns = Turns()
    with pytest.raises(UnicodeDecodeError) as caught:
        await turns.beside(read(path, encoding=encoding))
    assert caught.value.start == len(text.encode())
    turns.check_aside(HELD_S, SHARE)


@pytest.mark.parametrize("engine", ENGINES[-1:], indirect=True)
@pytest.mark.parametrize("is_opened", [False, True], ids=["write_text", "open-write"])
@measured
async def test_a_long_text_cannot_be_encoded_at_its_end(path: Path, is_opened: bool) -> None:
    text = LATIN * (LONG_BYTES // len(LATIN)) + "日"
    path.write_bytes(b"as before")
    turns = Turns()
    with pytest.raises(UnicodeEncodeError) as caught:
        if is_opened:
            async with files.open(path, "a", encoding="latin-1") as file:
                await turns.beside(file.write(text))
        else:
            await turns.beside(files.write_text(path, text, "latin-1"))
    assert (caught.value.start, caught.value.object == text) == (len(text) - 1, True)
    assert path.read_bytes() == b"as before"
    turns.check_aside(HELD_S, SHARE)


# -- the same as open() says it ---------------------------------------------------------------------------

SHORT = MIXED.replace("\n", "\r\n").encode() * 6000
"""More than is decoded at once, with line ends and characters across the borders of pieces."""


def outcome_of(path: Path, **arguments: Any) -> tuple[Any, ...]:
    try:
        with open(path, **arguments) as file:
            return ("text", file.read())
    except UnicodeError as error:
        return outcome_of_error(error)


def outcome_of_error(error: UnicodeError) -> tuple[Any, ...]:
    if not isinstance(error, UnicodeDecodeError):
        # Of UTF-16 without its mark, on some versions of Python.
        return type(error), str(error)
    return error.encoding, len(error.object), error.start, error.end, error.reason, str(error)


WRONG = {
    "right": SHORT,
    "at-the-beginning": b"\xff" + SHORT,
    "in-the-middle": SHORT[:200_000] + b"\xc3(" + SHORT[200_000:],
    "at-the-end": SHORT + b"\x80",
    "incomplete": SHORT + "\U0001f600".encode()[:3],
    "half-a-line-end": SHORT + b"\r",
    "lone-carriage-returns": SHORT.replace(b"\r\n", b"\r"),
    "line-ends-across-pieces": (b"x" * 65_535 + b"\r\n") * 5,
    "nulls": b"\0" * 300_000,
    "surrogate": SHORT + b"\xed\xa0\x80" + SHORT,
    "mark": b"\xef\xbb\xbf" + SHORT,
}
ENCODINGS = ["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "utf-32", "cp1252", "ascii", "utf-7", "gb18030"]


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
async def test_what_open_says(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for encoding in ENCODINGS:
        for newline in (None, "", "\n", "\r\n", "\r"):
            for errors in ("strict", "replace"):
                arguments: dict[str, Any] = {"encoding": encoding, "newline": newline, "errors": errors}
                expected = outcome_of(path, **arguments)
                for read in (files.read_text, opened_and_read):
                    try:
                        found = "text", await read(path, **arguments)
                    except UnicodeError as error:
                        found = outcome_of_error(error)  # type: ignore[assignment]
                    assert found == expected, (arguments, read)


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
async def test_what_open_says_after_a_part(path: Path, content: bytes) -> None:
    """The rest of a file, of which some was read and decoded already."""
    path.write_bytes(content)
    for encoding in ("utf-8", "latin-1", "utf-16"):
        for newline in (None, "", "\r\n"):
            for size in (1, 5000):
                arguments: Any = {"encoding": encoding, "newline": newline}
                with open(path, **arguments) as blocking:
                    expected = parts_of(blocking, size)
                async with files.open(path, **arguments) as file:
                    found: list[Any] = []
                    try:
                        found.append(await file.read(size))
                        found.append(await file.read())
                        found.append(file.newlines)
                    except UnicodeError as error:
                        found.append(said(error))
                assert found == expected, (arguments, size)


def parts_of(file: Any, size: int) -> list[Any]:
    parts: list[Any] = []
    try:
        parts.append(file.read(size))
        parts.append(file.read())
        parts.append(file.newlines)
    except UnicodeError as error:
        parts.append(said(error))
    return parts


def said(error: UnicodeError) -> tuple[str, ...]:
    """What is wrong, and with which bytes."""
    if not isinstance(error, UnicodeDecodeError):
        return (str(error),)
    return error.reason, str(error.object[error.start : error.end])


# -- the last close of a large file -----------------------------------------------------------------------

LARGE_BYTES = 1 << 30
CLOSE_S = 0.020
"""Of which half a file's close must take for the test to tell anything."""


def make_large(path: Path) -> None:
    piece = bytes(1 << 22)
    with path.open("wb", buffering=0) as file:
        for _ in range(LARGE_BYTES // len(piece)):
            file.write(piece)


def close_blocking(path: Path) -> float:
    make_large(path)
    number = os.open(path, os.O_RDONLY)
    path.unlink()
    began_s = thread_time()
    os.close(number)
    return thread_time() - began_s


@pytest.mark.parametrize("way", ["close", "close-after-write", "left-open"])
@pytest.mark.time_limit(180)
async def test_the_last_close_of_a_large_file(path: Path, way: str, reported: Reported) -> None:
    """The kernel frees what was in it, which takes its time."""
    space = os.statvfs(path.parent)
    if space.f_bavail * space.f_frsize < 4 * LARGE_BYTES:
        pytest.skip("no room for a large file")
    blocking_s = close_blocking(path)
    if blocking_s < CLOSE_S:
        pytest.skip(f"closing a large file takes {blocking_s * 1e3:.1f} ms here")
    make_large(path)
    file: Any = await files.open(path, "rb" if way == "close" else "r+b")
    path.unlink()
    turns = Turns()

    async def ended() -> None:
        nonlocal file
        before_s = process_time() - thread_time()
        if way == "close-after-write":
            await file.write(b"new")
        if way == "left-open":
            with pytest.warns(ResourceWarning, match="unclosed"):
                file = None
        else:
            await file.close()
        # Until another thread has done it, or the limit of time of the test.
        while process_time() - thread_time() - before_s < blocking_s / 3:
            await asyncio.sleep(0.001)

    await turns.beside(ended())
    assert max(turns.gaps_s) < blocking_s / 2, f"{turns}; closing takes {blocking_s:.3f} s"
