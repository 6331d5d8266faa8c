"""`python -m tests.changed`: runs the tests that differ from a commit, again and again, beside four busy loops.

Each of them must pass fifty times, or for five minutes. A test that fails once in fifty runs makes every twentieth
landing red when there are thousands like it. A test differs if its own source does, or if anything else in its file
does, apart from other tests. Files that tests share are only named: run what uses them by hand.

Each group of the landing (tests/groups.py) has a process of its own here as well: a thread that a test of one room has
left could wake what a test of another room expects nobody to wake.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.groups import ONE_ENGINE, groups
from tests.harness.running import PYTEST, RECORDED, ROOT, Group, run

ROUNDS = 50
TIME_S = 300.0
BUSY_LOOPS = 4


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


def last_landed(root: Path) -> str:
    """Return what tests are compared with if nothing is said: the remote main branch, or the last commit."""
    known = subprocess.run(
        ["git", "rev-parse", "-q", "--verify", "origin/main"], cwd=root, capture_output=True, check=False
    )
    return "origin/main" if known.returncode == 0 else "HEAD"


def parts_of(source: str) -> dict[str, str]:
    """Return the source of each test function, by its name with its class; what is between them is under ''."""
    found = {"": ""}

    def take(body: list[ast.stmt], inside: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                take(node.body, f"{inside}{node.name}::")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                found[f"{inside}{node.name}"] = ast.unparse(node)
            else:
                found[""] += ast.unparse(node) + "\n"

    take(ast.parse(source).body, "")
    return found


def changed_tests(root: Path, since: str) -> tuple[list[str], list[str]]:
    """Return the tests that differ from a commit, as pytest names them, and the changed files that tests share."""
    names = _git(root, "diff", "--name-only", "--diff-filter=d", since, "--", "tests/*.py").split()
    names += _git(root, "ls-files", "--others", "--exclude-standard", "--", "tests/*.py").split()
    tests, shared = [], []
    for name in sorted(set(names)):
        if not Path(name).name.startswith("test_"):
            shared.append(name)
            continue
        shown = subprocess.run(
            ["git", "show", f"{since}:{name}"], cwd=root, capture_output=True, text=True, check=False
        )
        before = parts_of(shown.stdout if shown.returncode == 0 else "")
        now = parts_of((root / name).read_text())
        is_whole = now.pop("") != before.pop("")
        tests += [name] if is_whole else [f"{name}::{test}" for test in now if now[test] != before.get(test)]
    return tests, shared


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep the processors busy."""
    started = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def in_groups(tests: list[str]) -> list[Group]:
    """Return the tests in the groups to which they belong."""
    found: dict[str, list[str]] = {}
    known = groups("landing")
    for test in tests:
        path = Path(test.partition("::")[0])
        places = [place.as_posix() for place in (path, *path.parents)]
        name = next((group.name for place in places for group in known if place in group.command), "others")
        found.setdefault(name, []).append(test)
    return [Group(name, [*PYTEST, *RECORDED, *chosen], "pytest", ONE_ENGINE) for name, chosen in found.items()]


def repeat(chosen: list[Group], rounds: int, time_s: float) -> tuple[Counter[str], Counter[str]]:
    """Run groups again and again; how often each test was run, and how often it failed."""
    ran: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    end_s = time.monotonic() + time_s
    for number in range(rounds):
        began_s = time.monotonic()
        outcomes = [run(group) for group in chosen]
        bad = [name for outcome in outcomes for name, how in outcome.tests.items() if how == "failed"]
        ran.update(name for outcome in outcomes for name in outcome.tests)
        failed.update(bad)
        for outcome in outcomes:
            if outcome.status:
                print(outcome.output, flush=True)
            if outcome.status and "failed" not in outcome.tests.values():
                failed[outcome.group.name] += 1
        count, took_s = sum(len(outcome.tests) for outcome in outcomes), time.monotonic() - began_s
        print(f"=== round {number + 1}: {count} tests, {len(bad)} failed, {took_s:.0f} s", flush=True)
        if time.monotonic() >= end_s:
            break
    return ran, failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.changed", description=__doc__)
    parser.add_argument("tests", nargs="*", help="these instead of what has changed")
    parser.add_argument("--since", help="the commit to compare with; by default origin/main, or HEAD without a remote")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--minutes", type=float, default=TIME_S / 60)
    parser.add_argument("--busy", type=int, default=BUSY_LOOPS, help="number of busy loops beside the tests")
    arguments = parser.parse_args()
    tests: list[str] = arguments.tests
    if not tests:
        tests, shared = changed_tests(ROOT, arguments.since or last_landed(ROOT))
        for name in shared:
            print(f"changed, and shared by tests: {name}")
    if not tests:
        print("no test has changed")
        return 0
    with busy(arguments.busy):
        ran, failed = repeat(in_groups(tests), arguments.rounds, arguments.minutes * 60)
    for name, times in failed.most_common():
        print(f"FAILED {times} of {ran[name]}: {name}")
    print(f"{sum(ran.values())} runs of {len(ran)} tests, {sum(failed.values())} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
