"""The mutants' records fit the source as it is; whether tests kill them, `make mutants` finds out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import records
from tests.mutants.records import CARGO, Mutant, RecordError
from tests.programs import ROOT

MUTANTS = records.load()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_can_be_applied_and_names_tests(mutant: Mutant) -> None:
    assert mutant.applied(ROOT) != (ROOT / mutant.file).read_text()
    for test in mutant.tests:
        path, _, name = test.partition("::")
        if test.startswith(CARGO):
            continue
        assert (ROOT / path).exists(), test
        assert not name or f"def {name.partition('[')[0].rpartition('::')[2]}(" in (ROOT / path).read_text(), test


def test_text_that_is_not_there_once_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("twice twice")
    for old in ("gone", "twice"):
        with pytest.raises(RecordError, match="not once"):
            Mutant("name", "file", old, "new", ("tests",), "reason").applied(tmp_path)
    with pytest.raises(RecordError, match="there is no other"):
        Mutant("name", "other", "old", "new", ("tests",), "reason").applied(tmp_path)


def test_what_would_be_no_python_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("try:\n    work()\nfinally:\n    end()\n")
    with pytest.raises(RecordError, match=r"file\.py would be no Python: .*line 2"):
        Mutant("name", "file.py", "    work()\n", "", ("tests",), "reason").applied(tmp_path)


@pytest.mark.parametrize(
    "record",
    ["name = 'x'", "name='x'\nfile='f'\nold=''\nnew=''\ntests=['t']\nreason='r'"],
)
def test_a_record_lacks_nothing(tmp_path: Path, record: str) -> None:
    (tmp_path / "some.toml").write_text(f"[[mutant]]\n{record}\n")
    with pytest.raises(RecordError, match=r"some\.toml, record 1"):
        records.load(tmp_path)


def test_names_are_unique(tmp_path: Path) -> None:
    record = "[[mutant]]\nname='x'\nfile='f'\nold='o'\nnew=''\ntests=['t']\nreason='r'\n"
    (tmp_path / "some.toml").write_text(record * 2)
    with pytest.raises(RecordError, match="two records of one name: x"):
        records.load(tmp_path)
