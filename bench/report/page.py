"""The tables of docs/benchmarks.md, made from cases: `python -m bench.report.page RUN.json…` prints those of a run.

One row for each way in which oneloop does the work of a case. The best rival is the one to which oneloop's ratio is
the highest, among all rivals of the case: floors, programs that run on oneloop, and a rival under a second name are
none. The ratio is the median of the ratios within the rounds. The noise is that of a rival that was measured twice in
each round (`--again`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
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
    #: Whether oneloop was first in each round, or there is no rival.
    leads: bool
    notes: tuple[str, ...] = ()

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
        if not _cost(rival, metric):
            # No ratio to nothing exists.
            return (float("inf"), 0.0)
        return (found["median"] if found else 0.0, -_cost(rival, metric))

    rivals = [other for other in case["rows"] if is_rival(other) and metric in other["summary"]]
    return max(rivals, key=strength, default=None)


def noise(case: CaseData, metric: str) -> SummaryData | None:
    """The ratio of a rival to itself, if one was measured twice."""
    by_name = {row["rival"]: row for row in case["rows"] if row["status"] == "ok"}
    again = next((row for name, row in by_name.items() if name.endswith(AGAIN)), None)
    return ratio(again, by_name.get(again["rival"].removesuffix(AGAIN)), metric) if again else None


def _leads(row: RowData, best: RowData | None, metric: str) -> bool:
    """Whether a row is first, as it is printed: 1.00 is no lead, and neither is one that some round has not had."""
    if best is None:
        return True
    found = ratio(row, best, metric)
    return round(found["high"], 2) < 1 if found else _cost(row, metric) < _cost(best, metric)


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
                    noise(case, metric),
                    floor,
                    _leads(row, best, metric),
                    _notes(row, best),
                )
            )
    return found


def table(rows: Iterable[Line]) -> str:
    """The rows as a table of Markdown."""
    return _markdown(HEADS, 2, [row.cells() for row in rows])


def _markdown(heads: Sequence[str], words: int, rows: Iterable[Sequence[str]]) -> str:
    """A table whose first columns are words and whose others are figures."""
    text = ["| " + " | ".join(heads) + " |", "|" + "---|" * words + "---:|" * (len(heads) - words)]
    text += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(text) + "\n"


def exchanged_loops(case: CaseData) -> list[list[str]]:
    """For each program of the case that was measured on oneloop and on uvloop: what the other loop alone changes."""
    metric, by_name = case["metric"], {row["rival"]: row for row in case["rows"] if row["status"] == "ok"}
    found = []
    for name, row in by_name.items():
        program, is_on, loop = name.rpartition(" on ")
        other = by_name.get(f"{program} on uvloop")
        change = ratio(row, other, metric)
        if is_on and loop == SUBJECT and other and change:
            costs = [figures.median(each, metric) for each in (row, other)]
            found.append([case["suite"], case["name"], program, *costs, figures.ratio(change)])
    return found


def exchanged_table(lines: Iterable[Sequence[str]]) -> str:
    """The table of lines of `exchanged_loops`."""
    return _markdown(("suite", "row", "program", "on oneloop", "on uvloop", "ratio"), 3, lines)


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
