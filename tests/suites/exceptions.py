"""What is left out and what is excused of a suite: reads its `exceptions.toml` for one Python version.

Three kinds of exception, all by name or pattern and with a reason:
  left out  never started: whole modules or files; the section of the data has their name.
  dropped   never run.
  excused   run, and expected not to pass.
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Self

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Entry:
    """One line of the data file that holds on this version: a module, test or pattern, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Exceptions:
    """The exceptions that hold on the running Python version."""

    left_out: tuple[Entry, ...] = ()
    dropped: tuple[Entry, ...] = ()
    excused: tuple[Entry, ...] = ()

    def chosen(self, found: list[str], long: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the modules or files found that are run, the longest first."""
        chosen = [name for name in found if not any(fnmatchcase(name, entry.name) for entry in self.left_out)]
        chosen.sort(key=lambda name: (long.index(name) if name in long else len(long), name))
        return tuple(chosen)

    def excuse(self, name: str) -> str | None:
        """The reason why this test may fail on oneloop, or None."""
        return next((entry.reason for entry in self.excused if fnmatchcase(name, entry.name)), None)

    def leaves_out_nothing(self, found: list[str]) -> list[str]:
        """Entries that leave out a module or a file which does not exist."""
        return [
            f"there is nothing named {entry.name} to leave out"
            for entry in self.left_out
            if not any(fnmatchcase(name, entry.name) for name in found)
        ]

    def names_nothing(self, known: set[str], modules: tuple[str, ...]) -> list[str]:
        """Entries about one of `modules` that match no test that exists."""
        return [
            f"{kind} {entry.name} matches no test"
            for kind, entries in (("dropped", self.dropped), ("excused", self.excused))
            for entry in entries
            if module_of(entry.name) in modules and not any(fnmatchcase(name, entry.name) for name in known)
        ]

    @classmethod
    def load(cls, file: Path, parts: str, version: str = VERSION) -> Self:
        """Read a data file for one Python version; `parts` is the name of the section of what is left out.

        Raises:
            ValueError: for an entry without a reason or with an unknown key.
        """
        kinds: dict[str, list[Entry]] = {parts: [], "dropped": [], "excused": []}
        for kind, groups in tomllib.loads(file.read_text()).items():
            if kind not in kinds:
                raise ValueError(f"{file.name}: unknown section {kind!r}")
            for group in groups:
                unknown = set(group) - {"reason", "versions", "names"}
                if unknown or not group.get("reason") or not group.get("names"):
                    raise ValueError(f"{file.name}: an entry of {kind} needs reason and names, has {sorted(group)}")
                if version in group.get("versions", [version]):
                    kinds[kind] += [Entry(name, group["reason"]) for name in group["names"]]
        return cls(tuple(kinds[parts]), tuple(kinds["dropped"]), tuple(kinds["excused"]))


def module_of(name: str) -> str:
    return name.partition(".")[0]
