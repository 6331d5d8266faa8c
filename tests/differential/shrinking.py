"""Makes a failing program small: leaves out and simplifies while the failure stays (delta debugging)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.differential.program import Body

Fails = Callable[[Body], bool]


def shrink(body: Body, fails: Fails, *, limit_s: float = 20.0) -> Body:
    """The smallest program found within the time for which `fails` still holds."""
    end = time.monotonic() + limit_s
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for smaller in candidates(body):
            if time.monotonic() > end:
                break
            if fails(smaller):
                body, progress = smaller, True
                break
    return body


def candidates(body: Body) -> Iterator[Body]:
    """Smaller programs, the most daring first: without runs of actions, then with smaller actions."""
    length = len(body)
    size = length
    while size:
        for start in range(0, length - size + 1, max(size // 2, 1)):
            yield body[:start] + body[start + size :]
        size //= 2
    for index, action in enumerate(body):
        # A callback's body in the place of the callback.
        for argument in action[1:]:
            if isinstance(argument, list) and argument:
                yield body[:index] + argument + body[index + 1 :]
    for index, action in enumerate(body):
        for place, argument in enumerate(action[1:], 1):
            for smaller in simpler(argument):
                yield [*body[:index], (*action[:place], smaller, *action[place + 1 :]), *body[index + 1 :]]


def simpler(value: Any) -> Iterator[Any]:
    """Simpler arguments: smaller bodies, hooks that are left out, smaller numbers, no context."""
    if isinstance(value, list):
        yield from candidates(value)
    elif isinstance(value, dict):
        for name in value:
            yield {other: body for other, body in value.items() if other != name}
        for name, body in value.items():
            for smaller in simpler(body):
                yield {**value, name: smaller}
    elif value is True:
        yield False
    elif isinstance(value, int) and value > 1:
        yield from {1, value // 2}
    elif value in ("x", "y"):
        yield None
