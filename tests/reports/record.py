"""`Report`: one public report, as a file in `records` describes it."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent / "records"
#: The files of `records`, in the order of the page, and their headings there.
AREAS = {
    "loop": "Event loops",
    "tls": "TLS",
    "processes": "Child processes and signals",
    "green": "Green threads",
    "files": "Files",
    "server": "HTTP servers",
    "websocket": "WebSockets",
    "check": "Link checkers",
}

_SOURCE = re.compile(r"[\w.-]+/[\w.-]+#\d+")


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report, or several about the same fault.

    Args:
        area: one of `AREAS`.
        name: what the fault is, in a few words.
        sources: the threads, as `owner/repository#number`, the oldest first.
        filed: when the newest of them was opened or, where an old one goes on, its last word: a year, month, or day.
        seen: what a program saw there.
        right: what is right, and says whom by if not the report.
        wrong: originals that are wrong, with their versions: tried here, unless it says "reported".
        oneloop: `right` where it held when it was tried, `mended`, or `wrong: ` and what is missing.
        tests: what shows it, as `path::function`.
    """

    area: str
    name: str
    sources: list[str]
    filed: str
    seen: str
    right: str
    wrong: str
    oneloop: str
    tests: list[str]

    def __post_init__(self) -> None:
        assert self.area in AREAS, self.area
        assert self.sources, self.name
        for source in self.sources:
            assert _SOURCE.fullmatch(source), source
        assert re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", self.filed), self.filed
        assert re.fullmatch(r"right|mended|wrong: .+", self.oneloop), self.oneloop
        assert self.tests, self.name
        for text in (self.name, self.seen, self.right, self.wrong):
            assert text, self.name
            assert "|" not in text, f"{self.name}: a table has no such character"
            assert "\n" not in text, self.name


def reports() -> list[Report]:
    """All records, in the order of the page."""
    found = []
    for area in AREAS:
        with (FOLDER / f"{area}.toml").open("rb") as file:
            found += [Report(area=area, **record) for record in tomllib.load(file)["report"]]
    return found


@functools.cache
def functions(path: str) -> set[str]:
    """The test functions of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_")}
