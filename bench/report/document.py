"""The document of a run: plain data, which `--json` writes and every report reads.

`schema.json` in this folder describes its format; tests check that both agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from bench.model import Result, Row, Settings
from bench.stats import Summary, pair_ratios, summarize

SCHEMA = "oneloop-bench/1"
SCHEMA_FILE = Path(__file__).with_name("schema.json")


class SummaryData(TypedDict):
    """A Summary as plain data."""

    median: float
    low: float
    high: float
    q1: float
    q3: float
    count: int


class RowData(TypedDict):
    """One rival in one case."""

    rival: str
    status: str
    reason: str
    notes: list[str]
    samples: list[dict[str, float] | None]
    summary: dict[str, SummaryData]
    ratio: NotRequired[SummaryData]
    beside: NotRequired[dict[str, SummaryData]]
    curve: NotRequired[list[list[float]]]


class CaseData(TypedDict):
    """One case."""

    suite: str
    name: str
    params: dict[str, int | str]
    metric: str
    unit: str
    baseline: str
    beside: NotRequired[list[str]]
    also: NotRequired[list[str]]
    remark: str
    rounds: int
    rows: list[RowData]


class Document(TypedDict):
    """A whole run."""

    schema: str
    command: str
    machine: dict[str, str | int]
    versions: dict[str, str]
    settings: dict[str, int | float | str | None]
    interrupted: bool
    warnings: list[str]
    cases: list[CaseData]


def _summary_data(summary: Summary) -> SummaryData:
    return SummaryData(
        median=summary.median,
        low=summary.low,
        high=summary.high,
        q1=summary.q1,
        q3=summary.q3,
        count=summary.count,
    )


def _series(row: Row, metric: str) -> list[float | None]:
    return [sample.metrics.get(metric) if sample else None for sample in row.samples]


def _summaries(row: Row) -> dict[str, SummaryData]:
    names = dict.fromkeys(name for sample in row.samples if sample for name in sample.metrics)
    found = {}
    for name in names:
        values = [value for value in _series(row, name) if value is not None]
        found[name] = _summary_data(summarize(values))
    return found


def _median_curve(row: Row) -> list[list[float]]:
    """The curve of the round with the middle median latency: a real distribution, not a mixture of rounds."""
    curves = sorted(
        (sample for sample in row.samples if sample and sample.curve),
        key=lambda sample: sample.metrics.get("p50_ns", 0.0),
    )
    return [[q, ns] for q, ns in curves[len(curves) // 2].curve] if curves else []


def _ratio(row: Row, baseline: Row | None, metric: str) -> SummaryData | None:
    """The row's figures as a multiple of the baseline's; None if one of the two was not measured."""
    if baseline is None or row.status != "ok":
        return None
    ratios = pair_ratios(_series(row, metric), _series(baseline, metric))
    return _summary_data(summarize(ratios)) if ratios else None


def _row_data(row: Row, baseline: Row | None, beside: Mapping[str, Row], metric: str) -> RowData:
    notes = dict.fromkeys(note for sample in row.samples if sample for note in sample.notes)
    data = RowData(
        rival=row.rival,
        status=row.status,
        reason=row.reason,
        notes=list(notes),
        samples=[sample.metrics if sample else None for sample in row.samples],
        summary=_summaries(row),
    )
    curve = _median_curve(row)
    if curve:
        data["curve"] = curve
    ratio = _ratio(row, baseline, metric)
    if ratio:
        data["ratio"] = ratio
    more = {name: found for name, other in beside.items() if (found := _ratio(row, other, metric))}
    if more:
        data["beside"] = more
    return data


def _find(result: Result, *names: str) -> Row | None:
    """The first of the names that was measured."""
    measured = {row.rival: row for row in result.rows if any(row.samples)}
    return next((measured[name] for name in names if name in measured), None)


def _baseline_row(result: Result, rival: str) -> Row | None:
    """The rival for ratios: the same program on the baseline's loop, or the case's baseline.

    If the baseline could not run, stock asyncio is used instead.
    """
    baseline = result.case.baseline
    program, on, _ = rival.partition(" on ")
    loop = baseline.rpartition(" on ")[2]
    own = [f"{program} on {loop}", f"{program} on asyncio"] if on else []
    return _find(result, *own, baseline, baseline.replace("uvloop", "asyncio"))


def case_data(result: Result) -> CaseData:
    """One case as plain data, with its summaries and ratios."""
    case = result.case
    baseline = _baseline_row(result, "")
    beside = {name: row for name in case.beside if (row := _find(result, name))}
    data = CaseData(
        suite=case.suite,
        name=case.name,
        params=case.params,
        metric=case.metric,
        unit=case.unit,
        baseline=baseline.rival.rpartition(" on ")[2] if baseline else "",
        remark=case.remark,
        rounds=result.rounds_done,
        rows=[_row_data(row, _baseline_row(result, row.rival), beside, case.metric) for row in result.rows],
    )
    if beside:
        data["beside"] = list(beside)
    if case.also:
        data["also"] = list(case.also)
    return data


def document(
    results: Sequence[Result],
    settings: Settings,
    command: str,
    machine: dict[str, str | int],
    versions: dict[str, str],
    warnings: Sequence[str] = (),
    interrupted: bool = False,
) -> Document:
    """The conditions that a reader needs to judge the figures."""
    return Document(
        schema=SCHEMA,
        command=command,
        machine=machine,
        versions=versions,
        settings=asdict(settings),
        interrupted=interrupted,
        warnings=list(warnings),
        cases=[case_data(result) for result in results],
    )


def save(doc: Document, path: Path) -> None:
    """Writes the document atomically."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(doc, indent=1) + "\n")
    partial.replace(path)


def load(path: Path) -> Document:
    """Reads a document. Raises ValueError for another schema, and OSError."""
    found: object = json.loads(path.read_text())
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ValueError(f"{path} is not a document of schema {SCHEMA}")
    return cast("Document", found)
