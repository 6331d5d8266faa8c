"""Compares two documents: the same case and rival in an old and a new run.

Ratios to the baseline are compared if both runs have one, because they depend less on the machine and its load. A
change counts only if the two ranges over the rounds do not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.report import figures
from bench.report.document import CaseData, Document, RowData, SummaryData

if TYPE_CHECKING:
    from rich.console import Console

#: Smaller changes are not reported, even if they are consistent.
LEAST_CHANGE = 0.03


@dataclass(frozen=True)
class Change:
    """One rival in one case, old and new. A `factor` above 1 means slower."""

    suite: str
    case: str
    rival: str
    before: str
    after: str
    factor: float
    verdict: str


def _comparable(old: RowData, new: RowData, metric: str) -> tuple[SummaryData, SummaryData, bool]:
    if "ratio" in old and "ratio" in new and old["ratio"]["high"] != old["ratio"]["low"]:
        return old["ratio"], new["ratio"], True
    return old["summary"][metric], new["summary"][metric], False


def _verdict(old: SummaryData, new: SummaryData) -> str:
    factor = new["median"] / old["median"]
    if abs(factor - 1) < LEAST_CHANGE or (new["low"] <= old["high"] and old["low"] <= new["high"]):
        return "same"
    return "slower" if factor > 1 else "faster"


def _change(case: CaseData, old: RowData, new: RowData) -> Change:
    before, after, is_ratio = _comparable(old, new, case["metric"])
    text = figures.ratio if is_ratio else lambda s: figures.value(case["metric"], s["median"])
    factor = after["median"] / before["median"] if before["median"] else 1.0
    return Change(
        case["suite"],
        case["name"],
        new["rival"],
        text(before),
        text(after),
        factor,
        _verdict(before, after) if before["median"] else "same",
    )


def changes(old: Document, new: Document) -> list[Change]:
    """Every rival that both documents contain, in the order of the new one."""
    known = {
        (case["suite"], case["name"], row["rival"]): row
        for case in old["cases"]
        for row in case["rows"]
        if case["metric"] in row["summary"]
    }
    found = []
    for case in new["cases"]:
        for row in case["rows"]:
            before = known.get((case["suite"], case["name"], row["rival"]))
            if before is not None and case["metric"] in row["summary"]:
                found.append(_change(case, before, row))
    return found


def show(console: Console, old: Document, new: Document) -> int:
    """Prints the comparison; returns 1 if oneloop became slower in any case, else 0."""
    from rich.table import Table  # only printing needs the terminal module

    table = Table(title=f"compared with {old['machine']['date']}", title_justify="left")
    for heading in ("case", "rival", "before", "after", "factor", ""):
        table.add_column(heading)
    found = changes(old, new)
    styles = {"slower": "red", "faster": "green", "same": ""}
    for change in found:
        where = f"{change.suite}: {change.case}"
        factor = f"{change.factor:.2f}"
        table.add_row(
            where,
            change.rival,
            change.before,
            change.after,
            factor,
            change.verdict,
            style=styles[change.verdict],
        )
    console.print(table)
    if not found:
        console.print("nothing in common: no case and rival is in both", style="yellow")
    worse = [c for c in found if c.verdict == "slower" and c.rival.startswith("oneloop")]
    return 1 if worse else 0
