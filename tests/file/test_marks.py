"""Byte order marks: where blocking `open()` writes and expects them, after reads, seeks and writes in any order."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oneloop import files

ENCODINGS = ["utf-16", "utf-32", "utf-8-sig", "utf-16-le", "utf-8"]
STEPS: list[tuple[Any, ...]] = [
    ("read",),
    ("read", 1),
    ("readline",),
    ("write", "hi"),
    ("write", ""),
    ("write", "q\n"),
    ("seek", 0),
    ("seek", 0, 1),
    ("seek", 0, 2),
    ("tell",),
    ("flush",),
    ("truncate",),
    ("truncate", 0),
]
# What went wrong once: encoding, mode, content, steps.
FOUND: list[tuple[str, str, str, list[tuple[Any, ...]]]] = [
    ("utf-16", "w+", "", [("readline",), ("seek", 0, 1), ("write", ""), ("tell",)]),
    ("utf-32", "w+", "", [("readline",), ("seek", 0, 1), ("write", "hi"), ("tell",)]),
    ("utf-8-sig", "w+", "", [("read", 1), ("readline",), ("seek", 0, 1), ("readline",), ("write", "q\n")]),
    ("utf-16", "r+", "line\n", [("write", ""), ("seek", 0, 1), ("flush",), ("read",)]),
    ("utf-32", "r+", "line\n", [("write", "q\n"), ("tell",), ("seek", 0, 1), ("read",)]),
    ("utf-16", "a+", "line\n", [("seek", 0), ("read",), ("write", "more"), ("seek", 0), ("read",)]),
    ("utf-16", "a+", "", [("read",), ("write", "more"), ("seek", 0), ("read",)]),
]


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (OSError, ValueError) as exc:
        return type(exc)


async def outcome_of(file: Any, name: str, *arguments: Any) -> Any:
    try:
        return await getattr(file, name)(*arguments)
    except (OSError, ValueError) as exc:
        return type(exc)


async def compare(folder: Path, encoding: str, mode: str, text: str, steps: list[tuple[Any, ...]]) -> None:
    theirs, ours = folder / "theirs", folder / "ours"
    for path in (theirs, ours):
        path.write_bytes(text.encode(encoding) if text else b"")
    with open(theirs, mode, encoding=encoding) as model:
        async with files.open(ours, mode, encoding=encoding) as file:
            for name, *arguments in steps:
                if sys.version_info < (3, 13) and name.startswith("read"):
                    # Text that was written and not yet flushed was not seen by reading.
                    outcome(model.flush)
                expected = outcome(lambda name=name, arguments=arguments: getattr(model, name)(*arguments))
                got = await outcome_of(file, name, *arguments)
                # Numbers of places are a file's own affair.
                same = isinstance(expected, int) and isinstance(got, int) and name in ("seek", "tell")
                assert same or expected == got, (encoding, mode, text, steps, name)
    assert theirs.read_bytes() == ours.read_bytes(), (encoding, mode, text, steps)


@pytest.mark.parametrize(("encoding", "mode", "text", "steps"), FOUND)
async def test_what_was_found(
    engine: str, tmp_path: Path, encoding: str, mode: str, text: str, steps: list[tuple[Any, ...]]
) -> None:
    await compare(tmp_path, encoding, mode, text, steps)


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_random_steps(engine: str, tmp_path: Path, encoding: str) -> None:
    chance = random.Random(encoding)
    for _ in range(300):
        steps = [chance.choice(STEPS) for _ in range(chance.randrange(1, 14))]
        text = chance.choice(["", "abc", "line\n", "x" * 30])
        await compare(tmp_path, encoding, chance.choice(["a+", "w+", "r+", "a", "w"]), text, steps)
