"""The conformance run's lists: nothing is left out without a name and a reason, and nothing that is named is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import catalogue, runner
from tests.conformance.__main__ import needless
from tests.conformance.catalogue import Catalogue
from tests.conformance.runner import LoopResults
from tests.suites.exceptions import Entry
from tests.suites.outcomes import Attempt, Outcome


def test_every_installed_module_runs_but_those_for_windows() -> None:
    left_out = set(catalogue.installed_modules()) - set(catalogue.load().all_modules())
    assert left_out == {"test_windows_events", "test_windows_utils"}


def test_a_module_that_takes_long_comes_first() -> None:
    modules = catalogue.load().all_modules()
    assert modules[0] == catalogue.LONG[0]
    assert len(set(modules)) == len(modules)


def test_an_entry_that_names_no_module_is_told() -> None:
    stale = Catalogue(left_out=(Entry("test_gone", "because"), Entry("test_ta*", "because")), dropped=(), excused=())
    assert "test_tasks" not in stale.all_modules()
    assert stale.names_nothing(set(), ()) == ["there is nothing named test_gone to leave out"]


def test_an_excused_test_that_passes_is_told() -> None:
    exceptions = Catalogue(left_out=(), dropped=(), excused=(Entry("test_a.*", "because"),))
    ended = [Outcome("test_a.test_good", "passed"), Outcome("test_a.test_bad", "failed"), Outcome("test_b.x", "passed")]
    results = LoopResults("oneloop", {one.name: one for one in ended})
    assert needless(results, exceptions) == ["excused, but passes: test_a.test_good (because)"]


@pytest.mark.parametrize(("status", "expected"), [(1, "passed"), (-11, "failed"), (runner.TOO_LONG, "passed")])
def test_a_death_by_a_signal_is_not_run_again(monkeypatch: pytest.MonkeyPatch, status: int, expected: str) -> None:
    """What hangs, or what the machine was too slow for, is."""

    def run_child(loop: str, module: str, limit_s: float, *, only: set[str] | None, skip: set[str]) -> Attempt:
        if only is None and not skip:
            return Attempt([], {"test_a.x"}, "test_a.x", status, "")
        return Attempt([Outcome("test_a.x", "passed")] if only else [], {"test_a.x"}, None, 0, "")

    monkeypatch.setattr(runner, "run_child", run_child)
    results = runner.run_module("oneloop", "test_a", 1.0, is_expected=lambda _: False)
    assert results.outcomes["test_a.x"].outcome == expected


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
