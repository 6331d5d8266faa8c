"""The tables of docs/benchmarks.md, made from cases: `python -m bench.report.page RUN.json…` prints those of a run.

One row for each way in which oneloop does the work of a case. The best rival is the one to which oneloop's ratio is
the highest, among all rivals of the case: floors, programs that run on oneloop, and a rival under a second name are
none. The ratio is the median of the ratios within the rounds. The noise is that of a rival that was measured twice in
each round (`--again`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.catalogue import SUBJECT
from bench.report import figures
from bench.report.columns import HEADINGS
from bench.report.document import CaseData, Document, RowData, SummaryData, load
from bench.runner import AGAIN
from bench.stats import pair_ratios, summarize

#: The ways in which oneloop does the work of a case, beside those whose name begins with its own.
WAYS = (f"threads on {SUBJECT}", f"green on {SUBJECT}", f"check on {SUBJECT}")
#: Floors are lower limits, and `oneloop check` on another loop is our own program.
FLOORS = ("floor", "fio", "greenlet")
NO_RIVALS = (*FLOORS, "check on ")
#: Notes that say nothing about the work that a rival did.
PLAIN_NOTES = ("generator was the bottleneck",)
HEADS = ("suite", "row", "oneloop", "best rival", "ratio", "noise", "floor")


@dataclass(frozen=True)
class Line:
    """One row of the table. `ratio` is empty if no rival could be measured."""

    suite: str
    row: str
    figure: str
    best: str
    ratio: SummaryData | None
    noise: SummaryData | None
    floor: str
    notes: tuple[str, ...] = ()

    @property
    def leads(self) -> bool:
        """Whether oneloop is first, or there is no rival."""
        # As it is printed: 1.00 is no lead.
        return self.ratio is None or round(self.ratio["median"], 2) < 1

    def cells(self) -> list[str]:
        ratio = figures.ratio(self.ratio) if self.ratio else "–"
        noise = figures.ratio(self.noise) if self.noise else "–"
        return [self.suite, self.row, self.figure, self.best, ratio, noise, self.floor]


def is_rival(row: RowData) -> bool:
    """Whether the row is a rival of oneloop that was measured."""
    name = row["rival"]
    if row["status"] != "ok" or name.endswith((AGAIN, "-again")):
        return False
    return SUBJECT not in name and not name.startswith(NO_RIVALS)


def is_subject(row: RowData) -> bool:
    """Whether oneloop itself did the work: as `oneloop`, or in one of its ways (`green on oneloop`, `oneloop-tls`)."""
    name = row["rival"]
    if row["status"] != "ok" or name.endswith(AGAIN):
        return False
    return name.startswith(SUBJECT) or name in WAYS


def _cost(row: RowData, metric: str) -> float:
    found = row["summary"].get(metric)
    return found["median"] if found else float("inf")


def _series(row: RowData, metric: str) -> list[float | None]:
    return [sample.get(metric) if sample else None for sample in row["samples"]]


def ratio(row: RowData, other: RowData | None, metric: str) -> SummaryData | None:
    """The ratios within the rounds of two rows of a case; None if there are none."""
    if other is None:
        return None
    ratios = pair_ratios(_series(row, metric), _series(other, metric))
    if not ratios:
        return None
    found = summarize(ratios)
    return SummaryData(median=found.median, low=found.low, high=found.high, q1=found.q1, q3=found.q3, count=found.count)


def best_rival(case: CaseData, metric: str, row: RowData) -> RowData | None:
    """The rival to which a row's ratio is the highest; None if none was measured.

    Rivals that share no round with the row come last, the cheapest of them first.
    """

    def strength(rival: RowData) -> tuple[float, float]:
        found = ratio(row, rival, metric)
        return (found["median"] if found else 0.0, -_cost(rival, metric))

    rivals = [other for other in case["rows"] if is_rival(other) and metric in other["summary"]]
    return max(rivals, key=strength, default=None)


def _noise(case: CaseData, metric: str) -> SummaryData | None:
    """The ratio of a rival to itself, if one was measured twice."""
    by_name = {row["rival"]: row for row in case["rows"] if row["status"] == "ok"}
    again = next((row for name, row in by_name.items() if name.endswith(AGAIN)), None)
    return ratio(again, by_name.get(again["rival"].removesuffix(AGAIN)), metric) if again else None


def _notes(*rows: RowData | None) -> tuple[str, ...]:
    named = [f"{row['rival']} {note}" for row in rows if row for note in row["notes"] if note not in PLAIN_NOTES]
    return tuple(dict.fromkeys(named))


def lines(case: CaseData) -> list[Line]:
    """The rows of a case: for its main figure and each further one, one for each way in which oneloop does the work."""
    found = []
    for metric in (case["metric"], *case.get("also", [])):
        floors = [row for row in case["rows"] if row["rival"].startswith(FLOORS) and row["status"] == "ok"]
        floor = next((figures.median(row, metric) for row in floors if not row["rival"].endswith(AGAIN)), "–")
        what = "" if metric == case["metric"] else f": {HEADINGS.get(metric, metric)}"
        for row in filter(is_subject, case["rows"]):
            best = best_rival(case, metric, row)
            text = f"{figures.median(best, metric)} {best['rival']}" if best else "–"
            way = "" if row["rival"] == SUBJECT else f" ({row['rival']})"
            found.append(
                Line(
                    case["suite"],
                    case["name"] + what + way,
                    figures.median(row, metric),
                    text,
                    ratio(row, best, metric),
                    _noise(case, metric),
                    floor,
                    _notes(row, best),
                )
            )
    return found


def table(rows: Iterable[Line]) -> str:
    """The rows as a table of Markdown."""
    text = ["| " + " | ".join(HEADS) + " |", "|---|---|---:|---:|---:|---:|---:|"]
    text += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row.cells()) + " |" for row in rows]
    return "\n".join(text) + "\n"


def tables(docs: Iterable[Document]) -> tuple[str, str]:
    """The table of all rows, and the table of those where oneloop is not first."""
    every = [line for doc in docs for case in doc["cases"] for line in lines(case)]
    return table(every), table(line for line in every if not line.leads)


def main(args: list[str]) -> int:
    """Args: the documents of runs."""
    if not args:
        print("usage: python -m bench.report.page RUN.json…", file=sys.stderr)
        return 2
    every, behind = tables([load(Path(name)) for name in args])
    print(f"{every}\nWhere oneloop does not lead:\n\n{behind}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
