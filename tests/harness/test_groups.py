"""`python -m tests.groups`: no test is left out, and no failure."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import groups
from tests.groups import Group, run, run_all, sums_of

TESTS = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("core", [False, True])
def test_each_directory_is_in_one_group(core: bool) -> None:
    named = Counter(
        argument for group in groups.groups(core=core) for argument in group.command if argument.startswith("tests/")
    )
    there = {f"tests/{path.relative_to(TESTS).parts[0]}" for path in TESTS.glob("**/test_*.py")}
    if core:
        there -= {"tests/ecosystem", "tests/bench"}
    assert named == Counter(there)


@pytest.mark.parametrize(
    ("output", "sums"),
    [
        ("====== 3 failed, 10 passed, 1 skipped, 2 errors in 9.25s (0:00:09) ======", (10, 5, 1)),
        ("5 passed in 1.53s", (5, 0, 0)),
        ("test result: ok. 31 passed; 0 failed; 2 ignored\ntest result: FAILED. 1 passed; 2 failed; 0", (32, 2, 0)),
        ("it said 5 passed", (0, 0, 0)),
    ],
)
def test_sums(output: str, sums: tuple[int, int, int]) -> None:
    found = sums_of(f"something\n{output}\n")
    assert (found["passed"], found["failed"], found["skipped"]) == sums


def test_a_group_that_fails_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    program = "for line in range(200): print('line', line)\nraise SystemExit(int(len({!r})))"
    bad, good = (Group(name, [sys.executable, "-c", program.format("x" * len(name))]) for name in ("bad", ""))
    found = run_all([bad, good], jobs=2)
    assert {outcome.group.name: outcome.status for outcome in found} == {"bad": 3, "": 0}
    said = capsys.readouterr().out
    assert "=== bad: FAILED with status 3" in said
    assert said.count("line 0\n") == 1
    assert said.count("line 199\n") == 2


def test_the_status_is_that_of_all(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = [Group("one", [sys.executable, "-c", "print('4 passed in 1.0s')"])]
    monkeypatch.setattr(groups, "groups", lambda core: made)
    monkeypatch.setattr(sys, "argv", ["groups"])
    assert groups.main() == 0
    assert capsys.readouterr().out.endswith("\n4 passed, 0 failed, 0 skipped\n")
    made.append(Group("two", [sys.executable, "-c", "raise SystemExit(1)"]))
    assert groups.main() == 1
    assert capsys.readouterr().out.endswith("\n4 passed, 1 failed, 0 skipped\n")
    # A group that counts its failure is not counted again.
    made.append(Group("three", [sys.executable, "-c", "raise SystemExit('2 failed in 1.0s')"]))
    assert groups.main() == 1
    assert capsys.readouterr().out.endswith("\n4 passed, 3 failed, 0 skipped\n")
    monkeypatch.setattr(sys, "argv", ["groups", "one", "three"])
    assert groups.main() == 1
    assert capsys.readouterr().out.endswith("\n4 passed, 2 failed, 0 skipped\n")
    monkeypatch.setattr(sys, "argv", ["groups", "nothing"])
    assert groups.main() == 1


def test_what_a_test_leaves_behind_holds_nothing_up() -> None:
    """A child that keeps the standard output."""
    program = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], stdin=3)"
    )
    outcome = run(Group("leaves", [sys.executable, "-c", program.replace(", stdin=3", ", stdin=subprocess.PIPE")]))
    assert outcome.status == 0


def test_groups_share_no_temporary_folder() -> None:
    program = "import os; print(os.environ['PYTEST_DEBUG_TEMPROOT']); os.stat(os.environ['PYTEST_DEBUG_TEMPROOT'])"
    found = run_all([Group(name, [sys.executable, "-c", program]) for name in ("one", "two")], jobs=2)
    folders = {outcome.output.strip() for outcome in found}
    assert [outcome.status for outcome in found] == [0, 0]
    assert len(folders) == 2
    assert not any(Path(folder).exists() for folder in folders)
