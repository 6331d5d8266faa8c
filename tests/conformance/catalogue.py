"""What is run, what is left out and what is excused: reads `exceptions.toml` for one Python version.

Two kinds of exception, both by name and with a reason:
  dropped   never run, on either loop, so both counts are over the same tests; by pattern.
  excused   run on both loops, and expected not to pass on ours; one exact name each.
An entry that names nothing which exists fails the run, and so does an excused test that passes.
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

DATA_FILE = Path(__file__).with_name("exceptions.toml")

# The longest first, so that two jobs end at about the same time.
MODULES = (
    "test_events",
    "test_ssl",
    "test_subprocess",
    "test_sendfile",
    "test_tasks",
    "test_sock_lowlevel",
    "test_sslproto",
    "test_unix_events",
    "test_streams",
    "test_server",
    "test_server_context",
    "test_buffered_proto",
    "test_runners",
    "test_taskgroups",
    "test_timeouts",
    "test_eager_task_factory",
    "test_pep492",
    "test_futures",
    "test_futures2",
    "test_locks",
    "test_queues",
    "test_waitfor",
    "test_threads",
    "test_context",
    "test_staggered",
    "test_graph",
    "test_free_threading",
)

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Entry:
    """One line of the data file: a test or pattern, the versions that it speaks of, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Catalogue:
    """The exceptions that hold on the running Python version."""

    dropped: tuple[Entry, ...]
    excused: tuple[Entry, ...]

    def is_dropped(self, test_id: str) -> bool:
        return any(fnmatchcase(test_id, entry.name) for entry in self.dropped)

    def excuse(self, test_id: str) -> str | None:
        """The reason why this test may fail on oneloop, or None."""
        return next((entry.reason for entry in self.excused if entry.name == test_id), None)

    def names_nothing(self, all_ids: set[str], modules: tuple[str, ...]) -> list[str]:
        """Entries about one of `modules` that match no test that exists."""
        stale = [
            f"dropped pattern {entry.name} matches no test"
            for entry in self.dropped
            if _module_of(entry.name) in modules and not any(fnmatchcase(test_id, entry.name) for test_id in all_ids)
        ]
        stale += [
            f"excused test {entry.name} does not exist"
            for entry in self.excused
            if _module_of(entry.name) in modules and entry.name not in all_ids
        ]
        return stale


def _module_of(name: str) -> str:
    return name.partition(".")[0]


def load(version: str = VERSION) -> Catalogue:
    """Read the data file for one Python version.

    Raises:
        ValueError: for an entry without a reason or with an unknown key.
    """
    data = tomllib.loads(DATA_FILE.read_text())
    kinds: dict[str, list[Entry]] = {"dropped": [], "excused": []}
    for kind, groups in data.items():
        if kind not in kinds:
            raise ValueError(f"{DATA_FILE.name}: unknown section {kind!r}")
        for group in groups:
            unknown = set(group) - {"reason", "versions", "tests"}
            if unknown or not group.get("reason") or not group.get("tests"):
                raise ValueError(f"{DATA_FILE.name}: an entry of {kind} needs reason and tests, has {sorted(group)}")
            if version in group.get("versions", [version]):
                kinds[kind] += [Entry(test, group["reason"]) for test in group["tests"]]
    return Catalogue(tuple(kinds["dropped"]), tuple(kinds["excused"]))
