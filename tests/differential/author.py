"""Draws programs from a seed: which actions a family has, how often, and how deep they go.

The same seed gives the same program on every Python version (only `random()` of the generator is used, whose sequence
is promised).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests.differential.program import Action, Body

T = TypeVar("T")

Draw = Callable[["Author"], Action]

MOST_DEPTH = 4
MOST_ACTIONS = 60


@dataclass(frozen=True)
class Family:
    """A kind of programs: draws and their weights, by where the action stands."""

    name: str
    # What every program of the family begins with.
    opening: Callable[[Author], Body]
    # Outside of the loop and in callbacks.
    draws: dict[Draw, float]
    # In tasks alone, beside the others.
    task_draws: dict[Draw, float] = field(default_factory=dict)
    # How the loop is run between the actions.
    runs: dict[Draw, float] = field(default_factory=dict)


class Author:
    def __init__(self, seed: int, family: Family) -> None:
        self.random = random.Random(seed)
        self.family = family
        self.depth = 0
        self.made: dict[str, list[str]] = {}
        self.written = 0

    # -- choices -------------------------------------------------------------------------------------

    def below(self, limit: int) -> int:
        return int(self.random.random() * limit)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def weighted(self, options: dict[T, float]) -> T:
        at = self.random.random() * sum(options.values())
        for option, weight in options.items():
            at -= weight
            if at < 0:
                return option
        return next(iter(options))

    # -- labels --------------------------------------------------------------------------------------

    def new(self, kind: str) -> str:
        labels = self.made.setdefault(kind, [])
        labels.append(f"{kind}{len(labels) + 1}")
        return labels[-1]

    def some(self, kind: str) -> str:
        """The label of a thing that was made, most often one of the last; or of one that there never is."""
        labels = self.made.get(kind)
        if not labels:
            return f"{kind}0"
        return self.choice(labels[-4:]) if self.chance(0.8) else self.choice(labels)

    # -- bodies --------------------------------------------------------------------------------------

    def action(self, *, in_task: bool = False) -> Action:
        draws = dict(self.family.draws)
        if in_task:
            draws.update(self.family.task_draws)
        draw = self.weighted(draws)
        self.written += 1
        return draw(self)

    def body(self, most: int = 4, *, in_task: bool = False, least: int = 0) -> Body:
        """The body of a callback or a task; empty when the program is long or deep already."""
        if self.depth >= MOST_DEPTH or self.written >= MOST_ACTIONS:
            return []
        self.depth += 1
        length = least + self.below(most + 1 - least)
        made = [self.action(in_task=in_task) for _ in range(length)]
        self.depth -= 1
        return made

    def program(self) -> Body:
        """Rounds of actions outside of the loop, each followed by a run."""
        program = self.family.opening(self)
        for _ in range(1 + self.below(4)):
            for _ in range(1 + self.below(6)):
                program.append(self.action())
            program.append(self.weighted(self.family.runs)(self))
        return program


def write(family: Family, seed: int) -> Body:
    """The program of a family that a seed stands for."""
    return Author(seed, family).program()
