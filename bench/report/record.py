"""The documents from the run of record: `make record-docs` writes them.

`--check` compares them with the record, `--release` also refuses figures that are old or not clean, and `--age` says
how old they are.

The documents are those with marked regions (`regions`), and the charts. Whether a suite is older than the code is found
by the digests of the record, when the documents are written; a comparison takes it from the documents.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench.process import ROOT
from bench.record import plan, source, store
from bench.record.store import Record
from bench.report import pictures
from bench.report.recorded import Recorded, absent, marked_as_stale
from bench.report.regions import filled, regions

#: Has the region `source`, and with it the suites that are marked as older than the code.
MAIN = "docs/benchmarks.md"
STORY_CHART = "docs/pictures/six-rows.svg"
CHARTS = ("docs/pictures/benchmarks-ratios.svg", "docs/pictures/benchmarks-costs.svg", STORY_CHART)


def documents(root: Path) -> list[str]:
    """The documents that have regions, relative to the root."""
    every = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    found = [path for path in every if path.exists() and regions(path.read_text(encoding="utf-8"))]
    return [path.relative_to(root).as_posix() for path in found]


def stale_suites(record: Record) -> frozenset[str]:
    """The suites whose code, in this tree, differs from what was measured."""
    return frozenset(
        suite
        for suite, part in record["suites"].items()
        if suite not in plan.RECORDED or part["sources"] != source.digests(ROOT, plan.folders(suite))
    )


def made(root: Path, record: Record | None, stale: frozenset[str]) -> dict[str, str | None]:
    """The documents and charts as they should be; None for a chart that should not exist."""
    recorded = Recorded(record, stale) if record else None
    found: dict[str, str | None] = {}
    for name in documents(root):
        text = (root / name).read_text(encoding="utf-8")
        found[name] = filled(text, recorded.content if recorded else absent)
    drawn = pictures.pictures(recorded.cases) if recorded else {}
    return found | {name: drawn.get(name.rpartition("/")[2]) for name in CHARTS}


def differing(root: Path, record: Record | None) -> list[str]:
    """The documents whose figures are not those of the record. Marks of old suites are taken as they are there."""
    stale = marked_as_stale((root / MAIN).read_text(encoding="utf-8")) or frozenset()
    wrong = []
    for name, text in made(root, record, stale).items():
        path = root / name
        if (path.read_text(encoding="utf-8") if path.exists() else None) != text:
            wrong.append(name)
    return wrong


def write(root: Path, record: Record | None) -> list[str]:
    """Writes what differs, with marks of suites that are older than the code. Returns the names."""
    stale = stale_suites(record) if record else frozenset[str]()
    written = []
    for name, text in made(root, record, stale).items():
        path = root / name
        if text is None:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(name)
    return written


def objections(root: Path, record: Record | None) -> list[str]:
    """Why this tree may not be released: its figures are missing, old, not clean, or not those of the record."""
    if record is None:
        return ["there is no run of record: `make record`"]
    found = [f"{suite} is not recorded" for suite in plan.RECORDED if suite not in record["suites"]]
    for suite, part in record["suites"].items():
        if part["trial"] or part["dirty"]:
            found.append(f"{suite} was measured with uncommitted changes, or as a trial")
    found += [f"{suite} is older than the code it measures: `make record`" for suite in sorted(stale_suites(record))]
    return found + [f"{name} has other figures: `make record-docs`" for name in differing(root, record)]


def age(record: Record | None) -> str:
    """What there is to say of the record, in a line."""
    if record is None:
        return "figures: no run of record yet"
    parts, stale = record["suites"], stale_suites(record)
    oldest = min(part["date"] for part in parts.values())
    days = (datetime.now(UTC) - datetime.fromisoformat(oldest).astimezone(UTC)).days
    missing = [suite for suite in plan.RECORDED if suite not in parts]
    said = f"figures: {len(parts)} suites recorded, {len(stale)} of them older than the code they measure"
    said += f"; not recorded: {', '.join(missing)}" if missing else ""
    return f"{said}; the oldest of {days} days ago"


def main(args: list[str]) -> int:
    """Returns the exit status: 1 if the documents differ or a release is refused, 2 if a trial would be written."""
    made_parser = argparse.ArgumentParser(prog="python -m bench.report.record", description=__doc__)
    made_parser.add_argument("--record", type=Path, default=store.FILE, help="the record, if it is not the tree's")
    made_parser.add_argument("--root", type=Path, default=ROOT, help="where the documents are, if not in this tree")
    made_parser.add_argument("--check", action="store_true", help="compare, write nothing")
    made_parser.add_argument("--release", action="store_true", help="also refuse figures that are old or not clean")
    made_parser.add_argument("--age", action="store_true", help="only say how old the record is")
    options = made_parser.parse_args(args)
    record = store.load(options.record)
    if options.age:
        print(age(record))
        return 0
    if options.check or options.release:
        wrong = objections(options.root, record) if options.release else differing(options.root, record)
        print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
        return int(bool(wrong))
    is_tree = options.root.resolve() == ROOT
    if record and is_tree and any(part["trial"] for part in record["suites"].values()):
        print("record: a trial is not written into the documents of this tree: give it another --root", file=sys.stderr)
        return 2
    print("\n".join(write(options.root, record)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
