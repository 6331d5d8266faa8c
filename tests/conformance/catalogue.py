"""Which modules of the interpreter's `test.test_asyncio` are run, and what is left out or excused (`exceptions.toml`).

Every module is run. What is dropped runs on neither loop, so both counts are over the same tests; what is excused runs
on both. An entry that names nothing which exists, or excuses a test that passes, fails a strict run; it is a warning in
any other, for a new patch release of the interpreter may be its cause.
"""

from __future__ import annotations

import pkgutil
from fnmatch import fnmatchcase
from pathlib import Path

from tests.suites.exceptions import VERSION, Exceptions, module_of

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


class Catalogue(Exceptions):
    """The exceptions that hold on the running Python version."""

    def all_modules(self) -> tuple[str, ...]:
        """Every module that is run, the longest first."""
        return self.chosen(installed_modules(), LONG)

    def is_dropped(self, test_id: str) -> bool:
        return any(fnmatchcase(test_id, entry.name) for entry in self.dropped)

    def names_nothing(self, known: set[str], modules: tuple[str, ...]) -> list[str]:
        """Entries about one of `modules` that match no test that exists, and those about a module that does not."""
        return [*super().names_nothing(known, modules), *self.leaves_out_nothing(installed_modules())] + [
            f"{entry.name} is about no module that is run"
            for entry in self.dropped + self.excused
            if module_of(entry.name) not in self.all_modules()
        ]


def installed_modules() -> list[str]:
    """The names of all modules with tests that the running interpreter's `test.test_asyncio` has."""
    import test.test_asyncio

    return sorted(
        module.name for module in pkgutil.iter_modules(test.test_asyncio.__path__) if module.name.startswith("test_")
    )


def load(version: str = VERSION) -> Catalogue:
    return Catalogue.load(DATA_FILE, "modules", version)
