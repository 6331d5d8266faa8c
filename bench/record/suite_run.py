"""Measures one suite of the record, a case at a time. Finished cases are kept in a file, so an interrupted run goes on.

The file is for one state of the code and one set of settings; with another it is not used.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict, cast

from bench import machine
from bench.model import Case, Result, Row, Settings
from bench.process import ROOT
from bench.record import plan, quiet, source, store
from bench.record.store import CasePart, Part
from bench.report import page
from bench.report.document import case_data
from bench.runner import row_names, run_case

UNFINISHED = ROOT / ".build" / "record"
#: A case in which one rival differed from itself by more than ± this is measured a second time.
LARGEST_NOISE = 0.1

Say = Callable[[str], None]


class Unfinished(TypedDict):
    """The finished cases of a suite, and what they are valid for."""

    valid_for: str
    began: dict[str, str | int]
    took_s: float
    cases: list[CasePart]


def _valid_for(commit: str, settings: Settings, sources: dict[str, str]) -> str:
    return json.dumps([commit, asdict(settings), sources], sort_keys=True)


def read_unfinished(path: Path, valid_for: str, busy: float = 0.0) -> Unfinished:
    """The cases that an interrupted run has left, or none; then `busy` of the machine is in use when it begins."""
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if isinstance(found, dict) and found.get("valid_for") == valid_for:
        return cast("Unfinished", found)
    return Unfinished(valid_for=valid_for, began={**machine.describe(), "busy": f"{busy:.0%}"}, took_s=0.0, cases=[])


def _write(path: Path, unfinished: Unfinished) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(unfinished), encoding="utf-8")
    partial.replace(path)


def noise(result: Result) -> float:
    """Half the range of the ratio of the rival that was measured twice to itself; 0 if it was not measured."""
    found = page.noise(case_data(result), result.case.metric)
    return (found["high"] - found["low"]) / 2 if found else 0.0


def measure(case: Case, settings: Settings) -> tuple[Result, float | None]:
    """The case's figures, and the noise of a run of it that was not kept, or None.

    A case with too much noise is measured once more. The run with less noise is kept, whatever its figures are.
    """

    def run() -> Result:
        result = Result(case, [Row(rival) for rival in row_names(case, settings)])
        run_case(case, settings, _observe, result)
        return result

    first = run()
    if noise(first) <= LARGEST_NOISE:
        return first, None
    quieter, other = sorted((first, run()), key=noise)
    return quieter, noise(other)


def _observe(case: Case, number: int, rival: str, row: Row) -> None:
    """Nothing is shown for each measurement."""


def run_suite(suite: str, settings: Settings, say: Say, trial: bool = False) -> Part:
    """Measures the cases that are not finished. Raises KeyboardInterrupt, with the finished ones kept.

    Args:
        suite: its name.
        settings: those of the whole run.
        say: prints a line about each case.
        trial: the part is marked as no measurement.
    """
    cases = plan.cases(suite)
    commit, dirty = source.commit(ROOT), source.changed(ROOT)
    sources = source.digests(ROOT, plan.folders(suite))
    path = UNFINISHED / f"{suite}.json"
    valid_for = _valid_for(commit, settings, sources)
    busy = 0.0 if trial else quiet.wait(say)
    unfinished = read_unfinished(path, valid_for, busy)
    finished = {case["name"] for case in unfinished["cases"]}
    for number, case in enumerate(cases):
        if case.name in finished:
            continue
        began = time.monotonic()
        result, other_noise = measure(case, settings)
        part = store.case_part(result)
        if other_noise is not None:
            part["other_noise"] = round(other_noise, 2)
        unfinished["cases"].append(part)
        unfinished["took_s"] += time.monotonic() - began
        _write(path, unfinished)
        say(f"  {number + 1} of {len(cases)}: {case.name}, {time.monotonic() - began:.0f} s{_failures(result)}")
    path.unlink(missing_ok=True)
    began_with = unfinished["began"]
    return Part(
        commit=commit,
        dirty=dirty,
        date=str(began_with["date"]),
        took_s=round(unfinished["took_s"]),
        trial=trial,
        machine=began_with,
        versions=machine.versions(),
        settings=asdict(settings),
        sources=sources,
        cases=unfinished["cases"],
    )


def _failures(result: Result) -> str:
    failed = [f"{row.rival}: {row.status}, {row.reason}" for row in result.rows if row.status != "ok"]
    return "".join(f"\n      {line}" for line in failed)
