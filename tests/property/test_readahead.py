"""The native `ReadAhead` and `Lines` do what their twins in Python do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oneloop
from oneloop import _native
from oneloop.files.readahead import ReadAhead, lines_of

BYTES = st.binary(max_size=12) | st.sampled_from([b"\n", b"\r", b"a\nb\n", b"\r\n", b"no end"])
TEXT = st.text(max_size=12) | st.sampled_from(["\n", "\r", "a\nb\n", "\r\n", "no end", "\u00e9\n", "\U0001f40d"])
STEPS = st.one_of(
    st.tuples(st.just("take"), st.integers(-1, 9)),
    st.tuples(st.just("take_line"), st.integers(-1, 9)),
    st.tuples(st.just("move"), st.integers(-9, 9)),
    st.tuples(st.sampled_from(["peek", "clear"])),
)


@pytest.mark.parametrize("newline", ["\n", "\r", b"\n", b"\r"])
def test_twins(newline: str | bytes) -> None:
    content: Any = TEXT if isinstance(newline, str) else BYTES

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.tuples(st.just("feed"), content) | STEPS, max_size=30))
    def hold(steps: list[tuple[Any, ...]]) -> None:
        native: Any = _native.ReadAhead(newline)
        twin: Any = ReadAhead(newline)
        for name, *arguments in steps:
            assert getattr(native, name)(*arguments) == getattr(twin, name)(*arguments), (name, arguments)
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


@pytest.mark.parametrize("wrong", ["", "\r\n", "x", b"xy", 5, None])
def test_other_newlines_are_for_the_twin(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        _native.ReadAhead(wrong)


def test_feeding_what_is_neither_bytes_nor_str() -> None:
    with pytest.raises(TypeError, match="bytes or str expected, got list"):
        _native.ReadAhead("\n").feed([])  # type: ignore[arg-type]


class Source:
    """Pieces, as a file would read them."""

    def __init__(self, pieces: list[str]) -> None:
        self.pieces = pieces
        self.ahead = _native.ReadAhead("\n")

    async def _next_line(self) -> str:
        while (line := self.ahead.take_line()) is None:
            if not self.pieces:
                return self.ahead.take()
            self.ahead.feed(self.pieces.pop(0))
            await asyncio.sleep(0)
        return line


def lines(pieces: list[str]) -> Any:
    source = Source(list(pieces))
    return lines_of(source, source.ahead)  # type: ignore[arg-type]


@settings(max_examples=100, deadline=None)
@given(st.lists(TEXT, max_size=10))
def test_lines_are_those_of_a_file(pieces: list[str]) -> None:
    async def main() -> list[str]:
        return [line async for line in lines(pieces)]

    text = "".join(pieces)
    *whole, rest = text.split("\n")
    assert oneloop.run(main()) == [line + "\n" for line in whole] + ([rest] if rest else [])


def test_awaitables_that_cross() -> None:
    """Each awaitable has its own line, whichever is awaited first, and only once."""

    async def main() -> None:
        there = lines(["a\nb\nc\nd\n"])
        assert await anext(there) == "a\n"
        second, third, fourth = anext(there), anext(there), anext(there)
        assert [await fourth, await second, await third] == ["d\n", "b\n", "c\n"]
        for used in (second, third):
            with pytest.raises(RuntimeError, match="already awaited line"):
                await used
        with pytest.raises(StopAsyncIteration):
            await anext(there)

    oneloop.run(main())


def test_the_exception_is_not_shared_with_who_keeps_it() -> None:
    async def main() -> None:
        there = lines(["first\na\nb\nc\n"])
        assert await anext(there) == "first\n"
        kept = []
        for _ in range(3):
            step = anext(there).__await__()
            try:
                next(step)
            except StopIteration as stop:
                kept.append(stop)
        assert [stop.value for stop in kept] == ["a\n", "b\n", "c\n"]
        assert len({id(stop) for stop in kept}) == 3

    oneloop.run(main())
