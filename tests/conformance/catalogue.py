"""What is run, what is left out and what is excused: reads `exceptions.toml` for one Python version.

Every module of the interpreter's `test.test_asyncio` is run. Three kinds of exception, all by name and with a reason:
  modules   never imported: whole modules, by pattern.
  dropped   never run, on either loop, so both counts are over the same tests; by pattern.
  excused   run on both loops, and expected not to pass on ours; by name, or a pattern for the variants of a class.
An entry that names nothing which exists fails the run, and so does an excused test that passes.
"""

from __future__ import annotations

import pkgutil
import sys
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

DATA_FILE = Path(__file__).with_name("exceptions.toml")

# What takes long, the longest first, so that two jobs end at about the same time. All others come after these.
LONG = (
    "test_events",
    "test_ssl",
    "test_subprocess",
    "test_sendfile",
    "test_tasks",
    "test_tools",
    "test_sock_lowlevel",
    "test_sslproto",
    "test_base_events",
    "test_unix_events",
    "test_streams",
    "test_server",
    "test_waitfor",
    "test_buffered_proto",
    "test_runners",
    "test_taskgroups",
    "test_timeouts",
)

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Entry:
    """One line of the data file that holds on this version: a module, test or pattern, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Catalogue:
    """The exceptions that hold on the running Python version."""

    modules: tuple[Entry, ...]
    dropped: tuple[Entry, ...]
    excused: tuple[Entry, ...]

    def all_modules(self) -> tuple[str, ...]:
        """Every module that is run, the longest first.

        Raises:
            ValueError: for an entry that leaves out a module which does not exist.
        """
        found = installed_modules()
        for entry in self.modules:
            if not any(fnmatchcase(name, entry.name) for name in found):
                raise ValueError(f"{DATA_FILE.name}: no module of this interpreter is named {entry.name}")
        chosen = [name for name in found if not any(fnmatchcase(name, entry.name) for entry in self.modules)]
        chosen.sort(key=lambda name: (LONG.index(name) if name in LONG else len(LONG), name))
        return tuple(chosen)

    def is_dropped(self, test_id: str) -> bool:
        return any(fnmatchcase(test_id, entry.name) for entry in self.dropped)

    def excuse(self, test_id: str) -> str | None:
        """The reason why this test may fail on oneloop, or None."""
        return next((entry.reason for entry in self.excused if fnmatchcase(test_id, entry.name)), None)

    def names_nothing(self, all_ids: set[str], modules: tuple[str, ...]) -> list[str]:
        """Entries about one of `modules` that match no test that exists."""
        stale = [
            f"{kind} {entry.name} matches no test"
            for kind, entries in (("dropped", self.dropped), ("excused", self.excused))
            for entry in entries
            if _module_of(entry.name) in modules and not any(fnmatchcase(test_id, entry.name) for test_id in all_ids)
        ]
        # An entry about a module that does not exist would otherwise never be looked at.
        stale += [
            f"{entry.name} is about no module that is run"
            for entry in self.dropped + self.excused
            if _module_of(entry.name) not in self.all_modules()
        ]
        return stale


def _module_of(name: str) -> str:
    return name.partition(".")[0]


def installed_modules() -> list[str]:
    """The names of all modules with tests that the running interpreter's `test.test_asyncio` has."""
    import test.test_asyncio

    return sorted(
        module.name for module in pkgutil.iter_modules(test.test_asyncio.__path__) if module.name.startswith("test_")
    )


def load(version: str = VERSION) -> Catalogue:
    """Read the data file for one Python version.

    Raises:
        ValueError: for an entry without a reason or with an unknown key.
    """
    data = tomllib.loads(DATA_FILE.read_text())
    kinds: dict[str, list[Entry]] = {"modules": [], "dropped": [], "excused": []}
    for kind, groups in data.items():
        if kind not in kinds:
            raise ValueError(f"{DATA_FILE.name}: unknown section {kind!r}")
        for group in groups:
            unknown = set(group) - {"reason", "versions", "names"}
            if unknown or not group.get("reason") or not group.get("names"):
                raise ValueError(f"{DATA_FILE.name}: an entry of {kind} needs reason and names, has {sorted(group)}")
            if version in group.get("versions", [version]):
                kinds[kind] += [Entry(name, group["reason"]) for name in group["names"]]
    return Catalogue(tuple(kinds["modules"]), tuple(kinds["dropped"]), tuple(kinds["excused"]))
