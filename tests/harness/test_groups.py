"""`python -m tests.groups`: no test is left out, no failure is lost, and what must not be run again is not."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import groups
from tests.harness import again
from tests.harness.running import RECORDED, Group, run, run_all, sums_of

TESTS = Path(__file__).resolve().parent.parent


def files_of(group: Group) -> set[str]:
    """The test files that a group's pytest collects."""
    found: set[str] = set()
    for argument in group.command:
        path = TESTS.parent / argument
        if argument.startswith("tests/"):
            inside = path.glob("**/test_*.py") if path.is_dir() else [path]
            found |= {file.relative_to(TESTS.parent).as_posix() for file in inside}
    return found - {
        argument.removeprefix("--ignore=") for argument in group.command if argument.startswith("--ignore=")
    }


@pytest.mark.parametrize("tier", ["landing", "core"])
def test_each_file_is_in_one_group(tier: str) -> None:
    named = Counter(file for group in groups.groups(tier) for file in files_of(group))
    there = {path.relative_to(TESTS.parent).as_posix() for path in TESTS.glob("**/test_*.py")}
    if tier == "core":
        there = {file for file in there if not file.startswith(tuple(f"{room}/" for room in groups.NOT_CORE))}
    assert named == Counter(there)


def test_the_smoke_tier_has_a_file_of_each_room() -> None:
    there = {f"tests/{path.relative_to(TESTS).parts[0]}" for path in TESTS.glob("**/test_*.py")} - groups.NOT_CORE
    assert {"/".join(path.split("/")[:2]) for path in groups.SMOKE} == there
    assert len(set(groups.SMOKE)) == len(groups.SMOKE)
    assert all((TESTS.parent / path).is_file() for path in groups.SMOKE)


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


@pytest.fixture
def status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Status:
    return Status(monkeypatch, tmp_path)


class Status:
    """The command line over groups that a test makes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.made: list[Group] = []
        self._monkeypatch = monkeypatch
        self.verdict_file = folder / f".build/verdict-{sys.version_info[0]}.{sys.version_info[1]}-landing.txt"
        monkeypatch.setattr(groups, "groups", lambda tier: self.made)
        monkeypatch.setattr(groups, "ROOT", folder)

    def __call__(self, *names: str) -> int:
        self._monkeypatch.setattr(sys, "argv", ["groups", *names])
        return groups.main()


def test_the_status_is_that_of_all(status: Status, capsys: pytest.CaptureFixture[str]) -> None:
    status.made.append(Group("one", [sys.executable, "-c", "print('4 passed in 1.0s')"]))
    assert status() == 0
    assert capsys.readouterr().out.endswith("\n4 passed, 0 failed, 0 skipped\n")
    status.made.append(Group("two", [sys.executable, "-c", "raise SystemExit(1)"]))
    assert status() == 1
    said = capsys.readouterr().out
    assert "\nFAILED two: status 1\n" in said
    assert said.endswith("\n4 passed, 1 failed, 0 skipped\n")
    assert status("one", "three") == 0
    assert status("nothing") == 1


def sample(folder: Path, source: str) -> Group:
    """A group of pytest with one file of tests, which are not under tests/conftest.py."""
    (folder / "test_sample.py").write_text(
        f"import ctypes, os, signal, time\nfrom pathlib import Path\nimport pytest\n{source}"
    )
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", f"--rootdir={folder}", "-p", "no:cacheprovider"]
    no_others = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return Group("sample", [*command, *RECORDED, str(folder / "test_sample.py")], "pytest", no_others)


FAILS_FIRST = """
def test_{name}(at=Path({file!r})):
    tried = int(at.read_text()) if at.exists() else 0
    at.write_text(str(tried + 1))
    assert tried >= {times}
"""


@pytest.mark.parametrize(("times", "expected"), [(0, 0), (1, 0), (2, 0), (3, 1)])
def test_what_fails_is_run_again_at_most_twice(
    status: Status, tmp_path: Path, times: int, expected: int, capsys: pytest.CaptureFixture[str]
) -> None:
    source = FAILS_FIRST.format(name="sometimes", file=str(tmp_path / "tried"), times=times)
    status.made.append(sample(tmp_path, source + "def test_good(): pass\n"))
    assert status() == expected
    said = capsys.readouterr().out
    name = "test_sample.py::test_sometimes"
    assert (tmp_path / "tried").read_text() == str(min(times + 1, 3))
    flaky = f"FLAKY  {name}: passed when run again alone, attempt {times}\n"
    verdict = {0: "", 1: flaky, 2: flaky, 3: f"FAILED {name}: failed 3 times\n"}[times]
    assert verdict in said
    assert status.verdict_file.read_text() == verdict
    assert said.endswith("\n2 passed, 0 failed, 0 skipped\n" if expected == 0 else "\n1 passed, 1 failed, 0 skipped\n")


@pytest.mark.parametrize(("number", "expected"), [(again.MOST_FLAKY, 0), (again.MOST_FLAKY + 1, 1)])
def test_many_flaky_tests_are_a_failure(status: Status, tmp_path: Path, number: int, expected: int) -> None:
    status.made.append(
        sample(
            tmp_path,
            "".join(FAILS_FIRST.format(name=n, file=str(tmp_path / f"tried{n}"), times=1) for n in range(number)),
        )
    )
    assert status() == expected
    assert ("FAILED because" in status.verdict_file.read_text()) == bool(expected)


def test_what_fails_everywhere_is_not_run_again(status: Status, tmp_path: Path) -> None:
    number = again.MOST_AGAIN + 1
    status.made.append(
        sample(
            tmp_path,
            "".join(FAILS_FIRST.format(name=n, file=str(tmp_path / f"tried{n}"), times=1) for n in range(number)),
        )
    )
    assert status() == 1
    assert {(tmp_path / f"tried{n}").read_text() for n in range(number)} == {"1"}


NEVER_AGAIN = {
    "dies": ("os.kill(os.getpid(), signal.SIGKILL)", "its process ended with status -9"),
    "leaves": ("os._exit(0)", "its process ended with status 0"),
    "panics": ("print(\"thread '<unnamed>' panicked at src/lib.rs:1:1\"); assert False", "a panic"),
}


@pytest.mark.parametrize(("what", "why"), NEVER_AGAIN.values(), ids=NEVER_AGAIN)
def test_what_must_not_be_run_again_is_a_failure(
    status: Status, tmp_path: Path, what: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the tests behind it run all the same."""
    at = str(tmp_path / "tried")
    source = (
        f"def test_before(): pass\ndef test_bad():\n    with open({at!r}, 'a') as file: file.write('x')\n    {what}\n"
    )
    status.made.append(sample(tmp_path, source + "def test_behind(): pass\ndef test_last(): pass\n"))
    assert status() == 1
    assert Path(at).read_text() == "x"
    said = capsys.readouterr().out
    assert f"FAILED test_sample.py::test_bad: {why}\n" in said
    assert said.endswith("\n3 passed, 1 failed, 0 skipped\n")


def test_what_is_left_behind_is_a_failure(status: Status, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless the test had failed, for then it could not clean up."""
    source = f"""
from tests.harness.record import LeftBehindError
@pytest.fixture
def audit():
    yield
    raise LeftBehindError("a descriptor")
def test_passes(audit): pass
def test_fails(audit, at=Path({str(tmp_path / "tried")!r})):
    assert at.exists() or at.write_text("") != 0
"""
    status.made.append(sample(tmp_path, source))
    assert status() == 1
    said = capsys.readouterr().out
    assert "FAILED test_sample.py::test_passes: left something behind\n" in said
    assert "=== again, alone, attempt 1: test_sample.py::test_fails: failed" in said
    assert "=== again, alone, attempt 1: test_sample.py::test_passes" not in said


def test_the_interpreters_death_behind_the_last_test_is_a_failure(status: Status, tmp_path: Path) -> None:
    source = "def test_good():\n    import atexit; atexit.register(os.kill, os.getpid(), signal.SIGSEGV)\n"
    status.made.append(sample(tmp_path, source))
    assert status() == 1


@pytest.mark.parametrize(
    "what", ["raise KeyboardInterrupt", "pytest.exit('enough', returncode=0)"], ids=["interrupted", "left"]
)
def test_what_was_not_run_is_a_failure(
    status: Status, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Although what failed before that passes when it is run again."""
    flaky = FAILS_FIRST.format(name="sometimes", file=str(tmp_path / "tried"), times=1)
    status.made.append(sample(tmp_path, flaky + f"def test_ends():\n    {what}\ndef test_behind(): pass\n"))
    assert status() == 1
    assert "FAILED test_sample.py::test_behind: was not run: pytest ended with " in capsys.readouterr().out


def test_a_collection_that_ends_the_process_is_a_failure(status: Status, tmp_path: Path) -> None:
    status.made.append(sample(tmp_path, "os._exit(0)\n"))
    assert status() == 1


def test_what_cannot_be_collected_is_a_failure(status: Status, tmp_path: Path) -> None:
    status.made.append(sample(tmp_path, "import there_is_no_such_module\n"))
    assert status() == 1


SUITE = """#!/bin/sh
echo "$*" >>{at}
[ "$*" = "" ] || exit {status}
echo "note: oneloop: test_a.X.test_c passed only when run again alone"
echo "FAIL {line}"
exit 1
"""


@pytest.mark.parametrize(
    ("line", "again_status", "expected", "attempts"),
    [
        ("fails on oneloop: test_a.X.test_b", 0, 0, 1),
        ("passes on stock asyncio, skipped on oneloop: test_a.X.test_b", 1, 1, 2),
        ("dies by a signal on oneloop: test_a.X.test_b", 0, 1, 0),
    ],
)
def test_a_test_of_the_interpreter_is_run_again(
    status: Status,
    tmp_path: Path,
    line: str,
    again_status: int,
    expected: int,
    attempts: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script, at = tmp_path / "suite.sh", tmp_path / "tried"
    script.write_text(SUITE.format(at=at, line=line, status=again_status))
    status.made.append(Group("conformance", ["sh", str(script)], "suite"))
    assert status() == expected
    assert at.read_text() == "\n" + "--only test_a.X.test_b\n" * attempts
    assert "FLAKY  test_a.X.test_c: passed when run again alone\n" in capsys.readouterr().out


def test_other_groups_are_not_run_again(status: Status, tmp_path: Path) -> None:
    at = tmp_path / "tried"
    status.made.append(Group("stubs", ["sh", "-c", f"echo >>{at}; exit 1"]))
    assert status() == 1
    assert at.read_text() == "\n"


CARGO = """#!/bin/sh
# As cargo says it, with one target that fails and one that is well.
if [ "$*" = "" ]; then
cat <<'END'
running 3 tests
failures:

---- timers::late stdout ----
thread 'timers::late' panicked at crates/engine/src/timers.rs:3:5:
assertion failed

failures:
    timers::late

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

error: test failed, to rerun pass `-p oneloop-engine --lib`{died}
running 4 tests
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
error: 1 target failed:
    `-p oneloop-engine --lib`
END
exit 101
fi
echo "$*" >>{at}
echo "test result: ok. {found} passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s"
"""


@pytest.mark.parametrize(
    ("died", "found", "expected"),
    [
        ("", 1, 0),
        ("", 0, 1),
        (
            "\n\nCaused by:\n  process didn't exit successfully: `engine-1` (signal: 11, SIGSEGV: invalid reference)",
            1,
            1,
        ),
    ],
    ids=["passes", "not found", "dies"],
)
def test_a_rust_test_is_run_again(status: Status, tmp_path: Path, died: str, found: int, expected: int) -> None:
    script, at = tmp_path / "rust.sh", tmp_path / "tried"
    script.write_text(CARGO.format(died=died, at=at, found=found))
    status.made.append(Group("Rust", ["sh", str(script)], "cargo"))
    assert status() == expected
    line = "-p oneloop-engine --lib -- --exact timers::late --test-threads=1\n"
    assert (at.read_text() if at.exists() else "") == ("" if died else line * (1 if found else again.ATTEMPTS))


def test_a_crate_that_does_not_build_is_a_failure(status: Status, tmp_path: Path) -> None:
    said = "error[E0425]: cannot find value `x` in this scope\nerror: could not compile `oneloop-engine`"
    status.made.append(Group("Rust", ["sh", "-c", f"echo '{said}'; exit 101"], "cargo"))
    assert status() == 1


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
