"""What the programs of this folder share: their parts, run one after the other, and calls in many threads at once.

The programs are ordinary ones with threads. Without patching, they run as `python -m tests.ecosystem.clients.NAME`;
PARTS in the environment names the parts that are wanted.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
Part = Callable[[], None]

LIMIT_S = 150.0
parts: dict[str, Part] = {}


def part(function: Part) -> Part:
    """A part of the program, named for its function."""
    parts[function.__name__] = function
    return function


def run() -> None:
    """Run the parts that the environment names, or all; print the name of each one that has passed."""
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    wanted = os.environ.get("PARTS", "").split() or list(parts)
    failed = []
    for name in wanted:
        began = time.monotonic()
        try:
            parts[name]()
        except Exception:
            print(f"-- {name}:", file=sys.stderr)
            traceback.print_exc()
            failed.append(name)
        else:
            print(f"{name} {time.monotonic() - began:.2f}", flush=True)
    faulthandler.cancel_dump_traceback_later()
    sys.exit(1 if failed else 0)


def at_once(count: int, function: Callable[[int], T]) -> list[T]:
    """Call `function(number)` in so many threads; the results in the order of the numbers."""
    results: dict[int, T] = {}
    failed: list[BaseException] = []

    def call(number: int) -> None:
        try:
            results[number] = function(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return [results[number] for number in range(count)]


def raises(kind: type[BaseException] | tuple[type[BaseException], ...], function: Callable[..., object]) -> Any:
    """The exception of this kind that a call raises.

    Raises:
        AssertionError: it raises none.
    """
    try:
        result = function()
    except kind as error:
        return error
    raise AssertionError(f"{function} has not raised {kind}, but returned {result!r}")
