"""The conformance run's lists: nothing is left out without a name and a reason, and nothing that is named is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import catalogue
from tests.conformance.catalogue import Catalogue
from tests.suites.exceptions import Entry


def test_every_installed_module_runs_but_those_for_windows() -> None:
    left_out = set(catalogue.installed_modules()) - set(catalogue.load().all_modules())
    assert left_out == {"test_windows_events", "test_windows_utils"}


def test_a_module_that_takes_long_comes_first() -> None:
    modules = catalogue.load().all_modules()
    assert modules[0] == catalogue.LONG[0]
    assert len(set(modules)) == len(modules)


def test_an_entry_that_names_no_module_is_an_error() -> None:
    stale = Catalogue(left_out=(Entry("test_gone", "because"),), dropped=(), excused=())
    with pytest.raises(ValueError, match="test_gone"):
        stale.all_modules()


def test_entries_that_name_no_test_are_told() -> None:
    entries = (Entry("test_tasks.Gone.test_x", "because"), Entry("test_gone.*", "because"))
    told = Catalogue(left_out=(), dropped=entries, excused=()).names_nothing({"test_tasks.Is.test_x"}, ("test_tasks",))
    assert told == ["dropped test_tasks.Gone.test_x matches no test", "test_gone.* is about no module that is run"]


@pytest.mark.parametrize(
    "text",
    ["[[dropped]]\nnames = ['test_tasks.*']", "[[excused]]\nreason = 'x'", "[[other]]\nreason = 'x'\nnames = ['x']"],
)
def test_an_entry_needs_names_and_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    file = tmp_path / "exceptions.toml"
    file.write_text(text)
    monkeypatch.setattr(catalogue, "DATA_FILE", file)
    with pytest.raises(ValueError, match=r"exceptions\.toml"):
        catalogue.load()
