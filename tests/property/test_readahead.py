"""The native `ReadAhead` does what its twin in Python does, and lines are those of the built-in `open()`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oneloop
from oneloop import _native, files
from tests.property.readahead_twin import ReadAhead

# What is long is not joined before its line ends.
LONG = "0123456789" * 1700
BYTES = st.binary(max_size=12) | st.sampled_from([b"\n", b"\r", b"a\nb\n", b"\r\n", b"no end", LONG.encode()])
TEXT = st.text(max_size=12) | st.sampled_from(
    ["\n", "\r", "a\nb\n", "\r\n", "no end", "\u00e9\n", "\U0001f40d", "\u00e9\r", LONG, LONG + "\u00e9"]
)
STEPS = st.one_of(
    st.tuples(st.just("take"), st.integers(-1, 9)),
    st.tuples(st.just("take_line"), st.integers(-1, 9) | st.just(-1) | st.integers(30_000, 40_000)),
    st.tuples(st.just("move"), st.integers(-9, 9)),
    st.tuples(st.sampled_from(["peek", "clear"])),
)


@pytest.mark.parametrize("newline", ["\n", "\r", "\r\n", "", b"\n", b"\r", b"\r\n"])
def test_twins(newline: str | bytes) -> None:
    content: Any = TEXT if isinstance(newline, str) else BYTES

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.tuples(st.just("feed"), content) | STEPS, max_size=30))
    def hold(steps: list[tuple[Any, ...]]) -> None:
        native: Any = _native.ReadAhead(newline)
        twin: Any = ReadAhead(newline)
        for name, *arguments in steps:
            done, expected = getattr(native, name)(*arguments), getattr(twin, name)(*arguments)
            if name == "move" and arguments[0] < 0 and expected and not done:
                # What is behind is no longer there once long pieces were joined; the twin keeps all of it.
                assert twin.move(-arguments[0])
            else:
                assert done == expected, (name, arguments)
            assert native.remaining == twin.remaining

    hold()


@pytest.mark.parametrize("make", [_native.ReadAhead, ReadAhead])
@pytest.mark.parametrize("newline", ["\n", b"\n"])
def test_going_back_after_a_look_for_a_line_that_is_not_there_yet(make: Any, newline: Any) -> None:
    """What was searched in vain is searched again where the program has gone back."""

    def cast(text: str) -> Any:
        return text if isinstance(newline, str) else text.encode()

    def lines(count: int) -> list[Any]:
        return [ahead.take_line() for _ in range(count)]

    ahead = make(newline)
    ahead.feed(cast("one\ntwo\nthr"))
    assert lines(3) == [cast("one\n"), cast("two\n"), None]
    assert ahead.move(-6)
    assert lines(3) == [cast("e\n"), cast("two\n"), None]
    ahead.feed(cast("ee\n"))
    # What was taken before the feeding is gone.
    assert not ahead.move(-1)
    assert lines(2) == [cast("three\n"), None]
    assert ahead.move(-2)
    assert lines(2) == [cast("e\n"), None]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=12) | st.sampled_from([b"ab\n", b"c\r\n", b"\n"]), st.integers(-1, 9))))
def test_text_fed_as_bytes(steps: list[tuple[bytes, int]]) -> None:
    native, twin = _native.ReadAhead("\n"), ReadAhead("\n")
    for data, size in steps:
        is_plain = native.feed_ascii(data, True)
        assert not is_plain or (data.isascii() and b"\r" not in data and data)
        text = data.decode("latin-1")
        if not is_plain:
            native.feed(text)
        twin.feed(text)
        assert native.take_line(size) == twin.take_line(size)
        assert native.peek() == twin.peek()
        assert native.take(size // 2) == twin.take(size // 2)


@pytest.mark.parametrize("wrong", ["\n\r", "\n\n", "x", b"xy", 5, None])
def test_there_are_no_other_newlines(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        _native.ReadAhead(wrong)


def test_feeding_what_is_neither_bytes_nor_str() -> None:
    with pytest.raises(TypeError, match="bytes or str expected, got list"):
        _native.ReadAhead("\n").feed([])  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, max_size=10), st.sampled_from([None, "", "\n", "\r", "\r\n"]), st.integers(1, 30))
def test_lines_are_those_of_a_file(pieces: list[str], newline: str | None, buffering: int) -> None:
    async def main(path: Path) -> list[str]:
        async with files.open(path, buffering=buffering + 1, encoding="utf-8", newline=newline) as file:
            return [line async for line in file]

    with TemporaryDirectory() as folder:
        path = Path(folder, "lines")
        path.write_bytes("".join(pieces).encode())
        with open(path, encoding="utf-8", newline=newline) as blocking:
            assert oneloop.run(main(path)) == list(blocking)


def test_awaitables_that_cross(tmp_path: Path) -> None:
    """A line is taken when it is awaited, as from a generator; none twice."""
    path = tmp_path / "lines"
    path.write_text("a\nb\nc\nd\n")

    async def main() -> None:
        async with files.open(path) as file:
            there = aiter(file)
            assert await anext(there) == "a\n"
            second, third, fourth = anext(there), anext(there), anext(there)
            assert [await fourth, await second, await third] == ["b\n", "c\n", "d\n"]
            for used in (third, fourth):
                with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
                    await used
            with pytest.raises(StopAsyncIteration):
                await anext(there)

    oneloop.run(main())
