"""Medians, spreads, and ratios taken pair by pair. Pure functions on numbers.

A ratio is taken within a round, where both rivals met the same machine, and only then are the rounds summed up:
the ratio of two medians would compare moments that never met.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """What is left of several measurements of one thing."""

    median: float
    low: float
    high: float
    q1: float
    q3: float
    count: int

    @property
    def spread(self) -> float:
        """Half the distance from the lowest to the highest: what is printed after ±."""
        return (self.high - self.low) / 2


def summarize(values: Sequence[float]) -> Summary:
    """Args: at least one value. Raises ValueError for none."""
    if not values:
        raise ValueError("nothing was measured")
    if len(values) == 1:
        only = values[0]
        return Summary(only, only, only, only, only, 1)
    q1, _, q3 = statistics.quantiles(values, n=4, method="inclusive")
    return Summary(statistics.median(values), min(values), max(values), q1, q3, len(values))


def pair_ratios(values: Sequence[float | None], baseline: Sequence[float | None]) -> list[float]:
    """The ratio of each round in which both were measured and the baseline is not zero."""
    pairs = zip(values, baseline, strict=False)
    return [a / b for a, b in pairs if a is not None and b]


def overlap(one: Summary, other: Summary) -> bool:
    """Whether two summaries agree within what was seen: their ranges meet."""
    return one.low <= other.high and other.low <= one.high
