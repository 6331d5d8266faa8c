""".ci/run in a tree of its own, with a `make` that only says something: its steps, its last line, its exit status."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.programs import ROOT

MAKE = """#!/bin/sh
echo "$*" >>"$CALLS"
for failing in $FAILING; do [ "$1" != "$failing" ] || { echo "make: error"; exit 2; }; done
case "$1" in
test)
    [ $FAILED = 0 ] || { mkdir -p .build && echo "FAILED one: why" >.build/verdict-3.13-landing.txt; }
    echo "5 passed, $FAILED failed, 1 skipped"
    exit $FAILED ;;
smoke-test) echo "2 passed, 0 failed, 3 skipped" ;;
esac
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for script in (".ci/run", "scripts/python.sh", "scripts/system-packages.sh", "bin/make", ".venvs/3.13/bin/python"):
        path = tmp_path / script
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "bin/make").write_text(MAKE)
    return tmp_path


def land(tree: Path, *, failing: str = "", failed: int = 0, until_s: int = 3600) -> tuple[int, list[str], list[str]]:
    """Run it; its exit status, the lines of its output, and the targets that were made."""
    calls = tree / "calls"
    calls.touch()
    own = {"CALLS": str(calls), "FAILING": failing, "FAILED": str(failed), "ONELOOP_SMOKE_BEGINS_UNTIL_S": str(until_s)}
    environment = {**os.environ, "PATH": f"{tree / 'bin'}:{os.environ['PATH']}", **own}
    ran = subprocess.run(
        ["bash", ".ci/run"],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout.splitlines(), [line.split()[0] for line in calls.read_text().splitlines()]


def test_all_is_well(tree: Path) -> None:
    (tree / ".build").mkdir()
    (tree / ".build/verdict-3.13-landing.txt").write_text("of an earlier run\n")
    status, said, made = land(tree)
    assert status == 0
    assert said[-1] == "9 passed, 0 failed, 7 skipped"
    assert made[3:] == ["lint", "test", "docs", "gevent-suite", "smoke-test", "smoke-test"]
    steps = said[said.index("=== summary") + 1 : -2]
    assert [line.split("  ")[0] for line in steps] == [
        "system packages",
        *(f"build, Python {version}" for version in ("3.13", "3.11", "3.15")),
        "lint",
        "make test, Python 3.13",
        "docs",
        "gevent's tests",
        *(f"smoke tests, Python {version}" for version in ("3.11", "3.15")),
    ]
    assert not any("earlier" in line for line in said)


@pytest.mark.parametrize("failing", ["setup", "setup-core", "lint", "docs", "gevent-suite", "smoke-test"])
def test_a_step_that_fails_is_counted_and_the_others_run(tree: Path, failing: str) -> None:
    status, said, made = land(tree, failing=failing)
    assert status == 1
    assert made[-1] == "smoke-test"
    assert int(said[-1].split()[2]) == {"setup-core": 2, "smoke-test": 2}.get(failing, 1)


def test_failed_tests_are_counted_once(tree: Path) -> None:
    status, said, _ = land(tree, failed=2)
    assert status == 1
    assert said[-2:] == ["FAILED one: why", "9 passed, 2 failed, 7 skipped"]


def test_a_slow_machine_leaves_out_the_smoke_tests_and_says_so(tree: Path) -> None:
    status, said, made = land(tree, until_s=0)
    assert status == 0
    assert "smoke-test" not in made
    assert sum("LEFT OUT" in line for line in said) == 2
    assert said[-1] == "5 passed, 0 failed, 1 skipped"


def test_a_version_that_is_not_here_is_left_out(tree: Path) -> None:
    script = '#!/bin/sh\n[ "$1" != 3.15 ] || { echo "no Python 3.15" >&2; exit 1; }\n'
    (tree / "scripts/python.sh").write_text(script)
    status, said, _ = land(tree)
    assert status == 0
    assert any("LEFT OUT: no Python 3.15" in line for line in said)
    assert said[-1] == "7 passed, 0 failed, 4 skipped"
