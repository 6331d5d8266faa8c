"""Native code for each green thread: stack chunks, and creating the object."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any, Self

import pytest

from oneloop import green
from oneloop.green.event import Event

# More than the number that is kept.
MANY = 1500


def deep(depth: int, gate: Event, seen: list[int]) -> int:
    """Waits with this many frames on its stack, which take several chunks."""
    kept = [depth, depth + 1, depth + 2]
    if depth == 0:
        gate.wait()
        seen.append(1)
        return 0
    below = deep(depth - 1, gate, seen)
    assert kept == [depth, depth + 1, depth + 2]
    return below + 1


def waves(count: int, depth: int) -> None:
    gate, seen = Event(), list[int]()
    greenlets = [green.spawn(deep, depth, gate, seen) for _ in range(count)]
    green.sleep(0)
    gate.set()
    green.joinall(greenlets, raise_error=True)
    assert [greenlet.value for greenlet in greenlets] == [depth] * count
    assert len(seen) == count


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def test_stack_chunks_are_used_again_and_hold_what_was_written() -> None:
    waves(MANY, 3)
    waves(20, 300)
    gc.collect()
    before = mappings()
    for _ in range(3):
        waves(MANY, 3)
        waves(20, 300)
    gc.collect()
    assert mappings() - before < MANY


def test_stack_chunks_of_several_threads() -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(5):
                waves(50, 40)
        except BaseException as error:
            failed.append(error)
        finally:
            green.get_hub().destroy()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_subclass_without_its_own_init_is_made_as_its_new_says() -> None:
    class Counted(green.Greenlet):
        made = 0

        def __new__(cls, *args: Any, **kwargs: Any) -> Self:
            cls.made += 1
            return super().__new__(cls, *args, **kwargs)

    assert Counted.spawn(len, "abc").get() == 3
    assert Counted.made == 1


def test_a_new_that_raises() -> None:
    class Refused(green.Greenlet):
        def __new__(cls, *args: Any, **kwargs: Any) -> Self:
            raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        Refused.spawn(len, "abc")
