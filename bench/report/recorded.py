"""What the documents say about the run of record: the content of each kind of region.

```text
source                conditions: machine, versions, and for each suite its commit and date
cited                 the same in one sentence, for a document that shows few figures
rows                  the table of all rows
behind                the table of the rows where oneloop does not lead
exchanged             the same programs on oneloop and on uvloop
table + rows          the table of these rows, one `suite: row` in each line of the marker
full                  every rival of every row
picture FILE | TEXT   a chart
story                 the table of the six rows of the README
ratio ROW; A / B      the ratio of two rivals in a row, inside a sentence; with `; METRIC` behind it, of another figure
```

Rows of a suite whose code has changed since are marked. Without a record each region says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from bench.record import plan
from bench.record.store import Part, Record, read_cases
from bench.report import figures, page, pictures
from bench.report.document import CaseData
from bench.report.markdown import case_lines
from bench.report.page import Line
from bench.report.regions import Region

ABSENT = "\n*There is no run of record in this tree yet. `make record` makes one.*\n"
ABSENT_RATIO = "(not measured yet)"
OLD, UNCLEAN = "‡", "§"
#: In the region `source`: the suites that were marked when the documents were made.
_MARKED = "<!-- older than the code: "


@dataclass(frozen=True)
class Recorded:
    """A record with the suites whose code has changed since. Makes the content of regions."""

    record: Record
    stale: frozenset[str]

    @property
    def cases(self) -> list[CaseData]:
        return read_cases(self.record)

    def content(self, region: Region) -> str:
        """The content of a region; rows that are not in the record are named. Raises ValueError for an unknown name."""
        arguments = region.arguments
        if region.name == "source":
            return self._source()
        if region.name == "cited":
            marks = {mark for suite in self.record["suites"] for mark in self._marks(suite)}
            remarks = [f"\n{mark} {words}\n" for mark, words in MARKS.items() if mark in marks]
            return f"\n{self._cited()}\n{''.join(remarks)}"
        if region.name in ("rows", "behind"):
            return self._table(line for line in self._lines() if region.name == "rows" or not line.leads)
        if region.name == "exchanged":
            return self._exchanged()
        if region.name == "table":
            return self._chosen(region.lines)
        if region.name == "full":
            return self._full()
        if region.name == "picture":
            return self._picture(arguments)
        if region.name == "story":
            return self._story()
        if region.name == "ratio":
            return self._ratio(arguments)
        raise ValueError(f"there is no region {region.name!r}")

    def _marks(self, suite: str) -> str:
        part = self.record["suites"][suite]
        return (OLD if suite in self.stale else "") + (UNCLEAN if part["dirty"] or part["trial"] else "")

    def _marked(self, suite: str, row: str) -> str:
        return f"{row} {self._marks(suite)}".rstrip()

    def _lines(self) -> list[Line]:
        found = [line for case in self.cases for line in page.lines(case)]
        return [replace(line, row=self._marked(line.suite, line.row)) for line in found]

    def _table(self, lines: Iterable[Line]) -> str:
        shown = list(lines)
        text = f"\n{page.table(shown)}"
        marks = {mark for line in shown for mark in (OLD, UNCLEAN) if mark in self._marks(line.suite)}
        remarks = [f"{mark} {words}" for mark, words in MARKS.items() if mark in marks]
        remarks += [f"{line.suite}, {line.row}: {note}." for line in shown for note in line.notes]
        return text + "".join(f"\n{remark}\n" for remark in dict.fromkeys(remarks))

    def _exchanged(self) -> str:
        found = [line for case in self.cases for line in page.exchanged_loops(case)]
        shown = [[suite, self._marked(suite, row), *rest] for suite, row, *rest in found]
        seen = "".join(self._marks(suite) for suite in {suite for suite, *_ in found})
        remarks = [f"\n{mark} {words}\n" for mark, words in MARKS.items() if mark in seen]
        return f"\n{page.exchanged_table(shown)}{''.join(remarks)}"

    def _chosen(self, names: list[str]) -> str:
        by_case = {f"{case['suite']}: {case['name']}": page.lines(case) for case in self.cases}
        found = [line for name in names for line in by_case.get(name, [])]
        text = self._table(replace(line, row=self._marked(line.suite, line.row)) for line in found)
        absent_rows = [name for name in names if name not in by_case]
        return text + (f"\nNot measured yet: {'; '.join(absent_rows)}.\n" if absent_rows else "")

    def _full(self) -> str:
        lines = [line for case in self.cases for line in case_lines(case)]
        dagger = "† the generator was the bottleneck: the CPU time is valid, the throughput could be higher."
        return "\n".join(["", dagger, *lines, ""])

    def _picture(self, arguments: str) -> str:
        name, _, text = (part.strip() for part in arguments.partition("|"))
        known = pictures.pictures(self.cases)
        return f"\n![{text}]({name})\n" if name.rpartition("/")[2] in known else ABSENT

    def _story(self) -> str:
        rows = pictures.told(self.cases)
        lines = ["", "| | today | | oneloop | ratio |", "|---|---|---:|---:|---:|"]
        for row in rows:
            chapter = row.chapter
            ratio = f"{figures.ratio(row.ratio)}{self._marks(chapter.suite)}"
            lines.append(f"| {chapter.title} | {chapter.label} | {row.theirs} | {row.ours} | {ratio} |")
        marks = {mark for row in rows for mark in (OLD, UNCLEAN) if mark in self._marks(row.chapter.suite)}
        lines += [f"\n{mark} {words}" for mark, words in MARKS.items() if mark in marks]
        return "\n".join([*lines, ""]) if rows else ABSENT

    def _ratio(self, arguments: str) -> str:
        row, one, other, metric = ratio_arguments(arguments)
        case = {f"{case['suite']}: {case['name']}": case for case in self.cases}.get(row)
        rows = {found["rival"]: found for found in case["rows"]} if case else {}
        found = page.ratio(rows[one], rows.get(other), metric or case["metric"]) if case and one in rows else None
        if case is None or found is None:
            return ABSENT_RATIO
        return f"{figures.ratio(found)}{self._marks(case['suite'])}"

    def _groups(self) -> Iterator[tuple[Part, list[str]]]:
        """Suites that were measured under the same conditions."""
        seen: list[tuple[Part, list[str]]] = []
        for suite, part in self.record["suites"].items():
            for other, suites in seen:
                if _conditions(other) == _conditions(part):
                    suites.append(suite)
                    break
            else:
                seen.append((part, [suite]))
        yield from seen

    def _cited(self) -> str:
        found = []
        for part, suites in self._groups():
            names = "" if len(suites) == len(self.record["suites"]) else f" ({', '.join(suites)})"
            commits = dict.fromkeys(self.record["suites"][suite]["commit"] for suite in suites)
            dates = sorted({self.record["suites"][suite]["date"][:10] for suite in suites})
            found.append(
                f"Commit {', '.join(commits)}, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}, CPython "
                f"{part['versions']['python']}, {part['machine']['cpu']}, {part['machine']['cpus']} CPUs, "
                f"{part['machine']['kernel']}; {part['settings']['rounds']} rounds, each of "
                f"{part['settings']['duration_s']} s or of a fixed amount of work{names}."
            )
        return "\n".join(found)

    def _source(self) -> str:
        lines = ["", self._cited(), ""]
        for part, suites in self._groups():
            names = "" if len(suites) == len(self.record["suites"]) else f" ({', '.join(suites)})"
            versions = ", ".join(f"{name} {version}" for name, version in part["versions"].items())
            lines += [f"Versions{names}: {versions}.", ""]
        lines += ["| suite | commit | date | in use before | minutes | |", "|---|---|---|---:|---:|---|"]
        for suite, part in self.record["suites"].items():
            busy = part["machine"].get("busy", "–")
            lines.append(
                f"| {suite} | {part['commit']} | {part['date'][:10]} | {busy} | {part['took_s'] / 60:.1f} | "
                f"{self._marks(suite)} |"
            )
        marks = {mark for suite in self.record["suites"] for mark in self._marks(suite)}
        lines += [f"\n{mark} {words}" for mark, words in MARKS.items() if mark in marks]
        lines += self._measured_again()
        missing = self._missing()
        lines += [f"\nNot measured yet: {'; '.join(missing)}."] if missing else []
        return "\n".join([*lines, "", f"{_MARKED}{' '.join(sorted(self.stale))} -->", ""])

    def _measured_again(self) -> list[str]:
        """The rows of which one run was too noisy, and how noisy it was."""
        found = [
            f"{suite}: {case['name']} (±{case['other_noise']:.2f})"
            for suite, part in self.record["suites"].items()
            for case in part["cases"]
            if "other_noise" in case
        ]
        return [f"\nMeasured twice, because a rival differed from itself: {'; '.join(found)}."] if found else []

    def _missing(self) -> list[str]:
        """The rows that the suites have and the record has not."""
        known = {(case["suite"], case["name"]) for case in self.cases}
        return [
            f"{suite}: {case.name}"
            for suite in plan.RECORDED
            for case in plan.cases(suite)
            if (suite, case.name) not in known
        ]


MARKS = {
    OLD: "Older than the code: what this suite measures has changed since.",
    UNCLEAN: "No clean measurement: with uncommitted changes, or a trial.",
}


def _conditions(part: Part) -> tuple[object, ...]:
    """What must be equal for figures to be shown under one heading."""
    machine = {name: part["machine"][name] for name in ("cpu", "cpus", "kernel", "governor")}
    return (*machine.items(), *part["versions"].items(), *part["settings"].items())


def ratio_arguments(arguments: str) -> tuple[str, str, str, str]:
    """`suite: row; one / other` or `suite: row; one / other; metric`, which is empty else. Raises ValueError."""
    parts = [" ".join(part.split()) for part in arguments.split(";")]
    one, slash, other = parts[1].partition(" / ") if len(parts) in (2, 3) else ("", "", "")
    if not slash:
        raise ValueError(f"not of the form `suite: row; one / other; metric`: {arguments!r}")
    return parts[0], one, other, parts[2] if len(parts) == 3 else ""


def absent(region: Region) -> str:
    """The content of a region where there is no record."""
    return ABSENT_RATIO if region.name == "ratio" else ABSENT


def marked_as_stale(text: str) -> frozenset[str] | None:
    """The suites that a document marks as older than the code; None if it does not say."""
    _, found, rest = text.partition(_MARKED)
    return frozenset(rest.partition("-->")[0].split()) if found else None
