"""Files against blocking `open()` as the model: random operations on both must give the same, and leave the same bytes.

Short transfers are forced at random, so that every loop that resumes one is walked.
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import oneloop
from oneloop import files
from tests.file.conftest import ENGINES, use_engine

SIZES = st.one_of(st.integers(0, 20), st.sampled_from([-1, 63, 64, 65, 1000, 8191, 8192, 8193, 20000]))
OFFSETS = st.one_of(st.integers(0, 80), st.sampled_from([8192, 10000, 30000]))
MODES = ["r", "r+", "w", "w+", "a", "a+", "x"]

PIECES = st.sampled_from(
    [b"a", b"bc\n", b"\n", b"\r", b"\r\n", b"\xc3\xa9", b"0123456789" * 7, b"x" * 5000, b"y" * 9000]
)
CONTENT = st.lists(PIECES, max_size=12).map(b"".join)
TEXTS = st.sampled_from(["a", "bc\n", "\n", "\r", "\r\n", "é", "€\n", "𐍈", "0123456789" * 7, "x\n" * 2500, "é" * 9000])
TEXT = st.lists(TEXTS, max_size=8).map("".join)

BINARY_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["read", "read1", "readline", "readlines", "readinto", "peek"]), SIZES),
        st.tuples(st.just("write"), CONTENT),
        st.tuples(st.just("writelines"), st.lists(PIECES, max_size=3)),
        st.tuples(st.just("seek"), OFFSETS, st.sampled_from([0, 0, 1, 2])),
        st.tuples(st.just("seek"), st.integers(-30, 30), st.sampled_from([1, 2])),
        st.tuples(st.sampled_from(["tell", "flush", "truncate", "next"])),
        st.tuples(st.just("truncate"), OFFSETS),
        st.tuples(st.just("pread"), st.integers(0, 9000), OFFSETS),
        st.tuples(st.just("pwrite"), PIECES, OFFSETS),
    ),
    max_size=20,
)
TEXT_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["read", "readline", "readlines"]), SIZES),
        st.tuples(st.just("write"), TEXT),
        st.tuples(
            st.sampled_from(["tell", "tell", "back", "back", "start", "end", "here", "flush", "truncate", "next"])
        ),
    ),
    max_size=20,
)


def outcome(call: Any) -> Any:
    try:
        return call()
    except AttributeError:
        # io's files for writing have no peek() at all.
        return io.UnsupportedOperation, None
    except (OSError, ValueError, UnicodeError) as exc:
        kind = type(exc)
        return (kind, exc.errno) if isinstance(exc, OSError) else kind


async def outcome_of(call: Any) -> Any:
    try:
        return await call()
    except (OSError, ValueError, UnicodeError) as exc:
        kind = type(exc)
        return (kind, exc.errno) if isinstance(exc, OSError) else kind


class Model:
    """Blocking `open()`, with what ours has besides."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def step(self, name: str, *arguments: Any) -> Any:
        file = self.file
        if name == "readinto":
            buffer = bytearray(max(0, arguments[0]))
            return outcome(lambda: (file.readinto(buffer), bytes(buffer)))
        is_older = sys.version_info < (3, 13) and name.startswith(("read", "next"))
        if is_older and file.writable() and file.readable():
            # Text that was written and not yet flushed was not seen by reading.
            outcome(file.flush)
        if name == "next":
            # next() on io's text files forbids tell().
            return outcome(file.readline)
        if name == "readlines" and isinstance(file, io.TextIOBase):
            return outcome(lambda: self.readlines(*arguments))
        if name == "pread":
            outcome(file.flush)
            return outcome(lambda: os.pread(file.fileno(), *arguments)) if file.readable() else None
        if name == "pwrite":
            if not file.writable():
                return None
            # It is not for a program's eyes that what was read ahead becomes stale.
            if file.readable():
                file.seek(0, 1)
            file.flush()
            return outcome(lambda: os.pwrite(file.fileno(), *arguments))
        return outcome(lambda: getattr(file, name)(*arguments))

    def readlines(self, hint: int) -> list[str]:
        """Those of io forbid tell() afterwards."""
        lines: list[str] = []
        total = 0
        while (hint <= 0 or total <= hint) and (line := self.file.readline()):
            lines.append(line)
            total += len(line)
        return lines


async def ours(file: Any, name: str, *arguments: Any) -> Any:
    if name == "readinto":
        buffer = bytearray(max(0, arguments[0]))

        async def read() -> Any:
            return await file.readinto(buffer), bytes(buffer)

        return await outcome_of(read)
    if name == "next":

        async def following() -> Any:
            try:
                return await anext(aiter(file))
            except StopAsyncIteration:
                return "" if isinstance(file, files.TextFile) else b""

        return await outcome_of(following)
    if name in ("pread", "pwrite") and not (file.readable() if name == "pread" else file.writable()):
        if name == "pread":
            await outcome_of(file.flush)
        return None
    return await outcome_of(lambda: getattr(file, name)(*arguments))


def compare(name: str, model: Any, mine: Any) -> bool:
    """What ours may do differently: it may have more ahead, and asks for the mode even when nothing is to be done."""
    if mine == (io.UnsupportedOperation, None) and not model:
        return True
    if name in ("peek", "read1") and isinstance(model, bytes) and isinstance(mine, bytes):
        shorter = min(len(model), len(mine))
        return model[:shorter] == mine[:shorter] and bool(model) == bool(mine)
    return bool(model == mine)


def run(loop: Any, engine: str, coroutine: Any, limit: int | None) -> None:
    if engine == "mixed":
        loop._files.limit_bytes = limit
    loop.run_until_complete(asyncio.wait_for(coroutine, 100))


@pytest.fixture(params=[*ENGINES, "mixed"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def loop(engine: str) -> Any:
    made = oneloop.new_event_loop()
    use_engine(made, engine)
    yield made
    made.close()


BOUNDS = settings(
    max_examples=150,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def folder() -> Any:
    with tempfile.TemporaryDirectory() as made:
        yield made


def prepare(folder: str, mode: str, content: bytes) -> tuple[str, str]:
    paths = (os.path.join(folder, "model"), os.path.join(folder, "ours"))
    for path in paths:
        if mode.startswith("x"):
            if os.path.exists(path):
                os.unlink(path)
        else:
            with open(path, "wb") as file:
                file.write(content)
    return paths


def content_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_binary_files_do_what_open_does(loop: Any, engine: str, folder: str) -> None:
    @BOUNDS
    @given(
        st.sampled_from(MODES),
        CONTENT,
        BINARY_STEPS,
        st.sampled_from([-1, -1, 0, 2, 16, 100]),
        st.sampled_from([None, None, 7, 61, 5000]),
    )
    def holds(mode: str, content: bytes, steps: list[Any], buffering: int, limit: int | None) -> None:
        if buffering == 0:
            limit = None
        theirs, mine = prepare(folder, mode, content)

        async def play() -> None:
            with open(theirs, mode + "b", buffering) as model_file:
                model = Model(model_file)
                async with files.open(mine, mode + "b", buffering) as file:
                    for number, (name, *arguments) in enumerate(steps):
                        if buffering == 0 and name in ("read1", "peek"):
                            continue
                        expected = model.step(name, *arguments)
                        got = await ours(file, name, *arguments)
                        assert compare(name, expected, got), (number, name, arguments, expected, got)
                        if name == "read1" and model_file.seekable() and isinstance(expected, bytes):
                            model_file.seek(await file.tell())
                        if name in ("flush", "truncate"):
                            assert content_of(theirs) == content_of(mine)
                        assert model_file.tell() == await file.tell(), (number, name, arguments)
            assert content_of(theirs) == content_of(mine)

        run(loop, engine, play(), limit)

    holds()


ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "ascii", "utf-7", "shift_jis", "cp1252"]


def test_text_files_do_what_open_does(loop: Any, engine: str, folder: str) -> None:
    @BOUNDS
    @given(
        st.sampled_from(MODES),
        TEXT,
        TEXT_STEPS,
        st.sampled_from(ENCODINGS),
        st.sampled_from(["strict", "replace", "surrogateescape", "ignore"]),
        st.sampled_from([None, None, "", "\n", "\r", "\r\n"]),
        st.sampled_from([-1, -1, 1, 2, 100]),
        st.sampled_from([None, None, 7, 61, 5000]),
    )
    def holds(
        mode: str,
        text: str,
        steps: list[Any],
        encoding: str,
        errors: str,
        newline: str | None,
        buffering: int,
        limit: int | None,
    ) -> None:
        content = text.encode(encoding, "replace")
        theirs, mine = prepare(folder, mode, content)
        style = {"encoding": encoding, "errors": errors, "newline": newline}

        async def play() -> None:
            places: list[tuple[int, int]] = [(0, 0)]
            with open(theirs, mode, buffering, **style) as model:
                async with files.open(mine, mode, buffering, **style) as file:
                    for number, (name, *arguments) in enumerate(steps):
                        if name == "tell":
                            expected = outcome(model.tell)
                            got = await outcome_of(file.tell)
                            if isinstance(expected, int):
                                assert isinstance(got, int), got
                                places.append((expected, got))
                            else:
                                assert expected == got
                            continue
                        if name == "back":
                            there, here = places[(number * 7) % len(places)]
                            expected, got = (
                                outcome(lambda there=there: model.seek(there)),
                                await outcome_of(lambda here=here: file.seek(here)),
                            )
                            assert isinstance(expected, int) == isinstance(got, int), (number, expected, got)
                            continue
                        if name in ("start", "end", "here"):
                            whence = ["start", "here", "end"].index(name)
                            expected = outcome(lambda whence=whence: model.seek(0, whence))
                            got = await outcome_of(lambda whence=whence: file.seek(0, whence))
                            assert isinstance(expected, int) == isinstance(got, int), (number, expected, got)
                            continue
                        expected = Model(model).step(name, *arguments)
                        got = await ours(file, name, *arguments)
                        assert expected == got, (number, name, arguments, expected, got)
                        if expected is UnicodeDecodeError:
                            return
                        # tell() makes io's files forget the line ends that they have seen; and they read less ahead.
                        is_ahead = limit is not None or len(places) > 1 or len(content) > io.DEFAULT_BUFFER_SIZE
                        assert is_ahead or model.newlines == file.newlines
            assert content_of(theirs) == content_of(mine)

        run(loop, engine, play(), limit)

    holds()


BAD = st.sampled_from([b"ok\n", b"\xff", b"x" * 8190, b"a long line\n" * 1000, b"\xc3", b"\xe2\x82"])


def test_wrong_bytes_are_told_where_open_tells_them(loop: Any, engine: str, folder: str) -> None:
    @settings(BOUNDS, max_examples=30)
    @given(st.lists(BAD, max_size=6).map(b"".join), st.booleans())
    def holds(content: bytes, by_line: bool) -> None:
        theirs, mine = prepare(folder, "r", content)

        async def play() -> None:
            with open(theirs, encoding="utf-8") as model:
                async with files.open(mine, encoding="utf-8") as file:
                    lines = aiter(file)
                    for _ in range(4000):
                        expected = outcome(model.readline)
                        got = await outcome_of((lambda: anext(lines, "")) if by_line else file.readline)
                        assert expected == got
                        # What comes after wrong bytes is nobody's promise: io loses the beginning of the line.
                        if not expected or expected is UnicodeDecodeError:
                            break

        run(loop, engine, play(), None)

    holds()
