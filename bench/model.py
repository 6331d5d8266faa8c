"""What a measurement is made of: settings, a case, a sample, the ways in which a rival can fail.

Knows nothing of processes, suites or output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Metrics = dict[str, float]
Curve = list[tuple[float, float]]


class RivalFailedError(Exception):
    """A rival died, hung or answered wrongly; the text goes into its row."""


class RivalMissingError(Exception):
    """A rival is not installed here, or does not offer what the case needs; the text says which."""


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

    def scaled(self, count: int) -> int:
        """A number of operations, made smaller for a quick run."""
        return max(1, round(count * self.scale))


@dataclass
class Sample:
    """One rival measured once."""

    metrics: Metrics
    curve: Curve = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """One row group of the report: the same work, done by several rivals.

    Args:
        metric: the main figure, a key of every sample's metrics; lower is better.
        unit: what the main figure is shown in; figures are stored in nanoseconds, bytes or counts.
        baseline: the rival to which every row's ratio is taken.
        beside: further rivals to which ratios are taken, each in a column of its own.
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


@dataclass
class Row:
    """What one rival did in one case, over all rounds."""

    rival: str
    status: str = "ok"
    reason: str = ""
    samples: list[Sample | None] = field(default_factory=list)


@dataclass
class Result:
    """A case with its rows, as far as it got."""

    case: Case
    rows: list[Row]
    rounds_done: int = 0
