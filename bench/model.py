"""The data types of a measurement: settings, case, sample, and the errors of rivals.

Independent of processes, suites and output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Metrics = dict[str, float]
Curve = list[tuple[float, float]]


class RivalFailedError(Exception):
    """A rival died, hung or gave a wrong answer; the text is shown in its row."""


class RivalMissingError(Exception):
    """A rival is not installed, or lacks a feature that the case needs; the text says which."""


@dataclass(frozen=True)
class Settings:
    """How long and how often to measure, and on which CPUs."""

    duration_s: float = 1.0
    warmup_s: float = 0.3
    rounds: int = 5
    server_cpu: int | None = None
    generator_cpu: int | None = None
    rate: float | None = None
    scale: float = 1.0
    again: str = ""
    """The rival that is measured twice in each round, for the noise of the measurement; none if empty."""

    def scaled(self, count: int) -> int:
        """A number of operations, reduced for a quick run."""
        return max(1, round(count * self.scale))


@dataclass
class Sample:
    """One rival measured once."""

    metrics: Metrics
    curve: Curve = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """One group of rows in the report: the same work, done by several rivals.

    Args:
        metric: the main figure, a key of every sample's metrics; lower is better.
        unit: the unit in which the main figure is shown; figures are stored in nanoseconds, bytes or counts.
        baseline: every row's ratio is relative to this rival.
        beside: further rivals for ratios, each with a separate column.
        also: further figures that get a row of their own in the documents' tables; lower is better.
    """

    suite: str
    name: str
    params: dict[str, int | str]
    metric: str
    unit: str
    rivals: Sequence[str]
    measure: Callable[[str, Settings], Sample]
    remark: str = ""
    baseline: str = "uvloop"
    beside: Sequence[str] = ()
    also: Sequence[str] = ()


@dataclass
class Row:
    """The results of one rival in one case, over all rounds."""

    rival: str
    status: str = "ok"
    reason: str = ""
    samples: list[Sample | None] = field(default_factory=list)


@dataclass
class Result:
    """A case with the rows that were measured."""

    case: Case
    rows: list[Row]
    rounds_done: int = 0
