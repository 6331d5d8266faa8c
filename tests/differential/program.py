"""Programs as data: an action is a tuple (verb, arguments…), a body a list of actions, hooks a dict of bodies.

All of it is written as plain Python literals, so that a program can be printed, pasted into a test and played again.
Nothing here knows what the verbs mean.
"""

from __future__ import annotations

import pprint
from typing import Any

Action = tuple[Any, ...]
Body = list[Action]
Hooks = dict[str, Body]


def count(value: object) -> int:
    """How many actions there are in a body, those of inner bodies included."""
    if isinstance(value, tuple):
        return 1 + sum(count(argument) for argument in value)
    if isinstance(value, list):
        return sum(count(action) for action in value)
    if isinstance(value, dict):
        return sum(count(body) for body in value.values())
    return 0


def verbs(value: object) -> set[str]:
    """The verbs of a body, those of inner bodies included."""
    found: set[str] = set()
    if isinstance(value, tuple):
        found.add(value[0])
    if isinstance(value, tuple | list):
        for item in value:
            found |= verbs(item)
    elif isinstance(value, dict):
        for body in value.values():
            found |= verbs(body)
    return found


def without(value: Any, unwanted: frozenset[str]) -> Any:
    """The same body without the actions of some verbs."""
    if isinstance(value, list):
        return [without(action, unwanted) for action in value if action[0] not in unwanted]
    if isinstance(value, tuple):
        return tuple(without(argument, unwanted) for argument in value)
    if isinstance(value, dict):
        return {name: without(body, unwanted) for name, body in value.items()}
    return value


def replaced(value: Any, names: dict[str, str]) -> Any:
    """The same body with other words in the place of some arguments."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [replaced(item, names) for item in value]
    if isinstance(value, tuple):
        return tuple(replaced(item, names) for item in value)
    if isinstance(value, dict):
        return {name: replaced(body, names) for name, body in value.items()}
    return value


def literal(body: Body) -> str:
    """The program as Python text."""
    return pprint.pformat(body, width=100, sort_dicts=False)
