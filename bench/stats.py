"""Medians, spreads and ratios of pairs. Pure functions on numbers.

A ratio is computed within a round, in which both rivals ran under the same conditions; then the rounds are summarized.
The ratio of two medians would compare measurements from different moments.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """The summary of several measurements of the same quantity."""

    median: float
    low: float
    high: float
    q1: float
    q3: float
    count: int

    @property
    def spread(self) -> float:
        """Half the distance from the lowest to the highest value; printed after ±."""
        return (self.high - self.low) / 2


def summarize(values: Sequence[float]) -> Summary:
    """The summary of at least one value. Raises ValueError if there is none."""
    if not values:
        raise ValueError("nothing was measured")
    if len(values) == 1:
        only = values[0]
        return Summary(only, only, only, only, only, 1)
    q1, _, q3 = statistics.quantiles(values, n=4, method="inclusive")
    return Summary(statistics.median(values), min(values), max(values), q1, q3, len(values))


def pair_ratios(values: Sequence[float | None], baseline: Sequence[float | None]) -> list[float]:
    """The ratio for each round in which both were measured and the baseline is not zero."""
    pairs = zip(values, baseline, strict=False)
    return [a / b for a, b in pairs if a is not None and b]


def overlap(one: Summary, other: Summary) -> bool:
    """Whether the ranges of two summaries overlap."""
    return one.low <= other.high and other.low <= one.high
