"""What is cancelled has happened as a whole or not at all, and who comes next finds the file as it then is."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from oneloop import _native, files
from tests import programs
from tests.conftest import cancelled

pytestmark = pytest.mark.usefixtures("loop")

LONG = 1_000_000
STEPS = range(12)


@pytest.mark.engines_only("the stand-in has neither budget nor threads")
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_a_long_text_is_written_whole_or_not_at_all(path: Path, encoding: str, steps: int) -> None:
    async with files.open(path, "w", encoding=encoding) as file:
        await cancelled(file.write("a" * LONG), steps)
        await file.write("b")
    assert path.read_text(encoding) in ("b", "a" * LONG + "b")
    assert path.read_bytes()[:2] == "ab".encode(encoding)[:2] or encoding == "utf-8"


@pytest.mark.engines_only("the stand-in has neither budget nor threads")
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "gb18030"])
async def test_a_long_text_that_was_not_read_is_read_again(path: Path, encoding: str, steps: int) -> None:
    text = "a漢字\n" * (LONG // 4)
    path.write_text(text, encoding)
    async with files.open(path, encoding=encoding) as file:
        await cancelled(file.read(), steps)
        assert await file.read() in (text, "")


@pytest.mark.engines_only("the stand-in has neither budget nor threads")
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize(("mode", "buffering"), [("r", -1), ("rb", -1), ("rb", 0)])
async def test_lines_that_were_not_read_are_read_again(path: Path, mode: str, buffering: int, steps: int) -> None:
    path.write_text("".join(f"{number:06}\n" for number in range(20_000)))
    async with files.open(path, mode, buffering) as file:
        was_cancelled = (await cancelled(file.readlines(), steps)).cancelled()
        if was_cancelled:
            position: int | str
            try:
                position = await file.tell()
            except OSError as error:
                position = str(error)
            assert position == 0 or "after an interrupted readlines()" in str(position)
        line = await file.readline()
        assert line in ((b"000000\n", "000000\n") if was_cancelled else (b"", ""))


@pytest.mark.engines_only("the stand-in has neither budget nor threads")
@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_number_that_is_asked_for_while_a_flush_is_under_way(path: Path, is_cancelled: bool) -> None:
    size = 8 << 20
    async with files.open(path, "wb", buffering=2 * size) as file:
        await file.write(b"A" * size)
        flushing = asyncio.ensure_future(file.flush())
        await asyncio.sleep(0)
        if is_cancelled:
            flushing.cancel()
            await asyncio.wait([flushing])
        number = file.fileno()
        if is_cancelled:
            await file.write(b"B" * 10)
            await file.flush()
        else:
            await flushing
            os.write(number, b"B" * 10)
    assert path.read_bytes() == b"A" * size + b"B" * 10


@pytest.mark.engines_only("the stand-in has neither budget nor threads")
async def test_a_flush_that_is_dropped_in_the_middle_gives_the_turn_back(path: Path) -> None:
    async with files.open(path, "wb", buffering=1 << 24) as file:
        await file.write(b"x" * (6 << 20))
        operation = file.flush()
        operation.send(None)
        del operation
        gc.collect()
        await asyncio.wait_for(file.write(b"y"), 60)
    assert path.read_bytes() == b"x" * (6 << 20) + b"y"


@pytest.mark.parametrize("call", ["read", "flush"])
async def test_what_is_cancelled_before_it_begins_warns_of_nothing(path: Path, call: str) -> None:
    path.write_bytes(b"x")
    async with files.open(path, "r+b") as file:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            await cancelled(getattr(file, call)(timeout=5), 0)
            gc.collect()


async def test_what_nobody_awaits_is_told_and_does_nothing(path: Path) -> None:
    path.write_bytes(b"one\ntwo\n")
    async with files.open(path, "r+b") as file:
        await file.peek()
        with pytest.warns(RuntimeWarning, match=r"coroutine 'BinaryFile\.readline' was never awaited"):
            # Nothing keeps it.
            file.readline()  # type: ignore[unused-coroutine]
        operation = file.readline()
        assert asyncio.iscoroutine(operation)
        assert await operation == b"one\n"
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            await operation
        closed = file.readline()
        closed.close()
        assert await asyncio.create_task(file.readline()) == b"two\n"


@pytest.mark.parametrize("mode", ["rb", "r"])
@pytest.mark.parametrize("is_read_ahead", [False, True])
async def test_no_line_is_lost_with_an_awaitable_of_it(path: Path, mode: str, is_read_ahead: bool) -> None:
    path.write_bytes(b"one\ntwo\nthree\n")
    async with files.open(path, mode) as file:
        lines: Any = aiter(file)
        found = [await anext(lines)] if is_read_ahead else []

        async def next_line() -> Any:
            return await anext(lines)

        # One that nobody awaits; one whose task never began, made of the awaitable itself, and of a coroutine.
        unawaited = lines.__anext__()
        del unawaited
        for awaitable in (lines.__anext__, next_line):
            await cancelled(awaitable(), 0)
        found += await asyncio.gather(lines.__anext__(), next_line())
        found += [line async for line in lines]
        assert b"".join(line if isinstance(line, bytes) else line.encode() for line in found) == path.read_bytes()


@pytest.mark.engines_only("the stand-in waits for nothing")
async def test_lines_that_wait(path: Path) -> None:
    """Of a pipe: one await waits, others beside it wait on their own, and one of them is cancelled."""
    os.mkfifo(path)
    async with files.open(path, "r+b", buffering=0) as writer, files.open(path, "rb") as reader:
        lines: Any = aiter(reader)
        first = asyncio.ensure_future(lines.__anext__())
        await asyncio.sleep(0.01)
        second = asyncio.ensure_future(lines.__anext__())
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.wait([first])
        await writer.write(b"one\ntwo\n")
        assert await second == b"one\n"
        assert await anext(lines) == b"two\n"


WITHOUT_THREADS = """
import resource
from oneloop import files

async def main():
    files.use_engine({engine!r})
    async with files.open({path!r}, "wb") as file:
        await file.write(b"kept")
        # Room for small objects, not for a thread's stack.
        in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + (1 << 20), resource.RLIM_INFINITY))
        try:
            await file.{call}()
        except OSError as error:
            assert "starting a thread" in str(error.__notes__), error
        else:
            raise AssertionError("a thread was started")
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert (file.handle.pending, file.handle.has_flight, file.handle.is_taken) == (4, False, False)
        assert not file.closed
    print(open({path!r}).read())

new_loop().run_until_complete(main())
"""


@pytest.mark.engines_only("the stand-in has no threads")
@pytest.mark.parametrize("call", ["flush", "close"])
def test_what_cannot_be_begun_stays_pending(engine: str, path: Path, call: str) -> None:
    """There is no thread to be had for it: what was written is kept, and goes out later."""
    body = WITHOUT_THREADS.format(engine=engine, path=str(path), call=call)
    assert programs.run_ok("oneloop", body) == "kept\n"


@pytest.mark.parametrize("mode", ["rb", "r"])
async def test_awaitables_of_lines(path: Path, mode: str) -> None:
    """The iterator is the awaitable of its next line until it is given; then others get one of their own."""
    path.write_bytes(b"one\ntwo\nthree\n")
    async with files.open(path, mode) as file:
        lines: Any = aiter(file)
        first, second = lines.__anext__(), lines.__anext__()
        assert (first is lines, second is lines) == (True, False)
        with pytest.raises(LookupError):
            first.throw(LookupError)
        # Ended before it began: it is free again, and no line went with it.
        assert lines.__anext__() is lines
        assert len(await lines) == 4
        assert len(await second) == 4
        third = lines.__anext__()
        third.close()
        assert [len(line) async for line in lines] == [6]


@pytest.mark.parametrize("mode", ["rb", "r"])
@pytest.mark.parametrize("keeps", [True, False])
async def test_exceptions_of_lines_that_are_kept(path: Path, mode: str, keeps: bool) -> None:
    """The iterator uses the exception of a line again, but not one that a program has or has changed."""
    wanted = [b"%d\n" % number for number in range(20)] + [b"x" * 5000 + b"\n"] + [b"end\n"]
    path.write_bytes(b"".join(wanted))
    kept: list[StopIteration] = []
    found = []
    async with files.open(path, mode) as file:
        lines: Any = aiter(file)
        found.append(await anext(lines))
        while len(found) < len(wanted):
            # What is in the buffer is there at once in a new tick; in this one, its time may be used up.
            await asyncio.sleep(0)
            with pytest.raises(StopIteration) as raised:
                next(lines.__anext__())
            stop = raised.value
            assert stop.args == (stop.value,)
            found.append(stop.value)
            if keeps:
                kept.append(stop)
            else:
                stop.add_note("seen")
                stop.args = ("changed", "by", "the program")
                stop.value = None
            del raised, stop
            if len(found) < len(wanted):
                found.append(await anext(lines))
    assert [line if isinstance(line, bytes) else line.encode() for line in found] == wanted
    assert [stop.value for stop in kept] == found[1::2][: len(kept)]
    assert not any(hasattr(stop, "__notes__") for stop in kept)


@pytest.mark.parametrize("mode", ["rb", "r"])
async def test_a_long_line_is_freed_when_the_program_drops_it(path: Path, mode: str) -> None:
    path.write_bytes((b"x" * 100_000 + b"\n") * 3)
    async with files.open(path, mode) as file:
        lines = aiter(file)
        for _ in range(2):
            line = await anext(lines)
            assert sys.getrefcount(line) <= 2


async def test_an_exception_in_an_await_of_a_line_that_goes_on_waiting(path: Path) -> None:
    """What the await waits for may catch it, and wait for something else."""
    path.write_bytes(b"one\n")
    caught: list[BaseException] = []

    class Stubborn:
        """In place of what gives the next line."""

        def __await__(self) -> Any:
            try:
                yield "first"
            except LookupError as error:
                caught.append(error)
                yield "second"
            return "line"

    async with files.open(path, "rb") as file:
        lines: Any = _native.Lines(Stubborn, file)  # type: ignore[arg-type]
        # All that is there is read, so that it asks for more.
        assert [line async for line in file] == [b"one\n"]
        given = lines.__anext__()
        assert given.send(None) == "first"
        assert given.throw(LookupError("told")) == "second"
        assert lines.__anext__() is not lines
        with pytest.raises(StopIteration) as ended:
            given.send(None)
        assert ended.value.value == "line"
        assert len(caught) == 1


@pytest.mark.parametrize("value", [None, (), (1, 2), ValueError("given"), b"bytes"], ids=repr)
async def test_any_value_is_returned_by_next(path: Path, value: Any) -> None:
    """Python's awaits call `next()` of a native coroutine: its StopIteration has the value, as that of a generator."""

    async def slow() -> Any:
        return value

    path.write_text("")
    async with files.open(path, "rb") as file:
        lines: Any = _native.Lines(slow, file)  # type: ignore[arg-type]
        assert await lines.__anext__() is value
        with pytest.raises(StopIteration) as ended:
            next(lines.__anext__())
        assert ended.value.value is value
        assert ended.value.args == (() if value is None else (value,))
        assert ended.value.__context__ is None
