"""The table of verbs: what each action does, and how an author draws one.

A verb is a function of the world and the action's arguments. What it returns is written down, unless it is None; an
exception that it raises is written down and goes no further. A verb that is a coroutine function can only be played
inside of a task.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.differential.program import Action

if TYPE_CHECKING:
    from tests.differential.author import Author

Function = Callable[..., Any]
Draw = Callable[["Author"], Action]

VERBS: dict[str, Function] = {}
COROUTINES: dict[str, Function] = {}


class Absent(Exception):  # noqa: N818 - no error: the action's object is not there (not yet, or no more in a shrunk program)
    """What the action is about does not exist; the action is left out of the trace."""


def verb(function: Function) -> Function:
    """Put a function into the table under its own name, without the underscore that keeps it off a keyword."""
    name = function.__name__.rstrip("_")
    table = COROUTINES if inspect.iscoroutinefunction(function) else VERBS
    assert name not in VERBS
    assert name not in COROUTINES
    table[name] = function
    return function
