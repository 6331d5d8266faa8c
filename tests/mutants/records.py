"""`Mutant`: one mistake, written as a piece of source and what it becomes; read from `records/*.toml`.

    [[mutant]]
    name = "unique-and-telling"
    file = "crates/native/src/transport/flow.rs"
    old = "queued > self.high_water"       # found exactly once in the file, or the run fails
    new = "queued >= self.high_water"
    tests = ["tests/transport/test_water_marks.py"]     # pytest's names, or "cargo: what cargo test is given"
    reason = "what a program would see"

Whether tests fail is the runner's to find out.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

RECORDS = Path(__file__).with_name("records")
KEYS = {"name", "file", "old", "new", "tests", "reason"}
CARGO = "cargo:"


class RecordError(Exception):
    """A record that is wrong, or speaks of source that is no longer there."""


@dataclass(frozen=True)
class Mutant:
    """One mistake."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    reason: str

    @property
    def is_native(self) -> bool:
        """Whether the extension has to be built for its tests."""
        return self.file.startswith("crates/") and not all(test.startswith(CARGO) for test in self.tests)

    def applied(self, root: Path) -> str:
        """The file's text with the mistake in it.

        Raises:
            RecordError: unless `old` is there exactly once, or if what comes of it is no Python. Every test would fail.
        """
        path = root / self.file
        if not path.exists():
            raise RecordError(f"{self.name}: there is no {self.file}")
        text = path.read_text()
        if (count := text.count(self.old)) != 1:
            raise RecordError(f"{self.name}: {self.file} has the text to be changed {count} times, not once")
        mistaken = text.replace(self.old, self.new)
        if path.suffix == ".py":
            try:
                ast.parse(mistaken)
            except SyntaxError as error:
                raise RecordError(f"{self.name}: {self.file} would be no Python: {error}") from error
        return mistaken


def load(folder: Path = RECORDS) -> list[Mutant]:
    """All records, those first that need no build.

    Raises:
        RecordError: for one that lacks something, or has another's name.
    """
    mutants: list[Mutant] = []
    for path in sorted(folder.glob("*.toml")):
        for number, record in enumerate(tomllib.loads(path.read_text())["mutant"], start=1):
            if set(record) != KEYS or not all(value for key, value in record.items() if key != "new"):
                raise RecordError(f"{path.name}, record {number}: needs {', '.join(sorted(KEYS))}")
            mutants.append(Mutant(**{**record, "tests": tuple(record["tests"])}))
    names = [mutant.name for mutant in mutants]
    if twice := {name for name in names if names.count(name) > 1}:
        raise RecordError(f"two records of one name: {', '.join(sorted(twice))}")
    return sorted(mutants, key=lambda mutant: (mutant.is_native, mutant.file, mutant.name))
