"""The record as data: one part for each suite, with the conditions under which it was measured.

Only figures that a document shows are kept, of each round, with four significant digits. One line of the file is one
rival of one case, so that a new run of one suite changes only its lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from bench.model import Case, Result, Row, Sample
from bench.process import ROOT
from bench.report.document import CaseData, case_data
from bench.report.markdown import MEMORY, SHOWN

SCHEMA = "oneloop-record/1"
FILE = ROOT / "bench" / "record" / "record.json"
_KEPT = frozenset({*SHOWN, *MEMORY, "server_cpu_ns", "cpu_ns_per_op", "processes"} - {"vss_bytes"})
_DIGITS = 4


class RowPart(TypedDict):
    """One rival in one case: a figure's name -> its value in each round."""

    rival: str
    status: str
    reason: NotRequired[str]
    notes: NotRequired[list[str]]
    rounds: dict[str, list[float | None]]


class CasePart(TypedDict):
    """One case: the fields of `Case`, and its rows. `other_noise` is that of a run which was not kept."""

    name: str
    params: dict[str, int | str]
    metric: str
    unit: str
    remark: str
    baseline: str
    beside: list[str]
    also: list[str]
    rounds: int
    other_noise: NotRequired[float]
    rows: list[RowPart]


class Part(TypedDict):
    """One suite.

    `commit` is what was measured; `dirty` lists the files with uncommitted changes. `sources` has a digest of each
    folder that the suite measures.
    """

    commit: str
    dirty: list[str]
    date: str
    took_s: int
    trial: bool
    machine: dict[str, str | int]
    versions: dict[str, str]
    settings: dict[str, float | int | str | None]
    sources: dict[str, str]
    cases: list[CasePart]


class Record(TypedDict):
    """All suites."""

    schema: str
    suites: dict[str, Part]


def empty() -> Record:
    return Record(schema=SCHEMA, suites={})


def _short(value: float) -> float:
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short == int(short) else short


def _row_part(row: Row, metrics: Iterable[str]) -> RowPart:
    rounds = {}
    for name in metrics:
        values = [sample.metrics.get(name) if sample else None for sample in row.samples]
        if any(value is not None for value in values):
            rounds[name] = [None if value is None else _short(value) for value in values]
    part = RowPart(rival=row.rival, status=row.status, rounds=rounds)
    if row.reason:
        # Of this machine, nothing but its name and its parts goes into the tree.
        part["reason"] = row.reason.replace(f"{ROOT}/", "")
    notes = list(dict.fromkeys(note for sample in row.samples if sample for note in sample.notes))
    if notes:
        part["notes"] = notes
    return part


def case_part(result: Result) -> CasePart:
    """A measured case, reduced to what is recorded."""
    case = result.case
    present = dict.fromkeys(name for row in result.rows for sample in row.samples if sample for name in sample.metrics)
    kept = [name for name in present if name in _KEPT or name in (case.metric, *case.also)]
    return CasePart(
        name=case.name,
        params=case.params,
        metric=case.metric,
        unit=case.unit,
        remark=case.remark,
        baseline=case.baseline,
        beside=list(case.beside),
        also=list(case.also),
        rounds=result.rounds_done,
        rows=[_row_part(row, kept) for row in result.rows],
    )


def _samples(part: RowPart) -> list[Sample | None]:
    count = max((len(values) for values in part["rounds"].values()), default=0)
    found: list[Sample | None] = []
    for number in range(count):
        given = {name: values[number] for name, values in part["rounds"].items()}
        metrics = {name: value for name, value in given.items() if value is not None}
        found.append(Sample(metrics, notes=part.get("notes", [])) if metrics else None)
    return found


def _never(rival: str, settings: object) -> Sample:
    raise AssertionError("a recorded case is not measured")


def read_case(suite: str, part: CasePart) -> CaseData:
    """A recorded case as the reports want it, with summaries and ratios."""
    rows = [Row(row["rival"], row["status"], row.get("reason", ""), _samples(row)) for row in part["rows"]]
    case = Case(
        suite, part["name"], part["params"], part["metric"], part["unit"], [row.rival for row in rows], _never,
        part["remark"], part["baseline"], part["beside"], part["also"],
    )  # fmt: skip
    return case_data(Result(case, rows, part["rounds"]))


def read_cases(record: Record) -> list[CaseData]:
    """All recorded cases, in the order of the suites."""
    return [read_case(suite, case) for suite, part in record["suites"].items() for case in part["cases"]]


def text(record: Record) -> str:
    """The file: a line for each row, the rest indented."""
    lines: list[str] = []
    rows: dict[str, str] = {}

    def numbered(row: RowPart) -> str:
        key = f"@row {len(rows)}@"
        rows[f'"{key}"'] = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        return key

    plain = {
        "schema": record["schema"],
        "suites": {
            suite: {**part, "cases": [{**case, "rows": [*map(numbered, case["rows"])]} for case in part["cases"]]}
            for suite, part in record["suites"].items()
        },
    }
    for line in json.dumps(plain, indent=1, ensure_ascii=False).splitlines():
        key = line.strip().removesuffix(",")
        lines.append(line.replace(key, rows[key]) if key in rows else line)
    return "\n".join(lines) + "\n"


def load(path: Path = FILE) -> Record | None:
    """The record; None if there is none. Raises ValueError for another schema, and OSError."""
    if not path.exists():
        return None
    found: object = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ValueError(f"{path} is not a record of schema {SCHEMA}")
    return cast("Record", found)


def save(record: Record, path: Path = FILE) -> None:
    """Writes the record atomically."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text(record), encoding="utf-8")
    partial.replace(path)
