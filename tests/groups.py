"""`python -m tests.groups`: runs the tests of a tier in groups. Each group is a process; several run at the same time.

The groups are separate processes for another reason too: the ecosystem tests and the farm of tests/check have child
processes that tests of `waitpid(-1)` would find, and c-ares has a thread that would disturb tests of deadlocks.

When a group ends, its output is printed: the whole output if it failed, otherwise the last lines. Then tests that
failed are run again (tests/harness/again.py). The last lines: the flaky and the failed tests, a line for each group,
the sums. The exit status is 0 if the run passed. The tiers are in CONTRIBUTING.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.harness import again
from tests.harness.running import PYTEST, RECORDED, ROOT, Group, Outcome, run_all

TIERS = ("landing", "core", "smoke")
ONE_ENGINE = {"ONELOOP_TEST_ENGINES": os.environ.get("ONELOOP_TEST_ENGINES", "ring")}
"""The file engines on which a landing runs the file tests; tests/file/test_engines.py has them all."""

NOT_CORE = {"tests/ecosystem", "tests/examples", "tests/bench"}
"""What is not about a version of Python: programs of others, whole applications, and the benchmark."""

SMOKE = (
    "tests/aio/test_requests.py",
    "tests/check/test_command.py",
    "tests/cli/test_run.py",
    "tests/client/test_requests.py",
    "tests/client/test_threads.py",
    "tests/differential/test_regressions.py",
    "tests/docs/test_documents.py",
    "tests/faults/test_disk.py",
    "tests/file/test_whole.py",
    "tests/fuzz/test_corpora.py",
    "tests/green/test_monkey.py",
    "tests/harness/test_catalogue.py",
    "tests/http/test_asgi_messages.py",
    "tests/loop/test_subprocess.py",
    "tests/package/test_import.py",
    "tests/property/test_files.py",
    "tests/reports/test_loop.py",
    "tests/stress/test_connections.py",
    "tests/tls/test_ends.py",
    "tests/transport/test_stream.py",
)
"""One file of each room: what a landing runs on the oldest and the newest Python, beside the conformance tests.

Of the client a second one: what ends with its thread depends on the version's garbage collector.
"""


def _pytest(*paths: str) -> Group:
    name = ", ".join(path.removeprefix("tests/") for path in paths)
    return Group(name, [*PYTEST, *RECORDED, *paths], "pytest", ONE_ENGINE)


def _rest(taken: list[Group], core: bool) -> Group:
    """A group of all test directories that are in no other group, so that a new directory is not forgotten."""
    named = {path for group in taken for path in group.command}
    left_out = NOT_CORE if core else set()
    found = sorted({f"tests/{path.relative_to(ROOT / 'tests').parts[0]}" for path in ROOT.glob("tests/*/**/test_*.py")})
    return _pytest(*[path for path in found if path not in named | left_out])


def _http() -> list[Group]:
    """The tests of the server, those of HTTP/2 for themselves: both wait for most of their time."""
    of_http2 = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("tests/http/test_h*2*.py"))]
    others = _pytest("tests/http")
    command = [*others.command, *(f"--ignore={path}" for path in of_http2)]
    return [
        Group("http", command, others.kind, others.environment),
        Group("http2", _pytest(*of_http2).command, others.kind, others.environment),
    ]


def groups(tier: str) -> list[Group]:
    """Return the groups of a tier, the longest first.

    `landing` is everything, `core` is without Rust, ecosystem, bench and stubs, `smoke` is conformance and a file of
    each room.
    """
    conformance = Group("conformance", [sys.executable, "-m", "tests.conformance", "--jobs", "1"], "suite")
    if tier == "smoke":
        smoke = _pytest(*SMOKE)
        return [conformance, Group("smoke", smoke.command, smoke.kind, smoke.environment)]
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    rust = Group("Rust", ["scripts/rust-tests.sh", version], "cargo")
    stubs = Group("stubs", [sys.executable, "-m", "mypy.stubtest", "--ignore-missing-stub", "oneloop._native"])
    server, http2 = _http()
    rooms = [
        server,
        _pytest("tests/file", "tests/aio"),
        _pytest("tests/loop", "tests/transport", "tests/tls"),
        http2,
        conformance,
        _pytest("tests/client"),
        _pytest("tests/check"),
        _pytest("tests/green"),
    ]
    if tier == "core":
        return [_rest(rooms, core=True), *rooms]
    ecosystem = _pytest("tests/ecosystem", "tests/examples")
    return [ecosystem, _rest([ecosystem, *rooms], core=False), *rooms, rust, stubs]


def report(outcomes: list[Outcome], verdict: again.Verdict, file: Path) -> None:
    """Print the last lines; what they say of flaky and failed tests is written into a file too, for .ci/run."""
    lines = [
        f"FLAKY  {name}: passed when run again alone" + f", attempt {attempts}" * bool(attempts)
        for name, attempts in verdict.flaky.items()
    ]
    lines += [f"FAILED {name}: {why}" for name, why in verdict.failed.items()]
    if len(verdict.flaky) > again.MOST_FLAKY:
        lines.append(f"FAILED because more than {again.MOST_FLAKY} tests are flaky")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines))
    print("".join(f"{line}\n" for line in lines), end="")
    for outcome in sorted(outcomes, key=lambda outcome: -outcome.time_s):
        said = ", ".join(f"{number} {name}" for name, number in outcome.sums().items())
        print(f"{'ok    ' if outcome.status == 0 else 'not ok'} {outcome.time_s:5.0f} s  {outcome.group.name}: {said}")
    sums = again.sums_after(outcomes, verdict)
    print(f"{sums['passed']} passed, {sums['failed']} failed, {sums['skipped']} skipped")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.groups", description=__doc__)
    parser.add_argument("--tier", choices=TIERS, default="landing")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 2, help="number of parallel groups")
    parser.add_argument("names", nargs="*", help="only groups whose name contains one of these")
    arguments = parser.parse_args()
    chosen = [
        group
        for group in groups(arguments.tier)
        if not arguments.names or any(name in group.name for name in arguments.names)
    ]
    began_s = time.monotonic()
    outcomes = run_all(chosen, arguments.jobs)
    verdict = again.judge(outcomes)
    print(f"=== {time.monotonic() - began_s:.0f} s in total")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    report(outcomes, verdict, ROOT / f".build/verdict-{version}-{arguments.tier}.txt")
    return 0 if outcomes and verdict.passes() else 1


if __name__ == "__main__":
    sys.exit(main())
