"""Programs without oneloop that end, without memory, as the excuses say: `python -m tests.faults.proofs NAME`.

Each runs once for each of its first allocations, which fails, and prints how often it ended in which way.
"""

from __future__ import annotations

import _testcapi  # type: ignore[import-not-found]
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any


class _Lines:
    def __init__(self) -> None:
        self.left = [1, 2]

    async def __anext__(self) -> int:
        if self.left:
            return self.left.pop()
        raise StopAsyncIteration


class _Awaitable:
    def __init__(self, steps: Any) -> None:
        self.steps = steps

    def __await__(self) -> Any:
        return self.steps


class _Iterable:
    """The interpreter asks an iterator, which cannot tell an exception that was lost from the value None."""

    def __init__(self) -> None:
        self.lines = _Lines()

    def __aiter__(self) -> _Iterable:
        return self

    def __anext__(self) -> Any:
        return _Awaitable(self.lines.__anext__().__await__())


async def _read() -> list[Any]:
    return [line async for line in _Iterable()]


def extra_none() -> str:
    """One None too many at the end of an `async for`."""
    try:
        _read().send(None)
    except StopIteration as end:
        return str(end.value)
    raise AssertionError("it waits")


class _Steps:
    """An iterator written in Python around a generator, as `iwait` is."""

    def __init__(self) -> None:
        self.inner = self._steps()

    def _steps(self) -> Any:
        yield 1

    def __iter__(self) -> _Steps:
        return self

    def __next__(self) -> Any:
        return next(self.inner)


def null_without_exception() -> str:
    """SystemError of a function that has raised StopIteration."""
    return str([*_Steps()])


def greenlet_switch() -> str:
    """Two switches of one greenlet."""
    from greenlet import getcurrent, greenlet

    main = getcurrent()
    seen: list[Any] = []

    def other(value: int) -> None:
        seen.append(value)
        seen.append(main.switch(value))

    one = greenlet(other)
    seen.append(one.switch(1))
    one.switch(2)
    return str(seen)


PROGRAMS: dict[str, Callable[[], str]] = {
    "extra_none": extra_none,
    "null_without_exception": null_without_exception,
    "greenlet_switch": greenlet_switch,
}


def _told(program: Callable[[], str], number: int) -> str:
    _testcapi.set_nomemory(number, number + 1)
    try:
        return program()
    except BaseException as error:
        raised = error
    finally:
        _testcapi.remove_mem_hooks()
    return f"{type(raised).__name__}: {raised}"


def _child(program: Callable[[], str], number: int) -> str:
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(2)
        os.write(writing, _told(program, number).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as stream:
        told = stream.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return told if status == 0 else f"it ends with {status}"


def ends(name: str, most: int = 60) -> Counter[str]:
    """How a program has ended how often."""
    PROGRAMS[name]()
    return Counter(_child(PROGRAMS[name], number) for number in range(1, most + 1))


if __name__ == "__main__":
    for end, count in ends(sys.argv[1]).items():
        print(f"{count:4} {end}")
