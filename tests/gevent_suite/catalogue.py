"""Which files of gevent's tests are run, and what is left out or excused (`exceptions.toml`).

Every file is run. What is dropped is so because its subject is no part of gevent's interface. An entry that names
nothing which exists, or excuses a test that passes, fails a strict run; it is a warning in any other.
"""

from __future__ import annotations

from pathlib import Path

from tests.suites.exceptions import Exceptions, module_of

DATA_FILE = Path(__file__).with_name("exceptions.toml")


class Catalogue(Exceptions):
    """The exceptions that hold on the running Python version."""

    def all_files(self, folder: Path) -> tuple[str, ...]:
        """Every file that is run, from where gevent's wheel was unpacked."""
        return self.chosen(files_in(folder), ())

    def dropped_of(self, file: str) -> list[str]:
        """The patterns of the tests of a file that are not run, without the name of the file."""
        return [entry.name.removeprefix(f"{file}.") for entry in self.dropped if module_of(entry.name) == file]


def files_in(folder: Path) -> list[str]:
    return [path.stem for path in (folder / "gevent" / "tests").glob("test_*.py")]


def load() -> Catalogue:
    return Catalogue.load(DATA_FILE, "files")
